//! Text for people. A tool call has a heading and its arguments; its output and what the model says next are one text.
//!
//! ```text
//!   ────────────────────────────────────────
//!   ▸ shell
//!     command: make test
//!
//! 12 passedAll tests pass.
//! ```

use std::borrow::Cow;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{Dialect, End, Facts, Held, Verdict};
use sabir_core::event::{Activity, Final, Outcome, TextDelta};
use sabir_core::line::Line;

use super::banner::{self, Banner};
use super::conversation::{Conversation, Notice, notice};

/// Reads such text.
#[derive(Default)]
pub(super) struct Text {
    banner: Banner,
    /// Inside the heading of a tool call.
    heading: bool,
    answer: Held,
    /// Keeps the failure.
    conversation: Conversation,
    failed: bool,
    limited: bool,
}

/// How sure a line makes us that the stream is of this dialect.
pub(super) fn detect(line: &str) -> Confidence {
    if banner::piece(line).is_some() { Confidence::Possible } else { Confidence::None }
}

/// Whether the line is the rule above a tool call.
fn is_rule(line: &str) -> bool {
    let rule = line.trim();
    line.starts_with("  ─") && rule.chars().count() >= 20 && rule.chars().all(|c| c == '─')
}

impl Dialect for Text {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if self.banner.line(&line.text, facts) {
            return;
        }
        if is_rule(&line.text) {
            self.heading = true;
            self.answer.clear();
            return;
        }
        if self.heading {
            self.heading = !line.text.trim().is_empty();
            facts.push(Activity::new(line.text.clone()));
            return;
        }
        match notice(line.text.trim_end(), false) {
            Some(Notice::Error(error)) => {
                self.failed = true;
                self.conversation.fail(error, facts);
            }
            Some(Notice::Limit) => {
                self.limited = true;
                facts.push(Activity::new(line.text.clone()));
            }
            None => {
                let delta = if line.terminated { Cow::Owned(format!("{}\n", line.text)) } else { line.text.clone() };
                // Blank lines around the banner and between sections say nothing.
                if self.answer.as_str().is_empty() && delta.trim().is_empty() {
                    return;
                }
                self.answer.push(&delta);
                facts.push(TextDelta::new(delta));
            }
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        if self.failed {
            return self.conversation.end(end, facts);
        }
        if self.limited {
            return Verdict::of(Outcome::Limited);
        }
        let answer = self.answer.as_str().trim();
        if answer.is_empty() {
            return Verdict::of(Outcome::Incomplete);
        }
        let stopped = end.cancelled || end.timeout.is_some() || end.signal.is_some();
        if !stopped && end.exit_code.unwrap_or(0) == 0 {
            facts.push(Final::new(answer.to_owned()));
        }
        Verdict { exit_code_decides: true, ..Verdict::of(Outcome::Completed) }
    }
}
