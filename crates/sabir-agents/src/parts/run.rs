//! `run --format json`: one line for every part that is complete. There is no first line, no delta, no start of a tool
//! call, no retry and no last line; the stream just ends.

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Session, TextDelta, ThinkingDelta, ToolStatus, TurnEnd, TurnStart};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;

use super::ending::Ending;
use super::tool::ToolCall;
use super::wire::{Failure, Part, Span};

/// Reads the stream.
#[derive(Default)]
pub(crate) struct Run {
    session_id: Option<String>,
    ending: Ending,
}

/// Any line.
#[derive(Deserialize)]
pub(crate) struct Wire<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    timestamp: Option<i64>,
    #[serde(borrow, rename = "sessionID")]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    part: Option<Part<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
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
                self.ending.step_start();
                facts.push(TurnStart::default());
            }
            ("text", Some(part), _) => {
                let Some(text) = part.text else { return };
                self.ending.text(&text);
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
                        self.ending.denied();
                    }
                }
                None => json::unrecognized(line, facts),
            },
            ("step_finish", Some(part), _) => {
                self.ending.step_finish(part.reason.as_deref());
                if let Some(usage) = part.tokens.and_then(|tokens| tokens.event(part.cost, None)) {
                    facts.push(usage);
                }
                facts.push(TurnEnd::default().stop_reason(part.reason));
            }
            ("error", _, Some(StringOr::Other(failure))) => self.ending.fail(failure, facts),
            // What the command itself has to say against the run has no name.
            ("error", _, Some(StringOr::String(name))) => self.ending.fail(Failure { name, data: None }, facts),
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.ending.is_final())
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.ending.verdict(true, facts)
    }
}
