//! The events of `--json`.
//!
//! Every `content_start` of a text is one more piece of it and `content_end` is all of it. The `run_result` ends the run;
//! a `done` before it may be a sub-agent's. Its usage leaves sub-agents out, so that the calls are counted instead.

use std::borrow::Cow;

use sabir_core::dialect::{End, Facts, Held, Said, Verdict};
use sabir_core::event::{
    Activity, Cause, ErrorEvent, EventKind, Final, Outcome, Retry, Session, TextDelta, ThinkingDelta, TurnEnd, TurnStart,
    UsageScope,
};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use super::lanes::Lanes;
use super::tools::Tools;
use super::wire::{Event, Wire, error_message};

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    lanes: Lanes,
    tools: Tools,
    /// Whether a call of the main agent had figures.
    counted: bool,
    retries: u32,
    /// The failure that was told last.
    failure: Option<(String, Cause)>,
    /// Why the run finished, once its result came.
    finish: Option<String>,
    aborted: bool,
    timed_out: bool,
    answer: Held,
    turns: Option<u32>,
    duration_ms: Option<u64>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.ts.as_deref().and_then(Timestamp::parse);
        match (&*wire.r#type, wire.event) {
            ("agent_event", Some(event)) => self.event(event, line, facts),
            ("hook_event", _) => {
                if let Some(agent) = &wire.agent_id {
                    self.lanes.enter(agent, wire.parent_agent_id.as_deref());
                }
                match wire.hook_event_name.as_deref() {
                    Some("agent_start") => self.lanes.current().begin(),
                    Some("agent_end" | "agent_error") => self.lanes.current().ended = true,
                    _ => {}
                }
            }
            ("run_result", event) => self.result(Wire { event, ..wire }, facts),
            ("run_aborted", _) => self.aborted = true,
            // Such lines are on standard error, which some people read together with the rest.
            ("error", _) => {
                let message = wire.message.map_or(Cow::Borrowed("the run failed"), Cow::from);
                self.timed_out |= message.starts_with("run timed out");
                self.fail(message, None, self.timed_out, facts);
            }
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.finish.is_some())
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let cause = self.failure.as_ref().map(|(_, cause)| *cause);
        // Its own time limit (`-t`) stops it like a person would, but it says who the person was and fails without one.
        let out_of_time = self.timed_out || (!self.aborted && !end.cancelled && end.exit_code.is_some_and(|code| code != 0));
        let (outcome, cause) = match self.finish.as_deref() {
            Some("completed") => (Outcome::Completed, None),
            Some("max_iterations") => (Outcome::Limited, Some(Cause::MaxTurns)),
            Some("aborted") if out_of_time => (Outcome::TimedOut, Some(Cause::Timeout)),
            Some("aborted") => (Outcome::Cancelled, None),
            Some(_) => (Outcome::Failed, cause.or(Some(Cause::Unknown))),
            None if self.aborted => (Outcome::Cancelled, None),
            None => (Outcome::Incomplete, cause),
        };
        if matches!(outcome, Outcome::Completed | Outcome::Limited) && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        Verdict {
            cause,
            stop_reason: self.finish.take(),
            turns: self.turns,
            duration_ms: self.duration_ms,
            ..Verdict::of(outcome)
        }
    }
}

impl Stream {
    fn event<'a>(&mut self, mut event: Event<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        if let Some(agent) = &event.agent_id {
            self.lanes.enter(agent, event.parent_agent_id.as_deref());
        }
        let content = event.content_type.as_deref().unwrap_or("");
        if content == "tool" {
            return self.tools.read(event, &mut self.lanes, line, facts);
        }
        match (&*event.r#type, content) {
            ("content_start" | "content_end", "text" | "reasoning") => {
                let text = if content == "text" { event.text.take() } else { event.reasoning.take() };
                let whole = &*event.r#type == "content_end";
                self.lanes.head(facts);
                if let Some(text) = text {
                    self.say(content == "reasoning", whole, text, facts);
                }
            }
            // Pictures and sound that the model made.
            ("content_start" | "content_end", "media") => {}
            ("iteration_start", _) => {
                let iteration = event.iteration.unwrap_or(0);
                self.lanes.find(|lane| !lane.ended && lane.iteration.saturating_add(1) == iteration);
                let lane = self.lanes.current();
                (lane.iteration, lane.text, lane.reasoning) = (iteration, Said::default(), Said::default());
                if self.lanes.is_main() {
                    facts.push(TurnStart::default());
                }
            }
            ("iteration_end", _) => {
                self.lanes.find(|lane| !lane.ended && Some(lane.iteration) == event.iteration);
                if self.lanes.is_main() {
                    facts.push(TurnEnd::default());
                }
            }
            ("usage", _) => self.usage(&event, facts),
            ("done", _) => self.done(event, facts),
            ("error", _) => {
                let message = event.error.and_then(error_message).map_or(Cow::Borrowed("the agent failed"), Cow::from);
                let class = match event.error_class.as_deref() {
                    Some("auth") => Some(Cause::Auth),
                    Some("context_window_exceeded") => Some(Cause::ContextExhausted),
                    _ => None,
                };
                self.lanes.head(facts);
                self.fail(message, class, event.recoverable == Some(false), facts);
            }
            ("notice", _) => {
                let message = event.message.map_or(Cow::Borrowed("a notice"), Cow::from);
                self.lanes.head(facts);
                facts.push(if event.reason.as_deref() == Some("api_error") {
                    self.retries = self.retries.saturating_add(1);
                    EventKind::Retry(Retry::new(self.retries, message))
                } else {
                    EventKind::Activity(Activity::new(message))
                });
            }
            _ => json::unrecognized(line, facts),
        }
    }

    /// Says a piece of a text, or of its whole copy what was not said.
    fn say<'a>(&mut self, thinking: bool, whole: bool, text: Str<'a>, facts: &mut Facts<'a>) {
        let lane = self.lanes.current();
        let said = if thinking { &mut lane.reasoning } else { &mut lane.text };
        let delta = if whole {
            match std::mem::take(said) {
                said if said.is_empty() => text.0,
                mut said => match text.0 {
                    Cow::Borrowed(text) => Cow::Borrowed(said.rest(text)),
                    Cow::Owned(text) => Cow::Owned(said.rest(&text).to_owned()),
                },
            }
        } else {
            said.push(&text);
            text.0
        };
        facts.push(if thinking {
            EventKind::Thinking(ThinkingDelta::new(delta))
        } else {
            EventKind::Text(TextDelta::new(delta))
        });
    }

    /// The figures of one model call, with the sums of its agent, which tell whose they are.
    fn usage(&mut self, event: &Event<'_>, facts: &mut Facts<'_>) {
        let figures = event.figures();
        let (input, output) = figures.sum();
        let total = (event.total_input_tokens.unwrap_or(input), event.total_output_tokens.unwrap_or(output));
        self.lanes.find(|lane| (lane.total.0.saturating_add(input), lane.total.1.saturating_add(output)) == total);
        self.lanes.current().total = total;
        self.lanes.head(facts);
        if let Some(usage) = figures.event(UsageScope::Message) {
            self.counted |= self.lanes.is_main();
            facts.push(usage);
        }
    }

    /// An agent is done. Of the main one the result says more.
    fn done<'a>(&mut self, event: Event<'a>, facts: &mut Facts<'a>) {
        let total = event.usage.unwrap_or_default().sum();
        self.lanes.find(|lane| lane.ended && lane.total == total);
        if self.lanes.is_main() {
            return;
        }
        self.lanes.head(facts);
        if let (Some("error" | "mistake_limit"), Some(text)) = (event.reason.as_deref(), event.text) {
            let class = Some(Cause::of_error(None, &text));
            facts.push(ErrorEvent::new(text.0).class(class));
        }
    }

    fn result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let finish = wire.finish_reason.map_or_else(|| "unknown".to_owned(), |reason| reason.0.into_owned());
        if let Some(model) = wire.model {
            facts.push(Session::default().model(model.id.0));
        }
        if !self.counted
            && let Some(usage) = wire.usage.and_then(|usage| usage.event(UsageScope::Message))
        {
            facts.push(usage);
        }
        if let Some(text) = wire.text {
            match finish.as_str() {
                "completed" | "max_iterations" => self.answer.set(&text),
                "aborted" => {}
                _ => self.fail(text.0, None, true, facts),
            }
        }
        self.finish = Some(finish);
        self.turns = wire.iterations;
        self.duration_ms = wire.duration_ms;
    }

    /// Tells a failure once; it comes as an event, in the result and on standard error.
    fn fail<'a>(&mut self, message: Cow<'a, str>, class: Option<Cause>, fatal: bool, facts: &mut Facts<'a>) {
        if self.failure.as_ref().is_some_and(|(told, _)| *told == message) {
            return;
        }
        let class = class.unwrap_or_else(|| Cause::of_error(None, &message));
        let main = facts.parent.is_none();
        if main {
            self.failure = Some((message.clone().into_owned(), class));
        }
        facts.push(ErrorEvent::new(message).class(class).fatal(fatal && main));
    }
}
