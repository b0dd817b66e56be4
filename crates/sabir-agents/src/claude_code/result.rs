//! `result` lines: the answer, the figures and the verdict.
//!
//! There is one per prompt, and one more each time a background task wakes the agent up, so the last one counts.
//! `modelUsage` and `total_cost_usd` are of the whole session, earlier runs included; the share of this run is in
//! `model_usage_since_last_result` where the version has it, else in what is new against the result before.
//! `subtype` says `success` of an API error too: `is_error` decides.

use std::collections::BTreeMap;

use sabir_core::dialect::{Facts, Verdict};
use sabir_core::event::{Cause, ErrorEvent, Final, Outcome, Session, TurnEnd, Usage, UsageScope};
use sabir_core::json::Str;

use super::wire::{ModelUsage, ResultLine};

/// What the results so far say.
#[derive(Debug, Default)]
pub(super) struct Results {
    session_known: bool,
    answer: Option<String>,
    verdict: Option<Verdict>,
    turns: u32,
    duration_ms: u64,
    /// Session figures of the last result, for versions that give no others.
    before: BTreeMap<String, (ModelUsage, f64)>,
}

impl Results {
    pub(super) fn session_known(&mut self) {
        self.session_known = true;
    }

    /// Reads one result of the main agent, whose last model is given.
    pub(super) fn result<'a>(
        &mut self,
        result: &ResultLine<'a>,
        model: Option<String>,
        last_error: Option<String>,
        facts: &mut Facts<'a>,
    ) {
        let stop_reason = result.stop_reason.as_deref().map(str::to_owned);
        if model.is_some() {
            facts.push(TurnEnd::default().stop_reason(stop_reason.clone()));
        }
        self.session(result, facts);
        self.usage(result, model, facts);
        let outcome = outcome(result);
        if outcome.0 == Outcome::Completed {
            self.answer = answer(result);
        } else {
            self.answer = None;
            report_errors(result, outcome, last_error, facts);
        }
        self.turns = self.turns.saturating_add(result.num_turns.unwrap_or(0));
        self.duration_ms = self.duration_ms.saturating_add(result.duration_ms.unwrap_or(0));
        self.verdict = Some(Verdict {
            cause: outcome.1,
            stop_reason,
            turns: result.num_turns.is_some().then_some(self.turns),
            duration_ms: result.duration_ms.is_some().then_some(self.duration_ms),
            api_duration_ms: result.duration_api_ms,
            ..Verdict::of(outcome.0)
        });
    }

    /// Whether there was a result.
    pub(super) fn told(&self) -> bool {
        self.verdict.is_some()
    }

    pub(super) fn end(&mut self, facts: &mut Facts<'static>) -> Verdict {
        if let Some(text) = self.answer.take() {
            facts.push(Final::new(text));
        }
        self.verdict.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete))
    }

    /// A lone result (`--output-format json`) is all that tells of the session.
    fn session<'a>(&mut self, result: &ResultLine<'a>, facts: &mut Facts<'a>) {
        if self.session_known || result.session_id.is_none() {
            return;
        }
        self.session_known = true;
        // Helper models are in the list too; the main one is the one that cost most.
        let main =
            result.model_usage.iter().flatten().reduce(|best, next| if weight(next.1) > weight(best.1) { next } else { best });
        facts.push(Session::default().session_id(result.session_id.clone()).model(main.map(|(model, _)| model.clone())));
    }

    fn usage<'a>(&mut self, result: &ResultLine<'a>, model: Option<String>, facts: &mut Facts<'a>) {
        let since_last = result.model_usage_since_last_result.as_ref().filter(|usage| !usage.is_empty());
        let whole = result.model_usage.as_ref().filter(|usage| !usage.is_empty());
        match (since_last, whole) {
            (Some(usage), _) => usage.iter().for_each(|(model, usage)| push_usage(model.clone(), *usage, usage.cost_usd, facts)),
            // The version knows the share of this result, and it is nothing: an interrupted response is not in it.
            (None, _) if result.model_usage_since_last_result.is_some() => {}
            (None, Some(usage)) => {
                for (model, now) in usage {
                    let cost = now.cost_usd.unwrap_or(0.0);
                    let (before, cost_before) = self.before.insert(model.to_string(), (*now, cost)).unwrap_or_default();
                    let news = now.minus(&before);
                    if weight(&news) > 0.0 {
                        push_usage(model.clone(), news, now.cost_usd.map(|cost| (cost - cost_before).max(0.0)), facts);
                    }
                }
            }
            (None, None) => {
                let Some(usage) = result.usage else { return };
                if usage.input_tokens.unwrap_or(0) == 0 && usage.output_tokens.unwrap_or(0) == 0 {
                    return;
                }
                facts.push(
                    Usage::new(UsageScope::Run)
                        .input_tokens(usage.input_tokens)
                        .output_tokens(usage.output_tokens)
                        .cache_read_tokens(usage.cache_read_input_tokens)
                        .cache_write_tokens(usage.cache_creation_input_tokens)
                        .cache_write_1h_tokens(usage.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens))
                        .reasoning_tokens(usage.output_tokens_details.and_then(|details| details.thinking_tokens))
                        .cost_usd(result.total_cost_usd)
                        .model(model),
                );
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

/// How much of a run a model did: by cost, or by tokens where there is no cost.
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

fn outcome(result: &ResultLine<'_>) -> (Outcome, Option<Cause>) {
    let subtype = result.subtype.as_deref().unwrap_or("success");
    let terminal = result.terminal_reason.as_deref().unwrap_or_default();
    if terminal.starts_with("aborted") {
        return (Outcome::Cancelled, None);
    }
    match subtype {
        "error_max_turns" => (Outcome::Limited, Some(Cause::MaxTurns)),
        "error_max_budget_usd" => (Outcome::Limited, Some(Cause::Budget)),
        _ if !result.is_error && !subtype.starts_with("error") => match result.stop_reason.as_deref() {
            Some("refusal") => (Outcome::Refused, Some(Cause::Refusal)),
            _ => (Outcome::Completed, None),
        },
        _ => (Outcome::Failed, Some(Cause::of_error(result.api_error_status, &complaint(result)))),
    }
}

fn complaint(result: &ResultLine<'_>) -> String {
    match (&result.errors, &result.result) {
        (Some(errors), _) if !errors.is_empty() => errors.iter().map(|error| &**error).collect::<Vec<_>>().join("; "),
        (_, Some(text)) => text.to_string(),
        _ => result.subtype.as_deref().unwrap_or("error").to_owned(),
    }
}

fn report_errors<'a>(
    result: &ResultLine<'a>,
    (outcome, class): (Outcome, Option<Cause>),
    last_error: Option<String>,
    facts: &mut Facts<'a>,
) {
    let message = complaint(result);
    // A stop that was asked for is no error, and an error is told once.
    if matches!(outcome, Outcome::Cancelled | Outcome::Refused) || last_error.is_some_and(|error| error == message) {
        return;
    }
    facts.push(ErrorEvent::new(message).class(class).fatal(true));
}

fn answer(result: &ResultLine<'_>) -> Option<String> {
    let text = [&result.result, &result.content, &result.text].into_iter().flatten().find(|text| !text.is_empty());
    // With a schema the answer is an object, and the text may be empty.
    text.map(|text| text.to_string()).or_else(|| result.structured_output.map(|output| output.get().to_owned()))
}
