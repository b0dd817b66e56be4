//! Bob's counters and the words it ends with.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{Facts, Verdict};
use sabir_core::event::{Activity, Cause, Outcome, Usage, UsageScope};
use sabir_core::json::{self, Str};
use serde::Deserialize;

/// `stats` of every version.
#[derive(Deserialize)]
pub(super) struct Stats<'a> {
    total_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached: Option<u64>,
    pub(super) duration_ms: Option<u64>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) task_id: Option<Str<'a>>,
    /// Counted in coins, which are Bob's own money: not a cost in dollars.
    #[serde(default, deserialize_with = "json::lenient")]
    session_costs: Option<f64>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    models: Option<BTreeMap<Str<'a>, Model>>,
}

#[derive(Deserialize)]
struct Model {
    tokens: Option<Tokens>,
}

/// Counters of a model in the `json` object of 1.x.
#[derive(Deserialize, Clone, Copy, Default)]
struct Tokens {
    prompt: Option<u64>,
    candidates: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
}

impl<'a> Stats<'a> {
    /// Reports the usage of the run.
    pub(super) fn report(&self, facts: &mut Facts<'a>) {
        for (name, model) in self.models.iter().flatten() {
            if let Some(tokens) = model.tokens {
                let output = tokens.candidates.map(|output| output.saturating_add(tokens.thoughts.unwrap_or(0)));
                let name = Some(Cow::Owned(name.0.clone().into_owned()));
                facts.push(usage(tokens.prompt, output, tokens.cached, tokens.thoughts, None, name));
            }
        }
        let by_model = self.models.as_ref().is_some_and(|models| !models.is_empty());
        if !by_model && (self.input_tokens.is_some() || self.output_tokens.is_some() || self.total_tokens.is_some()) {
            // 2.x gives no more than the total.
            let total = self.total_tokens.filter(|_| self.input_tokens.is_none() && self.output_tokens.is_none());
            facts.push(usage(self.input_tokens, self.output_tokens, self.cached, None, total, None));
        }
        if let Some(coins) = self.session_costs.filter(|coins| *coins > 0.0) {
            facts.push(Activity::new(format!("session cost: {coins} (Bob's own unit)")));
        }
    }
}

fn usage(
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    reasoning: Option<u64>,
    total_tokens: Option<u64>,
    model: Option<Cow<'_, str>>,
) -> Usage<'_> {
    Usage::new(UsageScope::Run)
        .input_tokens(input.map(|input| input.saturating_sub(cached.unwrap_or(0))))
        .output_tokens(output)
        .total_tokens(total_tokens)
        .cache_read_tokens(cached)
        .reasoning_tokens(reasoning)
        .model(model)
}

/// The error of a tool or of the run: an object, or in some versions only its message.
#[derive(Deserialize)]
pub(super) struct Problem<'a> {
    #[serde(borrow)]
    pub(super) message: Str<'a>,
}

/// How a run with that status ended.
pub(super) fn verdict(status: &str, message: Option<&str>) -> Verdict {
    let has = |word: &str| status.contains(word);
    let (outcome, cause) = match status {
        "success" | "completed" => return Verdict::of(Outcome::Completed),
        _ if has("cost") || has("budget") || has("coin") => (Outcome::Limited, Cause::Budget),
        _ if has("turn") => (Outcome::Limited, Cause::MaxTurns),
        _ if has("cancel") || has("abort") || has("interrupt") => return Verdict::of(Outcome::Cancelled),
        _ => (Outcome::Failed, message.map_or(Cause::Unknown, |message| Cause::of_error(None, message))),
    };
    Verdict { cause: Some(cause), ..Verdict::of(outcome) }
}
