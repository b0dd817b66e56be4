//! Plain text for people: thinking between tags, `[using tool …]` before each call and what it gave back between two
//! `---output---` lines. The answer is what `attempt_completion` gave back, or all that is left.

use std::borrow::Cow;

use sabir_core::dialect::{Dialect, End, Facts, Held, Verdict};
use sabir_core::event::{Activity, Final, Outcome, TextDelta};
use sabir_core::line::Line;

use super::COMPLETION;
use super::narration::{Narration, Part};

const FENCE: &str = "---output---";

/// Reads the text.
#[derive(Default)]
pub(super) struct Text {
    narration: Narration,
    /// Inside the output of a tool.
    fenced: bool,
    /// The tool that was used last is the one that answers.
    completing: bool,
    completion: Held,
    said: Held,
}

impl Dialect for Text {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if line.text.trim() == FENCE {
            self.fenced = !self.fenced;
            if self.fenced {
                self.completion.clear();
            }
            return;
        }
        let text = if line.terminated { Cow::Owned(format!("{}\n", line.text)) } else { line.text.clone() };
        if self.fenced && self.completing {
            self.completion.push(&text);
            facts.push(TextDelta::new(text));
        } else if self.fenced {
            facts.push(Activity::new(line.text.clone()));
        } else {
            let mut parts = Vec::new();
            self.narration.piece(text, &mut parts);
            self.tell(parts, facts);
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let mut parts = Vec::new();
        self.narration.end(&mut parts);
        self.tell(parts, facts);
        let completed = self.completing && !self.completion.is_blank();
        let text = if completed { self.completion.as_str() } else { self.said.as_str() }.trim();
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

impl Text {
    fn tell<'a>(&mut self, parts: Vec<Part<'a>>, facts: &mut Facts<'a>) {
        for part in parts {
            match &part {
                Part::Text(text) => self.said.push(text),
                Part::Echo(echo) => {
                    self.completing = echo.contains(COMPLETION);
                    self.said.clear();
                }
                Part::Thinking(_) => {}
            }
            part.push(facts);
        }
    }
}
