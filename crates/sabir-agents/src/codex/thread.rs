//! Threads, turns and items: `codex exec --json` since 0.44, and `--experimental-json` of 0.42.
//!
//! ```text
//! thread.started ─► turn.started ─► item.started ─► item.updated … ─► item.completed ─► … ─► turn.completed | turn.failed
//! ```
//!
//! Messages come whole. In 0.42 the first line is `session.created`, an item's type is `item_type`, and there are
//! neither turns nor usage, so that the end of the stream is the end of the run.

mod item;

use std::borrow::Cow;

use item::{Item, Stage};
use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{Activity, Outcome, PlanItem, Session, TextDelta, TurnEnd, TurnStart, UsageScope};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use serde::Deserialize;

use super::answer::Answer;
use super::counter::{Counter, Figures};
use super::report;
use super::trouble::Trouble;

/// Reads threads.
#[derive(Debug, Default)]
pub(super) struct Thread {
    turn: Turn,
    answer: Answer,
    /// The message or reasoning that was printed last, as far as it was said.
    growing: Growing,
    plan: Vec<PlanItem<'static>>,
    counter: Counter,
    trouble: Trouble,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Turn {
    /// No turn was announced: the thread has just begun, or is of a version that announces none.
    #[default]
    Unannounced,
    Open,
    Completed,
    Failed,
}

/// A text that may be printed again with more at its end.
#[derive(Debug, Default)]
struct Growing {
    id: String,
    said: Held,
}

impl Growing {
    /// What a printed text has that was not said yet.
    fn news<'a>(&mut self, id: &str, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.id == id && text.starts_with(self.said.as_str()) {
            let from = self.said.as_str().len();
            self.said.set(&text);
            return match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.get(from..).unwrap_or_default()),
                Cow::Owned(text) => Cow::Owned(text.get(from..).unwrap_or_default().to_owned()),
            };
        }
        id.clone_into(&mut self.id);
        self.said.set(&text);
        text
    }
}

#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    r#type: Option<Str<'a>>,
    #[serde(borrow, alias = "session_id")]
    thread_id: Option<Str<'a>>,
    #[serde(borrow)]
    item: Option<Item<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage: Option<Figures>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Message<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    item_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    delta: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

/// How sure a line makes us that the stream is of this dialect.
pub(super) fn detect(line: &str) -> Confidence {
    match json::type_of(line).as_deref() {
        Some(
            "thread.started" | "session.created" | "turn.started" | "turn.completed" | "turn.failed" | "item.started"
            | "item.updated" | "item.completed",
        ) => Confidence::Certain,
        _ => Confidence::None,
    }
}

impl JsonDialect for Thread {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match (wire.r#type.as_deref(), wire.item) {
            (Some("thread.started" | "session.created"), _) => facts.push(Session::default().session_id(wire.thread_id)),
            (Some("turn.started"), _) => {
                self.turn = Turn::Open;
                self.answer.clear();
                self.trouble.clear();
                facts.push(TurnStart::default());
            }
            (Some("turn.completed"), _) => {
                self.turn = Turn::Completed;
                self.trouble.clear();
                if let Some(usage) = wire.usage {
                    let older = self.counter.begins_before();
                    match self.counter.add(usage) {
                        Some(added) => facts.push(added.usage(UsageScope::Turn)),
                        None if older => facts.push(Activity::new(usage.so_far())),
                        None => {}
                    }
                }
                facts.push(TurnEnd::default());
            }
            (Some("turn.failed"), _) => {
                self.turn = Turn::Failed;
                let said = wire.error.and_then(|error| error.message).or(wire.message);
                let message = said.map_or(Cow::Borrowed("the turn failed"), Cow::from);
                if let Some(error) = self.trouble.fatal(message) {
                    facts.push(error);
                }
                facts.push(TurnEnd::default());
            }
            (Some("error"), _) => {
                let said = wire.message.or(wire.error.and_then(|error| error.message));
                let Some(message) = said.map(Cow::from) else { return json::unrecognized(line, facts) };
                if let Some(event) = self.trouble.retry_or_fatal(message) {
                    facts.push(event);
                }
            }
            (Some("item.started"), Some(item)) => self.item(item, Stage::Started, line, facts),
            (Some("item.updated"), Some(item)) => self.item(item, Stage::Updated, line, facts),
            (Some("item.completed"), Some(item)) => self.item(item, Stage::Completed, line, facts),
            (Some("item.plan.delta"), _) => {
                let (Some(id), Some(delta)) = (wire.item_id, wire.delta) else { return json::unrecognized(line, facts) };
                if self.growing.id != *id {
                    self.growing = Growing { id: id.to_string(), said: Held::default() };
                }
                self.growing.said.push(&delta);
                facts.push(TextDelta::new(delta).message_id(id));
            }
            _ => json::unrecognized(line, facts),
        }
    }

    fn resumed(&mut self) {
        self.counter.resume();
    }

    fn over(&self) -> Option<bool> {
        Some(matches!(self.turn, Turn::Completed) || self.trouble.verdict().is_some())
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = match (self.turn, self.trouble.verdict()) {
            (_, Some(failed)) => failed,
            (Turn::Completed, None) => Verdict::of(Outcome::Completed),
            // With no turns announced, a message that nothing follows is all there is to tell that the run is over.
            (Turn::Unannounced, None) if self.answer.stands() => {
                Verdict { exit_code_decides: true, ..Verdict::of(Outcome::Completed) }
            }
            _ => Verdict::of(Outcome::Incomplete),
        };
        report::answer(&self.answer, &verdict, end, facts);
        verdict
    }
}
