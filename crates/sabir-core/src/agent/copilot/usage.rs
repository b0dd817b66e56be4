//! Tokens. Copilot prints them per model call, or only the output of each message, or not at all.

use std::borrow::Cow;

use super::wire::Data;
use crate::dialect::Facts;
use crate::event::{EventKind, UsageScope};

/// Follows the figures so that none counts twice.
#[derive(Default)]
pub(super) struct Usage {
    /// The event type that gives whole figures; another one repeats them.
    source: Option<String>,
    /// Output of the messages whose calls have no figures of their own.
    output: u64,
}

impl Usage {
    /// A model call with its figures: cached tokens are a part of the input.
    pub(super) fn call<'a>(&mut self, event: &str, data: Data<'a>, facts: &mut Facts<'a>) {
        if self.source.get_or_insert_with(|| event.to_owned()) != event {
            return;
        }
        let Data { model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, .. } = data;
        if [input_tokens, output_tokens].into_iter().flatten().all(|count| count == 0) {
            return;
        }
        let cached = cache_read_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
        facts.push(usage(
            // Input that is smaller than what was cached can't contain it.
            input_tokens.map(|input| input.checked_sub(cached).unwrap_or(input)),
            output_tokens,
            [cache_read_tokens, cache_write_tokens, reasoning_tokens],
            model.map(Cow::from),
            UsageScope::Message,
        ));
    }

    /// A message that says how long its output is.
    pub(super) fn message(&mut self, output: Option<u64>) {
        self.output = self.output.saturating_add(output.unwrap_or(0));
    }

    /// Tells the output of the messages, if nothing better was told.
    pub(super) fn end(&mut self, facts: &mut Facts<'static>) {
        if self.source.is_none() && self.output > 0 {
            facts.push(usage(None, Some(self.output), [None; 3], None, UsageScope::Run));
        }
    }
}

fn usage(
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    [cache_read_tokens, cache_write_tokens, reasoning_tokens]: [Option<u64>; 3],
    model: Option<Cow<'_, str>>,
    scope: UsageScope,
) -> EventKind<'_> {
    EventKind::Usage {
        input_tokens,
        output_tokens,
        total_tokens: None,
        cache_read_tokens,
        cache_write_tokens,
        cache_write_1h_tokens: None,
        reasoning_tokens,
        // Its `cost` is in premium requests.
        cost_usd: None,
        cost_parts: None,
        model,
        scope,
    }
}
