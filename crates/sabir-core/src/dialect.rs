//! What a dialect is: lines in, facts out.
//!
//! A dialect reads one format that one agent prints. It keeps what it must remember between lines and nothing else,
//! never fails, and leaves the laws of the stream (numbers, pairs, one answer, one ending) to the
//! [decoder](crate::decode).

mod said;
mod seen;
pub mod text;

use std::borrow::Cow;

pub use said::Said;
pub use seen::RecentIds;

use crate::cut;
use crate::event::{Accounting, Cause, Detection, EventKind, Outcome, Text, Timeout, Unrecognized};
use crate::line::Line;
use crate::time::Timestamp;

/// One format of one agent. The same lines give the same facts.
pub trait Dialect: Send {
    /// Reads one line of standard output. A line may hold any number of facts.
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>);

    /// Header of a recorded stream, if the line is one.
    fn recording_header(&self, _: &str) -> Option<RecordingHeader> {
        None
    }

    /// The run takes up an earlier session, which the stream may not say: totals may begin with what was used before.
    fn resumed(&mut self) {}

    /// Whether the agent has said that its run is over; `None` when this format has no sign for that. Lines may still
    /// follow: a runner waits for them only for a while.
    fn over(&self) -> Option<bool> {
        None
    }

    /// The stream is over: says what was held back, and how the stream itself says that the run ended.
    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict;
}

/// What a line says, with the head that the dialect can give it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact<'a> {
    /// The agent's own time.
    pub at: Option<Timestamp>,
    /// The tool call that started the sub-agent which says it.
    pub parent: Option<Cow<'a, str>>,
    /// What happened. Turn numbers are given by the decoder.
    pub kind: EventKind<'a>,
}

/// Collects the facts of a line.
#[derive(Debug, Default)]
pub struct Facts<'a> {
    /// The agent's own time for the facts pushed from here on.
    pub at: Option<Timestamp>,
    /// The sub-agent's tool call for the facts pushed from here on.
    pub parent: Option<Cow<'a, str>>,
    list: Vec<Fact<'a>>,
}

impl<'a> Facts<'a> {
    /// Adds a fact with the head that is set.
    pub fn push(&mut self, kind: impl Into<EventKind<'a>>) {
        self.list.push(Fact { at: self.at, parent: self.parent.clone(), kind: kind.into() });
    }

    /// Adds a fact that has its own head.
    pub fn push_fact(&mut self, fact: Fact<'a>) {
        self.list.push(fact);
    }

    /// Keeps a line that no rule knows.
    pub fn unrecognized(&mut self, r#type: Option<Cow<'a, str>>, line: &Line<'a>) {
        self.push(Unrecognized::new(line.text.clone()).r#type(r#type));
    }

    /// Whether no fact was pushed.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The facts in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fact<'a>> {
        self.list.iter()
    }

    /// Takes the facts out, in order, and forgets the head.
    pub fn drain(&mut self) -> impl Iterator<Item = Fact<'a>> {
        self.at = None;
        self.parent = None;
        self.list.drain(..)
    }

    /// The emptied collector for another line, with the memory that it has.
    pub fn recycle<'b>(self) -> Facts<'b> {
        let mut list = self.list;
        list.clear();
        // Collecting an empty vector into one of the same layout keeps its allocation.
        let list = list.into_iter().map(|_: Fact<'a>| unreachable!("the list is empty")).collect();
        Facts { at: None, parent: None, list }
    }
}

impl<'a> Fact<'a> {
    /// A fact without a head.
    pub fn new(kind: impl Into<EventKind<'a>>) -> Self {
        Self { at: None, parent: None, kind: kind.into() }
    }

    /// Copies what is borrowed from the line.
    pub fn into_owned(self) -> Fact<'static> {
        Fact { at: self.at, parent: self.parent.map(|text| Cow::Owned(text.into_owned())), kind: self.kind.into_owned() }
    }
}

/// What a `started` event says, in a stream that begins with a recorded one.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingHeader {
    /// Id of the agent.
    pub agent: String,
    /// Its version.
    pub agent_version: Option<String>,
    /// How the agent was found.
    pub detection: Option<Detection>,
    /// How it composes its token counts.
    pub accounting: Option<Accounting>,
    /// When the run started.
    pub at: Option<Timestamp>,
}

/// How the process of the run ended, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it, e.g. `SIGTERM`.
    pub signal: Option<String>,
    /// Whether somebody asked it to stop.
    pub cancelled: bool,
    /// The time limit that ended it.
    pub timeout: Option<Timeout>,
    /// Why it never ran.
    pub start_failed: Option<StartFailure>,
    /// Whether no process of it is left.
    pub quiescent: Option<bool>,
    /// When it ended.
    pub at: Option<Timestamp>,
}

/// Why a run never began.
#[derive(Debug, Clone, PartialEq)]
pub struct StartFailure {
    /// For people.
    pub message: String,
    /// For programs.
    pub cause: Cause,
}

/// How the run ended as far as the stream itself says.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// [`Outcome::Incomplete`] when there was no terminal sign.
    pub outcome: Outcome,
    /// Why, when it ended badly.
    pub cause: Option<Cause>,
    /// Why the model stopped last, in the agent's word.
    pub stop_reason: Option<String>,
    /// Number of turns as the agent counts them.
    pub turns: Option<u32>,
    /// Duration as the agent measured it.
    pub duration_ms: Option<u64>,
    /// The part of it that was spent waiting for the model.
    pub api_duration_ms: Option<u64>,
    /// The dialect has no terminal sign of its own, so the exit code alone decides.
    pub exit_code_decides: bool,
    /// How the process ended that a recording is of. It counts where nothing is known of the process that printed it.
    pub recorded: Option<End>,
}

impl Verdict {
    /// A verdict of that outcome, with nothing else known.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            cause: None,
            stop_reason: None,
            turns: None,
            duration_ms: None,
            api_duration_ms: None,
            exit_code_decides: false,
            recorded: None,
        }
    }

    /// A failure of that class.
    pub fn failed(cause: Option<Cause>) -> Self {
        Self { cause, ..Self::of(Outcome::Failed) }
    }
}

/// The texts of a message whose end a dialect must wait for, as they came. Nearly all messages are followed by another
/// one, so only the last is unescaped.
#[derive(Debug, Clone, Default)]
pub struct HeldTexts {
    texts: Vec<Text<'static>>,
    written: usize,
}

impl HeldTexts {
    /// Appends a text.
    pub fn push(&mut self, text: Text<'_>) {
        if self.written < Held::LIMIT {
            self.written += text.written().len();
            self.texts.push(text.into_owned());
        }
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes them out, as one text.
    pub fn take(&mut self) -> Held {
        let mut held = Held::default();
        std::mem::take(self).texts.into_iter().for_each(|text| held.push(&text.into_string()));
        held
    }
}

/// Text that grows up to a limit: what a dialect keeps of a message whose end it must wait for.
///
/// A run may print for days; beyond the limit the head is kept, with an ellipsis at its end, and the rest is only in the
/// deltas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Held {
    text: String,
}

impl Held {
    /// How much of one message is kept.
    pub const LIMIT: usize = 16 * 1024 * 1024;

    /// Appends a piece.
    pub fn push(&mut self, piece: &str) {
        let room = Self::LIMIT.saturating_sub(self.text.len());
        if piece.len() <= room {
            self.text.push_str(piece);
        } else if room > 0 || !self.text.ends_with(cut::ELLIPSIS) {
            self.text.push_str(cut::head(piece, room));
            self.text.push(cut::ELLIPSIS);
        }
    }

    /// Replaces all of it.
    pub fn set(&mut self, text: &str) {
        self.text.clear();
        self.push(text);
    }

    /// Forgets it.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// What is held.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether nothing but white space is held.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Takes it out.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Held;

    #[test]
    fn held_text_is_cut_once_and_marked() {
        let mut held = Held::default();
        held.push(&"x".repeat(Held::LIMIT));
        assert!(!held.as_str().ends_with('…'), "it is complete");
        for piece in ["y", "", "zä"] {
            held.push(piece);
        }
        assert!(held.as_str().ends_with("xx…") && held.as_str().len() == Held::LIMIT + 3);
    }
}
