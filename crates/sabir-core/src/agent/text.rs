//! Plain text: what every agent prints when it is not asked for anything better. The answer is all of it, trimmed.

use std::borrow::Cow;

use super::{DialectEntry, Form, Match};
use crate::dialect::{Dialect, End, Facts, Held, Verdict};
use crate::event::{Final, Outcome, TextDelta};
use crate::line::Line;

/// Plain text, the last entry of every agent.
pub const DIALECT: DialectEntry = DialectEntry {
    name: "text",
    about: "plain text; all of it is the answer",
    form: Form::Text,
    detect: |_| Match::No,
    reader: || Box::new(PlainText::default()),
};

/// Every line is a piece of the answer.
#[derive(Debug, Default)]
pub struct PlainText {
    answer: Held,
}

impl PlainText {
    /// What was said so far does not belong to the answer.
    pub(super) fn start_over(&mut self) {
        self.answer.clear();
    }
}

impl Dialect for PlainText {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let delta = if line.terminated { Cow::Owned(format!("{}\n", line.text)) } else { line.text.clone() };
        self.answer.push(&delta);
        facts.push(TextDelta::new(delta));
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let text = self.answer.as_str().trim();
        // What a failing program prints is its complaint, not an answer.
        let failed = end.exit_code.is_some_and(|code| code != 0) || end.signal.is_some();
        if !text.is_empty() && !failed {
            facts.push(Final::new(text.to_owned()));
        }
        let said_anything = !text.is_empty() || end.exit_code.is_some();
        let outcome = if said_anything { Outcome::Completed } else { Outcome::Incomplete };
        Verdict { exit_code_decides: true, ..Verdict::of(outcome) }
    }
}

/// Plain text of an agent whose exit codes say more than that it failed.
pub(super) struct WithEnding {
    text: PlainText,
    ending: fn(Verdict, &End) -> Verdict,
}

impl WithEnding {
    /// Text whose verdict that function has the last word on.
    pub(super) fn new(ending: fn(Verdict, &End) -> Verdict) -> Self {
        Self { text: PlainText::default(), ending }
    }
}

impl Dialect for WithEnding {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        self.text.line(line, facts);
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        (self.ending)(self.text.end(end, facts), end)
    }
}
