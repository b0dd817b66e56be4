//! Runs written by hand, for tests of what is made of events.

use std::borrow::Cow;

use sabir_core::event::{
    Event, EventKind, Exited, Final, Outcome, RunId, Session, Started, TextDelta, ThinkingDelta, ToolEnd, ToolKind, ToolStart,
    ToolStatus, TurnEnd, TurnStart, Usage, UsageScope,
};
use sabir_core::export::Options;
use sabir_core::time::Timestamp;

use crate::common::writers::show;

/// The events of one run, numbered and a second apart.
pub(crate) struct Run {
    pub(crate) events: Vec<Event<'static>>,
}

impl Run {
    pub(crate) fn of(agent: &'static str) -> Self {
        Self { events: Vec::new() }.push(Started::new(agent))
    }

    pub(crate) fn push(mut self, kind: impl Into<EventKind<'static>>) -> Self {
        self.add(kind.into(), None);
        self
    }

    pub(crate) fn inside(mut self, parent: &'static str, kind: impl Into<EventKind<'static>>) -> Self {
        self.add(kind.into(), Some(parent.into()));
        self
    }

    fn add(&mut self, kind: EventKind<'static>, parent_tool_call_id: Option<Cow<'static, str>>) {
        let seq = self.events.len() as u64 + 1;
        let at = Timestamp::from_millis(1_790_000_000_000 + i64::try_from(seq).expect("few events") * 1_000);
        self.events.push(Event { run_id: RunId::from("run-1"), seq, at, line: None, parent_tool_call_id, kind });
    }

    pub(crate) fn session(self) -> Self {
        self.push(Session::default().session_id("s-1").model("model-1").cwd("/home/user/project").agent_version("1.2.3"))
    }

    pub(crate) fn turn(self, turn: u32) -> Self {
        self.push(TurnStart::new(turn))
    }

    pub(crate) fn turn_end(self, turn: u32, stop_reason: &'static str) -> Self {
        self.push(TurnEnd::new(turn).stop_reason(stop_reason))
    }

    pub(crate) fn text(self, message: &'static str, delta: &'static str) -> Self {
        self.push(TextDelta::new(delta).message_id(message))
    }

    pub(crate) fn thinking(self, message: &'static str, delta: &'static str) -> Self {
        self.push(ThinkingDelta::new(delta).message_id(message))
    }

    pub(crate) fn tool(self, id: &'static str, name: &'static str, input: Option<&'static str>) -> Self {
        self.push(tool_start(id, name, input))
    }

    pub(crate) fn tool_end(self, id: &'static str, status: ToolStatus, output: &'static str, exit_code: Option<i32>) -> Self {
        self.push(tool_end(id, status, output, exit_code))
    }

    pub(crate) fn shell(self, id: &'static str, command: &str, output: &'static str) -> Self {
        let input = serde_json::json!({ "command": command }).to_string();
        self.push(ToolStart::of_kind(ToolKind::Execute, id, "Bash").input(input)).tool_end(id, ToolStatus::Ok, output, Some(0))
    }

    pub(crate) fn usage(self, scope: UsageScope, input: u64, cache_read: u64, output: u64) -> Self {
        self.push(
            Usage::new(scope)
                .input_tokens(input)
                .output_tokens(output)
                .total_tokens(input + cache_read + output)
                .cache_read_tokens(cache_read),
        )
    }

    pub(crate) fn answer(self, text: &'static str) -> Self {
        self.push(Final::new(text))
    }

    pub(crate) fn exited(self, outcome: Outcome) -> Self {
        self.push(Exited::new(outcome).exit_code(i32::from(outcome != Outcome::Completed)))
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
    ToolStart::new(id, name).input(input).into()
}

pub(crate) fn tool_end(id: &'static str, status: ToolStatus, output: &'static str, exit_code: Option<i32>) -> EventKind<'static> {
    ToolEnd::new(id, status).output(output).exit_code(exit_code).duration_ms(1_000).into()
}

pub(crate) fn records(events: &[Event<'_>], name: &str, options: &Options) -> Vec<serde_json::Value> {
    show(events, name, options).lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
}
