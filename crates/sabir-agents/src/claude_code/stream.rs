//! stream-json of Claude Code.
//!
//! Pitfalls, beside those of the [family](crate::family::anthropic):
//! - The usage of an `assistant` line is that of the start of the response, so its output count is void.
//! - `message_start` of older versions lacks unique ids; [`OpenResponse`](sabir_core::history::OpenResponse) decides which lines
//!   belong together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::event::{Activity, Cause, Permission, Retry};
use sabir_core::history::{Continued, ResponseLine, Sent, is_unique};
use sabir_core::json::{self, StringOr};
use sabir_core::line::Line;
use serde_json::value::RawValue;

use super::response::{LineIds, Message, Response};
use super::result;
use super::tools::{denied_calls, permission_request, tool_end, tool_results, tool_start};
use super::wire::{Control, ModelUsage};
use crate::family::anthropic::wire::{self, ApiMessage, Block, Delta, ResultLine, System, Usage};
use crate::family::anthropic::{RunResult, StreamJson, Variant};

/// stream-json as Claude Code prints it.
#[derive(Debug, Default)]
pub(crate) struct ClaudeCode {
    /// Usage and cost of the session by model, as of the last result.
    pub(super) session_usage: BTreeMap<String, (ModelUsage, f64)>,
}

impl Variant for ClaudeCode {
    type Response = Response;

    fn start_message(message: &mut Message, start: &ApiMessage<'_>, facts: &mut Facts<'_>) {
        let id = start.id.as_deref().unwrap_or_default();
        // An id that is not unique may be that of the previous response.
        if !is_unique(id.as_bytes()) {
            message.record_sent(Sent::Prompt);
        }
        message.enter(id, &ResponseLine { message_id: Some(id.as_bytes()), ..ResponseLine::default() }, 0, facts);
        message.record_start(start);
    }

    fn enter_message(message: &mut Message, id: &str, facts: &mut Facts<'_>) {
        message.enter_streamed(id, facts);
    }

    fn message_delta(message: &mut Message, delta: Option<Delta<'_>>, usage: Option<Usage>) {
        if let Some(reason) = delta.and_then(|delta| delta.stop_reason) {
            message.stop_reason = Some(reason.to_string());
        }
        if let Some(usage) = usage {
            message.complete_usage(usage);
        }
    }

    fn stop_message(message: &mut Message, abandoned: Option<&RawValue>, facts: &mut Facts<'_>) {
        message.flush_usage(facts);
        if let Some(abandoned) = abandoned {
            message.abandon(abandoned, facts);
        }
    }

    fn assistant<'a>(
        stream: &mut StreamJson<Self>,
        message: ApiMessage<'a>,
        wire: &wire::Message<'a>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) {
        if wire.is_api_error_message {
            return stream.error_message(&message, wire.api_error_status, facts);
        }
        let ids = LineIds { request_id: wire.request_id.clone(), uuid: wire.uuid.clone() };
        stream.enter_response(&message, &ids, line.number, facts);
        stream.content(message, line, facts);
    }

    fn user<'a>(stream: &mut StreamJson<Self>, message: ApiMessage<'a>, wire: &wire::Message<'a>, facts: &mut Facts<'a>) {
        stream.record_sent(&message, facts);
        if let Some(StringOr::Other(blocks)) = message.content {
            let denied = denied_calls(wire.tool_result_meta);
            tool_results(blocks, wire.tool_use_result, |id| denied.iter().any(|call| **call == *id), facts);
        }
    }

    fn tool_start<'a>(_: &mut Message, block: Block<'a>, facts: &mut Facts<'a>) {
        tool_start(block, facts);
    }

    fn tool_end<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
        tool_end(block, None, false, facts);
    }

    fn system<'a>(stream: &mut StreamJson<Self>, subtype: &str, system: System<'a>, facts: &mut Facts<'a>) -> bool {
        match subtype {
            "api_retry" => {
                let error = system.error.as_deref().unwrap_or("unknown");
                let message = system.error_status.map_or_else(|| error.to_owned(), |status| format!("{status} {error}"));
                facts.push(
                    Retry::new(system.attempt.unwrap_or(1), message).max_attempts(system.max_retries).delay_ms(system.delay_ms()),
                );
            }
            "permission_denied" => {
                let call = system.tool_use_id.map(Cow::from);
                facts.push(
                    Permission::new(
                        call.clone().unwrap_or_default(),
                        system.message.or(system.tool_name).map(Cow::from).unwrap_or_default(),
                    )
                    .tool_call_id(call)
                    .decision("denied"),
                );
            }
            "informational" | "notification" | "local_command_output" => {
                if let Some(message) = system.description.or(system.content).or(system.message) {
                    facts.push(Activity::new(message));
                }
            }
            "compact_boundary" => facts.push(Activity::new("conversation compacted")),
            "background_tasks_changed" => {
                stream.has_background_tasks = system.tasks.is_some_and(|tasks| !tasks.is_empty());
            }
            // States of the user interface, and estimates that the final usage replaces.
            "status"
            | "thinking_tokens"
            | "task_updated"
            | "hook_started"
            | "hook_progress"
            | "hook_response"
            | "ui_invalidate"
            | "files_persisted"
            | "session_state_changed"
            | "elicitation_complete"
            | "plugin_install" => {}
            _ => return false,
        }
        true
    }

    fn result<'a>(
        stream: &mut StreamJson<Self>,
        result: &ResultLine<'a>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) -> RunResult<'a> {
        result::result(stream, result, line, facts)
    }

    fn other<'a>(r#type: &str, line: &Line<'a>, facts: &mut Facts<'a>) -> bool {
        match r#type {
            "control_request" => match line.borrowed().and_then(json::parse::<Control<'a>>) {
                Some(control) => permission_request(control, facts),
                None => return false,
            },
            // Replies of the host, progress and hints for a user interface.
            "control_response"
            | "control_cancel_request"
            | "keep_alive"
            | "tool_progress"
            | "tool_use_summary"
            | "auth_status"
            | "prompt_suggestion"
            | "rate_limit_event"
            | "streamlined_text" => {}
            _ => return false,
        }
        true
    }

    fn flush_usage(stream: &mut StreamJson<Self>, facts: &mut Facts<'_>) {
        for (parent, message) in &mut stream.messages {
            facts.parent = parent.clone().map(Cow::Owned);
            message.flush_usage(facts);
        }
        facts.parent = None;
    }
}

impl StreamJson<ClaudeCode> {
    /// Enters the response of an `assistant` line.
    pub(super) fn enter_response(
        &mut self,
        message: &ApiMessage<'_>,
        ids: &LineIds<'_>,
        number: u64,
        facts: &mut Facts<'_>,
    ) -> Continued {
        let state = self.current(facts);
        let id = message.id.as_deref().unwrap_or_default();
        let continued = state.enter(id, &ids.response_line(message, facts.at), number, facts);
        state.record_start(message);
        continued
    }

    /// Records that a message was sent to the model.
    pub(super) fn record_sent(&mut self, message: &ApiMessage<'_>, facts: &Facts<'_>) {
        let has_result = match &message.content {
            Some(StringOr::Other(blocks)) => blocks.iter().any(|block| &*block.r#type == "tool_result"),
            _ => false,
        };
        self.current(facts).record_sent(if has_result { Sent::ToolResult } else { Sent::Prompt });
    }

    /// Pushes the error that a message is.
    pub(super) fn error_message(&mut self, message: &ApiMessage<'_>, status: Option<u16>, facts: &mut Facts<'_>) {
        let text = match &message.content {
            Some(StringOr::String(text)) => text.to_string(),
            Some(StringOr::Other(blocks)) => blocks.iter().filter_map(|block| block.text.as_deref()).collect(),
            None => String::new(),
        };
        let cause = Cause::of_error(status, &text);
        self.api_error(text, cause, facts);
    }
}
