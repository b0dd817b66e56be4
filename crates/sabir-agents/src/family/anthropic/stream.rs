//! State machine of stream-json: one message per line.
//!
//! Pitfalls of the format:
//! - A response is printed as several `assistant` lines, one or more content blocks each.
//! - With partial messages every block is printed twice: as deltas, then in full.
//! - `result` may be printed several times: once per prompt or wake-up of the agent. The last one counts.
//! - Lines of sub-agents are interleaved; `parent_tool_use_id` names the tool call that started them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Activity, Cause, ErrorEvent, Final, Outcome, Session, TextDelta, ThinkingDelta, ToolStart};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde_json::value::RawValue;

use super::message::MessageState;
use super::text_delta;
use super::wire::{ApiMessage, Block, Delta, Init, Message, ResultLine, StreamEvent, System, SystemLine, Usage};

/// Limit of agents whose messages are tracked at once.
const MAX_AGENTS: usize = 256;

/// What a CLI does in its own way: where responses begin and end, what usage and results mean, and which other lines it prints.
pub(crate) trait Variant: Default + Send + Sized {
    /// State that delimits the responses of one agent.
    type Response: Default + Send;

    /// Starts the response of a streamed message.
    fn start_message(message: &mut MessageState<Self::Response>, start: &ApiMessage<'_>, facts: &mut Facts<'_>);

    /// Enters the response of the message that a `stream_event` line names.
    fn enter_message(_: &mut MessageState<Self::Response>, _id: &str, _: &mut Facts<'_>) {}

    /// Enters a response before streamed content.
    fn enter_content(_: &mut MessageState<Self::Response>, _: &mut Facts<'_>) {}

    /// Reads the stop reason and the usage at the end of a streamed message.
    fn message_delta(_: &mut MessageState<Self::Response>, _: Option<Delta<'_>>, _: Option<Usage>) {}

    /// Ends a streamed message. `abandoned` says which of its blocks are void.
    fn stop_message(message: &mut MessageState<Self::Response>, abandoned: Option<&RawValue>, facts: &mut Facts<'_>);

    /// Reads an `assistant` line; its blocks are for [`StreamJson::content`].
    fn assistant<'a>(
        stream: &mut StreamJson<Self>,
        message: ApiMessage<'a>,
        wire: &Message<'a>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    );

    /// Reads a `user` line: tool results and prompts.
    fn user<'a>(stream: &mut StreamJson<Self>, message: ApiMessage<'a>, wire: &Message<'a>, facts: &mut Facts<'a>);

    /// Pushes the start of a tool call.
    fn tool_start<'a>(message: &mut MessageState<Self::Response>, block: Block<'a>, facts: &mut Facts<'a>);

    /// Pushes the end of a tool call.
    fn tool_end<'a>(block: Block<'a>, facts: &mut Facts<'a>);

    /// Reads a `system` line of a subtype that only this CLI prints. Returns whether it did.
    fn system<'a>(stream: &mut StreamJson<Self>, subtype: &str, system: System<'a>, facts: &mut Facts<'a>) -> bool;

    /// Reads a `result` line: pushes its usage and returns how the run ended.
    fn result<'a>(
        stream: &mut StreamJson<Self>,
        result: &ResultLine<'a>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) -> RunResult<'a>;

    /// Reads a line of a type that only this CLI prints. Returns whether it did.
    fn other<'a>(r#type: &str, line: &Line<'a>, facts: &mut Facts<'a>) -> bool;

    /// See [`JsonDialect::resumed`].
    fn mark_resumed(&mut self) {}

    /// Pushes the usage of open messages.
    fn flush_usage(_: &mut StreamJson<Self>, _: &mut Facts<'_>) {}

    /// Returns the outcome of the stream, given that of the last `result` and the error that followed it.
    fn finish(outcome: Option<Verdict>, _last_error: Option<String>, _: &End) -> Verdict {
        outcome.unwrap_or_else(|| Verdict::of(Outcome::Incomplete))
    }
}

/// How a run ended according to a `result` line.
pub(crate) struct RunResult<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) cause: Option<Cause>,
    /// The final answer of a run that completed, else the error.
    pub(crate) text: Option<Cow<'a, str>>,
}

/// Parser of stream-json.
#[derive(Debug, Default)]
pub(crate) struct StreamJson<V: Variant> {
    /// Current message of each agent by the tool call that started it; the main agent has none.
    pub(crate) messages: BTreeMap<Option<String>, MessageState<V::Response>>,
    pub(crate) variant: V,
    /// Last error of a request of the main agent, which the `result` repeats.
    pub(crate) last_error: Option<String>,
    /// Whether tasks run in the background, each of which ends with another `result`.
    pub(crate) has_background_tasks: bool,
    has_session: bool,
    answer: Option<String>,
    outcome: Option<Verdict>,
    turns: u32,
    duration_ms: u64,
}

impl<V: Variant> JsonDialect for StreamJson<V> {
    type Wire<'a> = Message<'a>;

    fn fast<'a>(&mut self, line: &'a str, facts: &mut Facts<'a>) -> bool {
        let Some((text, message_id)) = text_delta::parse(line) else { return false };
        let state = self.current(facts);
        V::enter_message(state, message_id, facts);
        V::enter_content(state, facts);
        state.push_delta(&text);
        facts.push(TextDelta::new(text).message_id(message_id));
        true
    }

    fn message<'a>(&mut self, mut wire: Message<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        facts.parent = wire.parent_tool_use_id.take().map(Cow::from);
        match (&*wire.r#type, wire.message.take()) {
            ("stream_event", _) => match wire.event {
                Some(event) => self.stream_event(event, wire.api_message_id, wire.abandoned_blocks, line, facts),
                None => json::unrecognized(line, facts),
            },
            ("assistant", Some(StringOr::Other(message))) => V::assistant(self, *message, &wire, line, facts),
            ("user", Some(StringOr::Other(message))) => V::user(self, *message, &wire, facts),
            // A prompt.
            ("user", Some(StringOr::String(_))) => {}
            ("system", _) => match wire.subtype.as_deref().unwrap_or_default() {
                "init" => self.init(line, facts),
                subtype => self.system(subtype, line, facts),
            },
            ("result" | "output", _) => match line.borrowed().and_then(json::parse::<ResultLine<'a>>) {
                Some(result) => self.result(&result, line, facts),
                None => json::unrecognized(line, facts),
            },
            (r#type, _) => {
                if !V::other(r#type, line, facts) {
                    json::unrecognized(line, facts);
                }
            }
        }
    }

    fn resumed(&mut self) {
        self.variant.mark_resumed();
    }

    fn over(&self) -> Option<bool> {
        Some(self.outcome.is_some() && !self.has_background_tasks)
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        V::flush_usage(self, facts);
        if let Some(text) = self.answer.take() {
            facts.push(Final::new(text));
        }
        V::finish(self.outcome.take(), self.last_error.take(), end)
    }
}

impl<V: Variant> StreamJson<V> {
    /// Returns the current message of the agent in `facts`.
    pub(crate) fn current(&mut self, facts: &Facts<'_>) -> &mut MessageState<V::Response> {
        if self.messages.len() > MAX_AGENTS {
            // The main agent sorts first, so this drops a sub-agent.
            self.messages.pop_last();
        }
        self.messages.entry(facts.parent.as_deref().map(str::to_owned)).or_default()
    }

    /// Pushes the content blocks of an `assistant` line without what was emitted as deltas.
    pub(crate) fn content<'a>(&mut self, message: ApiMessage<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let state = self.current(facts);
        let id = state.id(message.id.map(Cow::from));
        let blocks = match message.content {
            Some(StringOr::Other(blocks)) => blocks,
            Some(StringOr::String(text)) => {
                if let Some(delta) = state.remaining(text.into()) {
                    facts.push(TextDelta::new(delta).message_id(id));
                }
                return;
            }
            None => return,
        };
        for block in blocks {
            match &*block.r#type {
                "text" => {
                    if let Some(delta) = block.text.and_then(|text| state.remaining(text)) {
                        facts.push(TextDelta::new(delta).message_id(id.clone()));
                    }
                }
                "thinking" => {
                    if let Some(delta) = block.thinking.and_then(|text| state.remaining(text)) {
                        facts.push(ThinkingDelta::new(delta).message_id(id.clone()));
                    }
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => V::tool_start(state, block, facts),
                kind if kind.ends_with("_tool_result") => V::tool_end(block, facts),
                // Without readable text.
                "redacted_thinking" | "image" | "document" | "fallback" => {}
                other => facts.unrecognized(Some(Cow::Owned(format!("assistant:{other}"))), line),
            }
        }
    }

    fn stream_event<'a>(
        &mut self,
        event: StreamEvent<'a>,
        id: Option<Str<'a>>,
        abandoned: Option<&RawValue>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) {
        let state = self.current(facts);
        if let ("message_start", Some(start)) = (&*event.r#type, &event.message) {
            return V::start_message(state, start, facts);
        }
        if let Some(id) = &id {
            V::enter_message(state, id, facts);
        }
        match &*event.r#type {
            "content_block_start" => match event.content_block.map(|block| *block) {
                Some(block) if matches!(&*block.r#type, "text" | "thinking") => {
                    V::enter_content(state, facts);
                    state.start_block();
                }
                Some(Block { id: Some(id), name: Some(name), .. }) => {
                    V::enter_content(state, facts);
                    state.start_call(event.index.unwrap_or_default(), &id);
                    facts.push(ToolStart::new(id, name));
                }
                _ => {}
            },
            "content_block_delta" => {
                let (text, thinking) = event.delta.map_or((None, None), |delta| (delta.text, delta.thinking));
                if text.is_none() && thinking.is_none() {
                    // Arguments and signatures are printed in full later.
                    return;
                }
                V::enter_content(state, facts);
                text.iter().chain(&thinking).for_each(|delta| state.push_delta(delta));
                let id = id.map(Cow::from).or_else(|| state.id(None));
                match (text, thinking) {
                    (Some(delta), _) => facts.push(TextDelta::new(delta).message_id(id)),
                    (None, Some(delta)) => facts.push(ThinkingDelta::new(delta).message_id(id)),
                    (None, None) => {}
                }
            }
            "message_delta" => V::message_delta(state, event.delta, event.usage.map(|usage| *usage)),
            "message_stop" => V::stop_message(state, abandoned, facts),
            "content_block_stop" | "ping" | "goal_state" | "error" => {}
            other => facts.unrecognized(Some(Cow::Owned(format!("stream_event:{other}"))), line),
        }
    }

    fn init<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(init) = line.borrowed().and_then(json::parse::<Init<'a>>) else { return json::unrecognized(line, facts) };
        self.has_session = true;
        facts.push(
            Session::default()
                .session_id(init.session_id)
                .model(init.model)
                .cwd(init.cwd)
                .agent_version(init.agent_version)
                .permission_mode(init.permission_mode)
                .tools(init.tools.map(|tools| tools.into_iter().map(Cow::from).collect())),
        );
    }

    fn system<'a>(&mut self, subtype: &str, line: &Line<'a>, facts: &mut Facts<'a>) {
        let text = line.borrowed();
        let data = text.and_then(json::parse::<SystemLine<'a>>).and_then(|line| line.data);
        let Some(system) = data.or_else(|| text.and_then(json::parse)) else { return json::unrecognized(line, facts) };
        match subtype {
            "task_started" | "task_progress" => {
                if let Some(message) = system.description.or(system.content).or(system.message) {
                    facts.push(Activity::new(message));
                }
            }
            "task_notification" => {
                let status = system.status.as_deref().unwrap_or("ended").to_owned();
                let task = system.summary.or(system.description).or(system.task_id).unwrap_or_default();
                facts.push(Activity::new(format!("background task {status}: {}", &*task)));
            }
            other => {
                if !V::system(self, other, system, facts) {
                    facts.unrecognized(Some(Cow::Owned(format!("system:{other}"))), line);
                }
            }
        }
    }

    /// Pushes the session of a stream without `init`, e.g. of a lone result.
    pub(crate) fn session<'a>(&mut self, result: &ResultLine<'a>, model: Option<Str<'a>>, facts: &mut Facts<'a>) {
        if result.session_id.is_some() && !std::mem::replace(&mut self.has_session, true) {
            facts.push(Session::default().session_id(result.session_id.clone()).model(model));
        }
    }

    /// Pushes the error of a request, which is printed as a message.
    pub(crate) fn api_error(&mut self, message: String, cause: Cause, facts: &mut Facts<'_>) {
        let is_main = facts.parent.is_none();
        facts.push(ErrorEvent::new(message.clone()).class(cause).fatal(is_main));
        if is_main {
            self.last_error = Some(message);
        }
    }

    fn result<'a>(&mut self, result: &ResultLine<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        V::flush_usage(self, facts);
        facts.parent = None;
        let RunResult { outcome, cause, text } = V::result(self, result, line, facts);
        let last_error = self.last_error.take();
        self.answer = None;
        match text {
            Some(answer) if outcome == Outcome::Completed => self.answer = Some(answer.into_owned()),
            // An error is reported once.
            Some(error) if last_error.as_deref() != Some(&*error) => {
                facts.push(ErrorEvent::new(error).class(cause).fatal(true));
            }
            _ => {}
        }
        self.turns = self.turns.saturating_add(result.num_turns.unwrap_or(0));
        self.duration_ms = self.duration_ms.saturating_add(result.duration_ms.unwrap_or(0));
        self.outcome = Some(Verdict {
            cause,
            stop_reason: result.stop_reason.as_deref().map(str::to_owned),
            turns: result.num_turns.is_some().then_some(self.turns),
            duration_ms: result.duration_ms.is_some().then_some(self.duration_ms),
            api_duration_ms: result.duration_api_ms,
            ..Verdict::of(outcome)
        });
    }
}
