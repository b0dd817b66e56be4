//! Tokens. Copilot prints them per model call, or not at all. Messages may tell the length of their output alone, which
//! is left out: a part of the tokens would read as all of them.

use sabir_core::dialect::Facts;
use sabir_core::event::{self, UsageScope};

use super::wire::Data;

/// Follows the figures so that none counts twice.
#[derive(Default)]
pub(super) struct Usage {
    /// The event type that gives the figures; another one repeats them.
    source: Option<String>,
}

impl Usage {
    /// A model call with its figures: cached tokens are a part of the input, reasoning of the output.
    pub(super) fn call<'a>(&mut self, event: &str, data: Data<'a>, facts: &mut Facts<'a>) {
        if self.source.get_or_insert_with(|| event.to_owned()) != event {
            return;
        }
        let Data { model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, .. } = data;
        if [input_tokens, output_tokens].into_iter().flatten().all(|count| count == 0) {
            return;
        }
        let cached = cache_read_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
        // The reported `cost` is in premium requests, so there is no cost in dollars.
        facts.push(
            event::Usage::new(UsageScope::Message)
                // Input that is smaller than what was cached can't contain it.
                .input_tokens(input_tokens.map(|input| input.checked_sub(cached).unwrap_or(input)))
                .output_tokens(output_tokens)
                .cache_read_tokens(cache_read_tokens)
                .cache_write_tokens(cache_write_tokens)
                .reasoning_tokens(reasoning_tokens)
                .model(model),
        );
    }
}
