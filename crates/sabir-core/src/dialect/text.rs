//! Plain text, the fallback format of every agent: the answer is the trimmed text.

use std::borrow::Cow;

use super::{Dialect, End, Facts, Held, Verdict};
use crate::agent::{Confidence, DialectSpec};
use crate::event::{Final, Outcome, TextDelta};
use crate::line::Line;

/// The plain text dialect, last in every agent's list.
pub fn dialect() -> DialectSpec {
    dialect_of(PlainText::default)
}

/// The plain text dialect with an agent's own decoder.
pub fn dialect_of<D: Dialect + 'static>(create: impl Fn() -> D + Send + Sync + 'static) -> DialectSpec {
    DialectSpec::text("text", "plain text; all of it is the answer", |_| Confidence::None, create)
}

/// Every line is a piece of the answer.
#[derive(Debug, Default)]
pub struct PlainText {
    answer: Held,
}

impl PlainText {
    /// What was said so far does not belong to the answer.
    pub fn start_over(&mut self) {
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
pub struct WithEnding {
    text: PlainText,
    ending: fn(Verdict, &End) -> Verdict,
}

impl WithEnding {
    /// Text whose verdict that function has the last word on.
    pub fn new(ending: fn(Verdict, &End) -> Verdict) -> Self {
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
