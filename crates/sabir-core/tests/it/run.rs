//! Runs written by hand, for tests of what is made of events.

use std::borrow::Cow;

use sabir_core::event::{Event, EventKind, Outcome, RunId, ToolKind, ToolStatus, UsageScope};
use sabir_core::time::Timestamp;
use sabir_core::view::Options;

use crate::common::writers::show;

/// The events of one run, numbered and a second apart.
pub(crate) struct Run {
    pub(crate) events: Vec<Event<'static>>,
}

impl Run {
    pub(crate) fn of(agent: &'static str) -> Self {
        Self { events: Vec::new() }.push(EventKind::Started { agent: agent.into(), agent_version: None, detection: None })
    }

    pub(crate) fn push(mut self, kind: EventKind<'static>) -> Self {
        self.add(kind, None);
        self
    }

    pub(crate) fn inside(mut self, parent: &'static str, kind: EventKind<'static>) -> Self {
        self.add(kind, Some(parent.into()));
        self
    }

    fn add(&mut self, kind: EventKind<'static>, parent_tool_call_id: Option<Cow<'static, str>>) {
        let seq = self.events.len() as u64 + 1;
        let at = Timestamp::from_millis(1_790_000_000_000 + i64::try_from(seq).expect("few events") * 1_000);
        self.events.push(Event { run_id: RunId::from("run-1"), seq, at, line: None, parent_tool_call_id, kind });
    }

    pub(crate) fn session(self) -> Self {
        self.push(EventKind::Session {
            session_id: Some("s-1".into()),
            model: Some("model-1".into()),
            cwd: Some("/home/user/project".into()),
            agent_version: Some("1.2.3".into()),
            permission_mode: None,
            tools: None,
        })
    }

    pub(crate) fn turn(self, turn: u32) -> Self {
        self.push(EventKind::TurnStart { turn })
    }

    pub(crate) fn turn_end(self, turn: u32, stop_reason: &'static str) -> Self {
        self.push(EventKind::TurnEnd { turn, stop_reason: Some(stop_reason.into()) })
    }

    pub(crate) fn text(self, message: &'static str, delta: &'static str) -> Self {
        self.push(EventKind::Text { delta: delta.into(), message_id: Some(message.into()) })
    }

    pub(crate) fn thinking(self, message: &'static str, delta: &'static str) -> Self {
        self.push(EventKind::Thinking { delta: delta.into(), message_id: Some(message.into()) })
    }

    pub(crate) fn tool(self, id: &'static str, name: &'static str, input: Option<&'static str>) -> Self {
        self.push(tool_start(id, name, input))
    }

    pub(crate) fn tool_end(self, id: &'static str, status: ToolStatus, output: &'static str, exit_code: Option<i32>) -> Self {
        self.push(tool_end(id, status, output, exit_code))
    }

    pub(crate) fn shell(self, id: &'static str, command: &str, output: &'static str) -> Self {
        let input = serde_json::json!({ "command": command }).to_string();
        self.push(EventKind::ToolStart {
            tool_call_id: id.into(),
            name: "Bash".into(),
            input: Some(input.into()),
            tool_kind: ToolKind::Execute,
            title: None,
        })
        .tool_end(id, ToolStatus::Ok, output, Some(0))
    }

    pub(crate) fn usage(self, scope: UsageScope, input: u64, cache_read: u64, output: u64) -> Self {
        self.push(EventKind::Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            total_tokens: Some(input + cache_read + output),
            cache_read_tokens: Some(cache_read),
            cache_write_tokens: None,
            cache_write_1h_tokens: None,
            reasoning_tokens: None,
            cost_usd: None,
            cost_parts: None,
            model: None,
            scope,
        })
    }

    pub(crate) fn answer(self, text: &'static str) -> Self {
        self.push(EventKind::Final { text: text.into() })
    }

    pub(crate) fn exited(self, outcome: Outcome) -> Self {
        self.push(EventKind::Exited {
            exit_code: Some(i32::from(outcome != Outcome::Completed)),
            signal: None,
            cancelled: outcome == Outcome::Cancelled,
            outcome,
            cause: None,
            timeout: None,
            quiescent: None,
            stop_reason: None,
            turns: None,
            duration_ms: None,
            api_duration_ms: None,
        })
    }

    /// The text that a view makes of it.
    pub(crate) fn shown(&self, name: &str, options: &Options) -> String {
        show(&self.events, name, options)
    }

    /// The records that a view makes of it.
    pub(crate) fn records(&self, name: &str, options: &Options) -> Vec<serde_json::Value> {
        records(&self.events, name, options)
    }
}

pub(crate) fn tool_start(id: &'static str, name: &'static str, input: Option<&'static str>) -> EventKind<'static> {
    EventKind::ToolStart {
        tool_call_id: id.into(),
        name: name.into(),
        input: input.map(Into::into),
        tool_kind: ToolKind::of_name(name),
        title: None,
    }
}

pub(crate) fn tool_end(id: &'static str, status: ToolStatus, output: &'static str, exit_code: Option<i32>) -> EventKind<'static> {
    let (ok, output) = (status == ToolStatus::Ok, Some(output.into()));
    EventKind::ToolEnd { tool_call_id: id.into(), ok, output, status, exit_code, duration_ms: Some(1_000) }
}

pub(crate) fn records(events: &[Event<'_>], name: &str, options: &Options) -> Vec<serde_json::Value> {
    show(events, name, options).lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
}
