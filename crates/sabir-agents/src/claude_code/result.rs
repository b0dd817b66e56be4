//! `result` lines: usage, outcome and answer.
//!
//! Pitfalls:
//! - There is one per prompt, and one more each time a background task wakes the agent up.
//! - `modelUsage` and `total_cost_usd` are of the whole session, earlier runs included. The share of a result is in
//!   `model_usage_since_last_result` where the version has it, else the difference to the previous result.
//! - `subtype` is `success` for an API error too: `is_error` decides.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::event::{Cause, Outcome, TurnEnd, Usage, UsageScope};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;

use super::response::usage_event;
use super::stream::ClaudeCode;
use super::wire::{ModelUsage, ResultDetails};
use crate::family::anthropic::wire::{ResultLine, Usage as Counts};
use crate::family::anthropic::{RunResult, StreamJson};

/// Reads a result.
pub(super) fn result<'a>(
    stream: &mut StreamJson<ClaudeCode>,
    result: &ResultLine<'a>,
    line: &Line<'a>,
    facts: &mut Facts<'a>,
) -> RunResult<'a> {
    let details: ResultDetails<'a> = line.borrowed().and_then(json::parse).unwrap_or_default();
    let model = stream.messages.remove(&None).and_then(|message| message.response.model);
    if model.is_some() {
        facts.push(TurnEnd::default().stop_reason(result.stop_reason.as_deref().map(str::to_owned)));
    }
    // Helper models are listed too; the main one is the most expensive.
    let models = details.model_usage.iter().flatten();
    let main = models.reduce(|best, next| if weight(next.1) > weight(best.1) { next } else { best });
    stream.session(result, main.map(|(model, _)| model.clone()), facts);
    stream.variant.usage(result, &details, model, facts);
    let (outcome, cause) = outcome(result, &details);
    let text = match outcome {
        Outcome::Completed => answer(result, &details),
        // A stop on request is no error.
        Outcome::Cancelled | Outcome::Refused => None,
        _ => Some(error_message(result, &details)),
    };
    RunResult { outcome, cause, text: text.map(Cow::Owned) }
}

impl ClaudeCode {
    /// Pushes the usage since the previous result.
    fn usage<'a>(&mut self, result: &ResultLine<'a>, details: &ResultDetails<'a>, model: Option<String>, facts: &mut Facts<'a>) {
        let since_last = details.model_usage_since_last_result.as_ref().filter(|usage| !usage.is_empty());
        let total = details.model_usage.as_ref().filter(|usage| !usage.is_empty());
        match (since_last, total) {
            (Some(usage), _) => usage.iter().for_each(|(model, usage)| push_usage(model.clone(), *usage, usage.cost_usd, facts)),
            // The version reports the share of this result, and it is empty: an interrupted response is not in it.
            (None, _) if details.model_usage_since_last_result.is_some() => {}
            (None, Some(usage)) => {
                for (model, now) in usage {
                    let cost = now.cost_usd.unwrap_or(0.0);
                    let (before, cost_before) = self.session_usage.insert(model.to_string(), (*now, cost)).unwrap_or_default();
                    let added = now.minus(&before);
                    if weight(&added) > 0.0 {
                        push_usage(model.clone(), added, now.cost_usd.map(|cost| (cost - cost_before).max(0.0)), facts);
                    }
                }
            }
            (None, None) => {
                let is_known = |usage: &Counts| usage.input_tokens.unwrap_or(0) > 0 || usage.output_tokens.unwrap_or(0) > 0;
                if let Some(usage) = result.usage.filter(is_known) {
                    facts.push(usage_event(&usage, UsageScope::Run).cost_usd(details.total_cost_usd).model(model));
                }
            }
        }
    }
}

impl ModelUsage {
    fn minus(&self, before: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cache_read_input_tokens: self.cache_read_input_tokens.saturating_sub(before.cache_read_input_tokens),
            cache_creation_input_tokens: self.cache_creation_input_tokens.saturating_sub(before.cache_creation_input_tokens),
            cache_creation_1h_input_tokens: minus(self.cache_creation_1h_input_tokens, before.cache_creation_1h_input_tokens),
            thinking_tokens: minus(self.thinking_tokens, before.thinking_tokens),
            cost_usd: None,
        }
    }
}

fn minus(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.map(|now| now.saturating_sub(before.unwrap_or(0)))
}

/// Share of a model in a run: by cost, or by tokens if there is no cost.
fn weight(usage: &ModelUsage) -> f64 {
    let tokens = [usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
    let tokens = tokens.into_iter().fold(0, u64::saturating_add) as f64;
    usage.cost_usd.filter(|cost| *cost > 0.0).map_or(tokens * 1e-9, |cost| cost)
}

fn push_usage<'a>(model: Str<'a>, usage: ModelUsage, cost_usd: Option<f64>, facts: &mut Facts<'a>) {
    facts.push(
        Usage::new(UsageScope::Run)
            .input_tokens(usage.input_tokens)
            .output_tokens(usage.output_tokens)
            .cache_read_tokens(usage.cache_read_input_tokens)
            .cache_write_tokens(usage.cache_creation_input_tokens)
            .cache_write_1h_tokens(usage.cache_creation_1h_input_tokens)
            .reasoning_tokens(usage.thinking_tokens)
            .cost_usd(cost_usd)
            .model(model),
    );
}

fn outcome(result: &ResultLine<'_>, details: &ResultDetails<'_>) -> (Outcome, Option<Cause>) {
    let subtype = result.subtype.as_deref().unwrap_or("success");
    if details.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted")) {
        return (Outcome::Cancelled, None);
    }
    match subtype {
        "error_max_turns" => (Outcome::Limited, Some(Cause::MaxTurns)),
        "error_max_budget_usd" => (Outcome::Limited, Some(Cause::Budget)),
        _ if !result.is_error && !subtype.starts_with("error") => match result.stop_reason.as_deref() {
            Some("refusal") => (Outcome::Refused, Some(Cause::Refusal)),
            _ => (Outcome::Completed, None),
        },
        _ => (Outcome::Failed, Some(Cause::of_error(details.api_error_status, &error_message(result, details)))),
    }
}

fn error_message(result: &ResultLine<'_>, details: &ResultDetails<'_>) -> String {
    match (&details.errors, &result.result) {
        (Some(errors), _) if !errors.is_empty() => errors.iter().map(|error| &**error).collect::<Vec<_>>().join("; "),
        (_, Some(text)) => text.to_string(),
        _ => result.subtype.as_deref().unwrap_or("error").to_owned(),
    }
}

fn answer(result: &ResultLine<'_>, details: &ResultDetails<'_>) -> Option<String> {
    let text = [&result.result, &details.content, &details.text].into_iter().flatten().find(|text| !text.is_empty());
    // With a schema the answer is an object, and the text may be empty.
    text.map(|text| text.to_string()).or_else(|| details.structured_output.map(|output| output.get().to_owned()))
}
