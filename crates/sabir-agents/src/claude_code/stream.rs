//! stream-json: one message per line.
//!
//! What lies in wait here: a message comes as several lines, one per content block; with partial messages every block
//! comes twice, first as deltas and then whole; usage on `assistant` lines is what the API said at the start of the
//! response, so its output figure is void; `result` may come several times; sub-agents speak in between.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{self, Activity, Cause, ErrorEvent, Permission, Retry, Session, ThinkingDelta, ToolKind, ToolStart};
use sabir_core::history::{Continued, ResponseLine, Sent, is_unique};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde_json::value::RawValue;

use super::fast::{self, TextDelta};
use super::lane::Lane;
use super::result::Results;
use super::tools::{permission_asked, refused, tool_end, tool_start, user};
use super::wire::{ApiMessage, Block, Control, LineIds, Message, ResultLine, StreamEvent, System};

/// Reads stream-json.
#[derive(Debug, Default)]
pub struct StreamJson {
    /// The message that each agent is in: the main one under `None`, a sub-agent under its tool call.
    lanes: BTreeMap<Option<String>, Lane>,
    results: Results,
    /// The last error that an `assistant` line told, which its `result` repeats.
    last_error: Option<String>,
    /// Tasks run in the background; each wakes the agent up when it ends, and another result follows.
    background: bool,
}

/// How many agents may be speaking at once.
const LANES: usize = 256;

impl JsonDialect for StreamJson {
    type Wire<'a> = Message<'a>;

    fn fast<'a>(&mut self, text: &'a str, facts: &mut Facts<'a>) -> bool {
        let Some(TextDelta { text, message_id }) = fast::text_delta(text) else { return false };
        let lane = self.lane_of_piece(message_id, facts);
        lane.hear(&text);
        facts.push(event::TextDelta::new(text).message_id(message_id));
        true
    }

    fn message<'a>(&mut self, wire: Message<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        facts.parent = wire.parent_tool_use_id.clone().map(Cow::from);
        match &*wire.r#type {
            "stream_event" => {
                let Message { event, api_message_id, abandoned_blocks, .. } = wire;
                match event {
                    Some(event) => self.stream_event(event, api_message_id, abandoned_blocks, line, facts),
                    None => json::unrecognized(line, facts),
                }
            }
            "assistant" => match wire.message {
                Some(StringOr::Other(message)) if wire.is_api_error_message => {
                    self.api_error(&message, wire.api_error_status, facts);
                }
                Some(StringOr::Other(message)) => {
                    let ids = LineIds { request_id: wire.request_id, uuid: wire.uuid };
                    self.response(&message, &ids, line.number, facts);
                    self.assistant(*message, line, facts);
                }
                _ => json::unrecognized(line, facts),
            },
            "user" => {
                let Some(StringOr::Other(message)) = wire.message else { return };
                self.sent(&message, facts);
                if let Some(StringOr::Other(blocks)) = message.content {
                    let refused = refused(wire.tool_result_meta);
                    user(blocks, wire.tool_use_result, |id| refused.iter().any(|call| **call == *id), facts);
                }
            }
            "system" => match line.borrowed().and_then(json::parse::<System<'a>>) {
                Some(system) => self.system(system, wire.subtype.as_deref().unwrap_or_default(), line, facts),
                None => json::unrecognized(line, facts),
            },
            "result" | "output" => match line.borrowed().and_then(json::parse::<ResultLine<'a>>) {
                Some(result) => self.result(&result, facts),
                None => json::unrecognized(line, facts),
            },
            "control_request" => match line.borrowed().and_then(json::parse::<Control<'a>>) {
                Some(control) => permission_asked(control, facts),
                None => json::unrecognized(line, facts),
            },
            // Answers to the host, progress ticks and hints for a user interface: nothing of the run is in them.
            "control_response"
            | "control_cancel_request"
            | "keep_alive"
            | "tool_progress"
            | "tool_use_summary"
            | "auth_status"
            | "prompt_suggestion"
            | "rate_limit_event"
            | "streamlined_text" => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.results.told() && !self.background)
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.tell_usage(facts);
        self.results.end(facts)
    }
}

impl StreamJson {
    /// Tells the figures of all messages that are still open.
    pub(super) fn tell_usage(&mut self, facts: &mut Facts<'_>) {
        for (parent, lane) in &mut self.lanes {
            facts.parent = parent.clone().map(Cow::Owned);
            lane.tell_usage(facts);
        }
        facts.parent = None;
    }

    /// The lane of the facts' agent.
    pub(super) fn lane(&mut self, facts: &Facts<'_>) -> &mut Lane {
        if self.lanes.len() > LANES {
            // Sub-agents that have long gone silent; their figures were told with their messages.
            self.lanes.pop_last();
        }
        self.lanes.entry(facts.parent.as_deref().map(str::to_owned)).or_default()
    }

    /// The same, in the message of that id.
    fn lane_of_piece(&mut self, id: &str, facts: &mut Facts<'_>) -> &mut Lane {
        let lane = self.lane(facts);
        if !lane.is_in(id) {
            lane.next(id, &ResponseLine { message_id: Some(id.as_bytes()), ..ResponseLine::default() }, 0, facts);
        }
        lane
    }

    /// Goes on to the response that a line is a part of.
    pub(super) fn response(
        &mut self,
        message: &ApiMessage<'_>,
        ids: &LineIds<'_>,
        line: u64,
        facts: &mut Facts<'_>,
    ) -> Continued {
        let id = message.id.as_deref().unwrap_or_default();
        self.lane(facts).next(id, &ids.part(message, facts.at), line, facts)
    }

    /// Notes what was sent to the model.
    pub(super) fn sent(&mut self, message: &ApiMessage<'_>, facts: &Facts<'_>) {
        let has_result = match &message.content {
            Some(StringOr::Other(blocks)) => blocks.iter().any(|block| &*block.r#type == "tool_result"),
            _ => false,
        };
        if let Some(open) = &mut self.lane(facts).open {
            open.sent(if has_result { Sent::ToolResult } else { Sent::Prompt });
        }
    }

    /// What a line of the current response says.
    pub(super) fn assistant<'a>(&mut self, message: ApiMessage<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let lane = self.lane(facts);
        lane.note(&message);
        let blocks = match message.content {
            Some(StringOr::Other(blocks)) => blocks,
            Some(StringOr::String(text)) => {
                facts.push(event::TextDelta::new(text).message_id(lane.id()));
                return;
            }
            None => Vec::new(),
        };
        for block in blocks {
            match &*block.r#type {
                "text" => {
                    if let Some(delta) = block.text.and_then(|text| lane.unsaid(text)) {
                        facts.push(event::TextDelta::new(delta).message_id(lane.id()));
                    }
                }
                "thinking" => {
                    if let Some(delta) = block.thinking.and_then(|text| lane.unsaid(text)) {
                        facts.push(ThinkingDelta::new(delta).message_id(lane.id()));
                    }
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => tool_start(block, facts),
                kind if kind.ends_with("_tool_result") => tool_end(block, None, false, facts),
                // Its text is encrypted; a picture is not text.
                "redacted_thinking" | "image" | "document" | "fallback" => {}
                _ => facts.unrecognized(Some(Cow::Owned(format!("assistant:{}", &*block.r#type))), line),
            }
        }
    }

    pub(super) fn api_error<'a>(&mut self, message: &ApiMessage<'a>, status: Option<u16>, facts: &mut Facts<'a>) {
        let text = match &message.content {
            Some(StringOr::String(text)) => text.to_string(),
            Some(StringOr::Other(blocks)) => blocks.iter().filter_map(|block| block.text.as_deref()).collect(),
            None => String::new(),
        };
        let class = Some(Cause::of_error(status, &text));
        self.last_error = Some(text.clone());
        facts.push(ErrorEvent::new(text).class(class).fatal(facts.parent.is_none()));
    }

    fn stream_event<'a>(
        &mut self,
        event: StreamEvent<'a>,
        message_id: Option<Str<'a>>,
        abandoned: Option<&RawValue>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) {
        if let ("message_start", Some(message)) = (&*event.r#type, &event.message) {
            let id = message.id.as_deref().unwrap_or_default();
            let lane = self.lane(facts);
            // Ids that are not unique may be those of the response before.
            if let Some(open) = lane.open.as_mut().filter(|_| !is_unique(id.as_bytes())) {
                open.sent(Sent::Prompt);
            }
            lane.next(id, &ResponseLine { message_id: Some(id.as_bytes()), ..ResponseLine::default() }, 0, facts);
            lane.note(message);
            return;
        }
        let lane = match &message_id {
            Some(id) => self.lane_of_piece(id, facts),
            None => self.lane(facts),
        };
        match &*event.r#type {
            "content_block_start" => match event.content_block {
                Some(block) if matches!(&*block.r#type, "text" | "thinking") => lane.streamed.push(String::new()),
                Some(block) => {
                    let Block { id: Some(id), name: Some(name), .. } = *block else { return };
                    lane.announced.push((event.index.unwrap_or_default(), id.to_string()));
                    let tool_kind = ToolKind::of_name(&name);
                    facts.push(ToolStart::of_kind(tool_kind, id, name));
                }
                None => {}
            },
            "content_block_delta" => {
                let Some(delta) = event.delta else { return };
                let (text, thinking) = (delta.text, delta.thinking);
                let message_id = message_id.map(Cow::from).or_else(|| lane.id());
                text.iter().chain(&thinking).for_each(|said| lane.hear(said));
                // Pieces of arguments and signatures come again whole.
                match (text, thinking) {
                    (Some(delta), _) => facts.push(event::TextDelta::new(delta).message_id(message_id)),
                    (None, Some(delta)) => facts.push(ThinkingDelta::new(delta).message_id(message_id)),
                    (None, None) => {}
                }
            }
            "message_delta" => {
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    lane.stop_reason = Some(reason.to_string());
                }
                if let Some(usage) = event.usage {
                    lane.complete_usage(*usage);
                }
            }
            "message_stop" => {
                lane.tell_usage(facts);
                if let Some(abandoned) = abandoned {
                    lane.abandon(abandoned, facts);
                }
            }
            "content_block_stop" | "ping" | "goal_state" | "error" => {}
            other => facts.unrecognized(Some(Cow::Owned(format!("stream_event:{other}"))), line),
        }
    }

    fn system<'a>(&mut self, system: System<'a>, subtype: &str, line: &Line<'a>, facts: &mut Facts<'a>) {
        match subtype {
            "init" => {
                self.results.session_known();
                facts.push(
                    Session::default()
                        .session_id(system.session_id)
                        .model(system.model)
                        .cwd(system.cwd)
                        .agent_version(system.claude_code_version)
                        .permission_mode(system.permission_mode)
                        .tools(system.tools.map(|tools| tools.into_iter().map(Cow::from).collect())),
                );
            }
            "api_retry" => {
                let error = system.error.as_deref().unwrap_or("unknown");
                let message = system.error_status.map_or_else(|| error.to_owned(), |status| format!("{status} {error}"));
                facts.push(
                    Retry::new(system.attempt.unwrap_or(1), message)
                        .max_attempts(system.max_retries)
                        .delay_ms(system.retry_delay_ms.map(whole_millis)),
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
            "task_started" | "task_progress" | "informational" | "notification" | "local_command_output" => {
                if let Some(message) = system.description.or(system.content).or(system.message) {
                    facts.push(Activity::new(message));
                }
            }
            "task_notification" => {
                let status = system.status.as_deref().unwrap_or("ended").to_owned();
                let summary = system.summary.as_deref().unwrap_or_default();
                facts.push(Activity::new(format!("background task {status}: {summary}")));
            }
            "compact_boundary" => facts.push(Activity::new("conversation compacted")),
            "background_tasks_changed" => self.background = system.tasks.is_some_and(|tasks| !tasks.is_empty()),
            // States of the user interface and estimates that later figures replace.
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
            other => facts.unrecognized(Some(Cow::Owned(format!("system:{other}"))), line),
        }
    }

    fn result<'a>(&mut self, result: &ResultLine<'a>, facts: &mut Facts<'a>) {
        let model = self.lanes.get(&None).and_then(|lane| lane.model.clone());
        self.tell_usage(facts);
        // Background agents speak on under lanes of their own.
        self.lanes.retain(|parent, _| parent.is_some());
        self.results.result(result, model, self.last_error.take(), facts);
    }
}

/// Delays are fractions of milliseconds at times.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole_millis(millis: f64) -> u64 {
    // A float cast saturates, so nonsense stays in range.
    millis.max(0.0) as u64
}
