//! Dialect of `run --format json`: one line per completed part.
//!
//! The stream has no header, no deltas, no starts of tool calls, no retries and no terminal event.

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Session, TextDelta, ThinkingDelta, ToolStatus, TurnEnd, TurnStart};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;

use super::outcome::OutcomeTracker;
use super::tool::ToolCall;
use super::wire::{Failure, Part, Span};

/// Parses the stream.
#[derive(Default)]
pub(crate) struct Run {
    session_id: Option<String>,
    outcome: OutcomeTracker,
}

/// Any line.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct Wire<'a> {
    r#type: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    timestamp: Option<i64>,
    #[serde(rename = "sessionID")]
    session_id: Option<Str<'a>>,
    part: Option<Part<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    error: Option<StringOr<'a, Failure<'a>>>,
}

impl JsonDialect for Run {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.and_then(Timestamp::from_millis);
        if wire.session_id.is_some() && self.session_id.as_deref() != wire.session_id.as_deref() {
            self.session_id = wire.session_id.as_deref().map(str::to_owned);
            facts.push(Session::default().session_id(wire.session_id));
        }
        match (&*wire.r#type, wire.part, wire.error) {
            ("step_start", Some(_), _) => {
                self.outcome.step_start();
                facts.push(TurnStart::default());
            }
            ("text", Some(part), _) => {
                let Some(text) = part.text else { return };
                self.outcome.text(&text);
                facts.at = part.time.and_then(Span::end).or(facts.at);
                facts.push(TextDelta::new(text.0).message_id(part.message_id));
            }
            ("reasoning", Some(part), _) => {
                let Some(text) = part.text else { return };
                facts.at = part.time.and_then(Span::end).or(facts.at);
                facts.push(ThinkingDelta::new(text.0).message_id(part.message_id));
            }
            ("tool_use", Some(part), _) => match ToolCall::of(part) {
                Some(call) => {
                    call.push_start(facts);
                    if call.is_over() && call.push_end(facts) == ToolStatus::Denied {
                        self.outcome.denied();
                    }
                }
                None => json::unrecognized(line, facts),
            },
            ("step_finish", Some(part), _) => {
                self.outcome.step_finish(part.reason.as_deref());
                if let Some(usage) = part.tokens.and_then(|tokens| tokens.event(part.cost, None)) {
                    facts.push(usage);
                }
                facts.push(TurnEnd::default().stop_reason(part.reason));
            }
            ("error", _, Some(StringOr::Other(failure))) => self.outcome.fail(failure, facts),
            // An error of the command itself is a string.
            ("error", _, Some(StringOr::String(name))) => self.outcome.fail(Failure { name, data: None }, facts),
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.outcome.is_final())
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.outcome.verdict(true, facts)
    }
}
