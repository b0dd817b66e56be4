//! stream-json of Qwen Code.
//!
//! Pitfalls, beside those of the [family](crate::family::anthropic):
//! - The `assistant` lines of one response have different ids, and only the last one has usage.
//! - The error of a provider is printed as text of the assistant.
//! - Some limits end the run without a `result`.

use std::borrow::Cow;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Cause, Outcome, Retry, TurnEnd, TurnStart, UsageScope};
use sabir_core::json::{self, StringOr};
use sabir_core::line::Line;
use serde_json::value::RawValue;

use super::outcome;
use super::tools::{denials, tool_end, tool_start};
use super::usage::{RunUsage, TokenCounts};
use super::wire::ResultDetails;
use crate::family::anthropic::wire::{ApiMessage, Block, Message, ResultLine, System};
use crate::family::anthropic::{MessageState, RunResult, StreamJson, Variant};

/// stream-json as Qwen Code prints it.
#[derive(Debug, Default)]
pub(super) struct Qwen {
    usage: RunUsage,
    /// Retries since the last response.
    retries: u32,
    /// Whether the delay before a retry was reported; the retry itself is printed again.
    is_retry_pending: bool,
}

/// Progress of the current response of an agent.
#[derive(Debug, Default)]
pub(super) struct Response {
    has_started: bool,
    /// Whether the next content belongs to another response.
    is_complete: bool,
}

impl Variant for Qwen {
    type Response = Response;

    fn start_message(message: &mut MessageState<Response>, start: &ApiMessage<'_>, facts: &mut Facts<'_>) {
        reset(message, start.id.as_deref().unwrap_or_default());
        enter_response(message, facts);
    }

    fn enter_content(message: &mut MessageState<Response>, facts: &mut Facts<'_>) {
        enter_response(message, facts);
    }

    fn stop_message(message: &mut MessageState<Response>, _: Option<&RawValue>, _: &mut Facts<'_>) {
        reset(message, "");
    }

    fn assistant<'a>(
        stream: &mut StreamJson<Self>,
        mut message: ApiMessage<'a>,
        _: &Message<'a>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) {
        let usage = message.usage.map(TokenCounts::from).unwrap_or_default();
        if usage.is_zero()
            && let Some(error) = api_error(&message)
        {
            let (_, cause) = outcome::of_error(&error);
            return stream.api_error(error, cause, facts);
        }
        if facts.parent.is_none() {
            stream.last_error = None;
        }
        enter_response(stream.current(facts), facts);
        let (model, stop_reason) = (message.model.take(), message.stop_reason.take());
        stream.content(message, line, facts);
        let state = stream.current(facts);
        if let Some(reason) = stop_reason {
            state.stop_reason = Some(reason.to_string());
        }
        if !usage.is_zero() {
            state.response.is_complete = true;
            stream.variant.retries = 0;
            if let Some(model) = &model {
                stream.variant.usage.record_model(model);
            }
            usage.report(model.map(Cow::from), UsageScope::Message, facts);
        }
    }

    fn user<'a>(stream: &mut StreamJson<Self>, message: ApiMessage<'a>, _: &Message<'a>, facts: &mut Facts<'a>) {
        // Blocks that are no tool results are prompts.
        let Some(StringOr::Other(blocks)) = message.content else { return };
        for block in blocks.into_iter().filter(|block| block.tool_use_id.is_some()) {
            stream.current(facts).response.is_complete = true;
            tool_end(block, facts);
        }
    }

    fn tool_start<'a>(message: &mut MessageState<Response>, block: Block<'a>, facts: &mut Facts<'a>) {
        // A retry no longer cancels a call whose full copy arrived.
        message.calls.retain(|(_, id)| block.id.as_deref() != Some(id));
        tool_start(block, facts);
    }

    fn tool_end<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
        tool_end(block, facts);
    }

    fn system<'a>(stream: &mut StreamJson<Self>, subtype: &str, system: System<'a>, facts: &mut Facts<'a>) -> bool {
        if subtype == "retry" {
            stream.retry(system, facts);
        }
        subtype == "retry"
    }

    fn result<'a>(
        stream: &mut StreamJson<Self>,
        result: &ResultLine<'a>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) -> RunResult<'a> {
        let details: ResultDetails<'a> = line.borrowed().and_then(json::parse).unwrap_or_default();
        if let Some(main) = stream.messages.remove(&None).filter(|main| main.response.has_started) {
            facts.push(TurnEnd::default().stop_reason(main.stop_reason));
        }
        stream.session(result, None, facts);
        stream.variant.usage.result(result.usage, details.stats, facts);
        denials(details.permission_denials.unwrap_or_default(), facts);
        let subtype = result.subtype.as_deref().unwrap_or_default();
        if !result.is_error && !subtype.starts_with("error") && stream.last_error.is_none() {
            let answer = result.result.clone().filter(|text| !text.trim().is_empty());
            return RunResult { outcome: Outcome::Completed, cause: None, text: answer.map(Cow::from) };
        }
        let error = details.error.and_then(|error| error.message).or_else(|| result.result.clone()).map(Cow::from);
        let error = error.or_else(|| stream.last_error.clone().map(Cow::Owned));
        let error = error.unwrap_or_else(|| Cow::Owned(subtype.to_owned()));
        let (outcome, cause) = match subtype {
            "error_max_turns" => (Outcome::Limited, Cause::MaxTurns),
            _ => outcome::of_error(&error),
        };
        RunResult { outcome, cause: Some(cause), text: Some(error) }
    }

    fn other<'a>(r#type: &str, _: &Line<'a>, _: &mut Facts<'a>) -> bool {
        // Replies of the host.
        matches!(r#type, "control_response" | "control_cancel_request")
    }

    fn mark_resumed(&mut self) {
        self.usage.mark_resumed();
    }

    fn finish(outcome: Option<Verdict>, last_error: Option<String>, end: &End) -> Verdict {
        let of_error = |error: String| {
            let (outcome, cause) = outcome::of_error(&error);
            Verdict { cause: Some(cause), ..Verdict::of(outcome) }
        };
        let outcome = outcome.or_else(|| last_error.map(of_error)).unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        outcome::with_exit_code(outcome, end)
    }
}

impl StreamJson<Qwen> {
    /// Pushes a retry. One with a delay is printed twice: before the delay with its number, and after it without.
    fn retry<'a>(&mut self, system: System<'a>, facts: &mut Facts<'a>) {
        let message = self.current(facts);
        message.blocks.clear();
        message.cancel_calls(0, facts);
        let was_pending = std::mem::replace(&mut self.variant.is_retry_pending, system.attempt.is_some());
        if was_pending && system.attempt.is_none() {
            return;
        }
        let delay_ms = system.delay_ms();
        self.variant.retries = system.attempt.unwrap_or(self.variant.retries.saturating_add(1));
        facts.push(
            Retry::new(self.variant.retries, system.message.map_or(Cow::Borrowed("the request is made again"), Cow::from))
                .max_attempts(system.max_retries)
                .delay_ms(delay_ms),
        );
    }
}

/// Starts or ends a streamed message; what follows belongs to another response.
fn reset(message: &mut MessageState<Response>, id: &str) {
    id.clone_into(&mut message.id);
    message.blocks.clear();
    message.response.is_complete = true;
}

/// Starts a response unless one is being printed. A new response of the main agent starts a turn.
fn enter_response(message: &mut MessageState<Response>, facts: &mut Facts<'_>) {
    let Response { has_started, is_complete } = message.response;
    if has_started && !is_complete {
        return;
    }
    message.response = Response { has_started: true, is_complete: false };
    let stop_reason = message.stop_reason.take();
    if facts.parent.is_none() {
        if has_started {
            facts.push(TurnEnd::default().stop_reason(stop_reason));
        }
        facts.push(TurnStart::default());
    }
}

/// Returns the error of the provider, if that is all that the message says.
fn api_error(message: &ApiMessage<'_>) -> Option<String> {
    let text = match message.content.as_ref()? {
        StringOr::String(text) => text.to_string(),
        StringOr::Other(blocks) => match blocks.as_slice() {
            [Block { text: Some(text), .. }] => text.clone().into_string(),
            _ => return None,
        },
    };
    outcome::is_api_error(&text).then_some(text)
}
