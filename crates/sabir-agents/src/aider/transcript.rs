//! The transcript.
//!
//! ```text
//! Aider v0.86.2                                  the head ends with a blank line
//! Main model: openai/gpt-4o with diff edit format
//!
//! The answer, with the edits in it.
//!
//! Tokens: 1.0k sent, 50 received. Cost: $0.0030 message, $0.0030 session.
//! Applied edit to calc.py
//! Commit 6b3ac7f fix: add
//! ```
//!
//! An answer is whole when its `Tokens:` line has come. Whatever is printed behind that line and is not one of the lines that
//! are known waits until one comes: before another `Tokens:` line it was an answer, before an edit it was talk. The exit
//! code is 0 also when the model was never reached.

use sabir_core::dialect::{Dialect, End, Facts, Held, Verdict};
use sabir_core::event::{
    Activity, Cause, Change, ErrorEvent, FileChange, Final, Outcome, Retry, Session, TextDelta, ThinkingDelta, TurnEnd,
    TurnStart, Usage, UsageScope,
};
use sabir_core::line::Line;

use super::edits::Edits;
use super::lines::{self, Bill, Mark};

/// Reads transcripts.
#[derive(Default)]
pub(super) struct Transcript {
    section: Section,
    version: Option<String>,
    model: Option<String>,
    /// A turn has begun.
    speaking: bool,
    /// A rule of dashes came, which says nothing unless a mark follows.
    rule: Option<String>,
    /// The answer that is being told, or the lines that wait for what they are.
    text: Held,
    /// The last answer that is whole.
    answer: Held,
    edits: Edits,
    /// Files that Aider asked about, one on a line.
    asked: Held,
    error: Option<Trouble>,
    retries: u32,
    interrupted: bool,
    bill: Option<Bill>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Section {
    #[default]
    Before,
    Head,
    /// The model speaks.
    Answer,
    Thinking,
    /// The answer was counted.
    After,
}

/// An error that may yet be tried again.
struct Trouble {
    text: Held,
    /// Its lines go on.
    open: bool,
}

impl Dialect for Transcript {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        match self.section {
            Section::Before => {
                if let Some(version) = lines::version(&line.text) {
                    self.version = Some(version.to_owned());
                    self.section = Section::Head;
                } else {
                    facts.push(Activity::new(line.text.clone()));
                }
            }
            Section::Head if line.text.trim().is_empty() => {
                self.section = Section::Answer;
                facts.push(Session::default().model(self.model.clone()).agent_version(self.version.clone()));
            }
            Section::Head => match lines::model(&line.text) {
                Some(model) => self.model = Some(model.to_owned()),
                None => facts.push(Activity::new(line.text.clone())),
            },
            _ => self.body(&line.text, line.terminated, facts),
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        self.tell_rule(facts);
        if self.section == Section::After {
            self.tell_waiting(facts);
        }
        self.tell_bill(facts);
        if let Some(trouble) = self.error.take() {
            let message = trouble.text.as_str().to_owned();
            let cause = Cause::of_error(None, &message);
            facts.push(ErrorEvent::new(message).class(cause).fatal(true));
            return Verdict::failed(Some(cause));
        }
        if self.interrupted {
            return Verdict::of(Outcome::Cancelled);
        }
        if self.section != Section::After {
            return Verdict::of(Outcome::Incomplete);
        }
        let stopped = end.cancelled || end.timeout.is_some() || end.signal.is_some();
        if !stopped && end.exit_code.unwrap_or(0) == 0 && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.as_str().trim().to_owned()));
        }
        Verdict { exit_code_decides: true, ..Verdict::of(Outcome::Completed) }
    }
}

impl Transcript {
    fn body(&mut self, line: &str, terminated: bool, facts: &mut Facts<'_>) {
        let after = self.section == Section::After;
        match lines::mark(line) {
            Some(Mark::Tokens(bill)) => return self.counted(bill, facts),
            Some(Mark::Thinking) if self.rule.take().is_some() => {
                self.tell_talk(facts);
                self.section = Section::Thinking;
                return self.speak(facts);
            }
            Some(Mark::Answer) if self.rule.take().is_some() => {
                self.section = Section::Answer;
                return self.text.clear();
            }
            Some(Mark::Retrying(seconds)) if self.error.is_some() => return self.retry(seconds, facts),
            Some(Mark::Interrupted) => {
                self.interrupted = true;
                return facts.push(Activity::new(line.to_owned()));
            }
            Some(Mark::Applied(path)) if after => {
                self.tell_talk(facts);
                return self.applied(path, facts);
            }
            Some(Mark::Commit) if after => {
                self.tell_talk(facts);
                return facts.push(Activity::new(line.to_owned()));
            }
            _ => {}
        }
        self.tell_rule(facts);
        if lines::is_rule(line) {
            self.rule = Some(line.to_owned());
        } else if !self.trouble(line, facts) {
            self.words(line, terminated, facts);
        }
    }

    /// Takes a line of an error; false when it is none.
    fn trouble(&mut self, line: &str, facts: &mut Facts<'_>) -> bool {
        if lines::is_error(line) {
            self.tell_talk(facts);
            let mut text = Held::default();
            text.push(line.trim());
            self.error = Some(Trouble { text, open: true });
            return true;
        }
        let Some(trouble) = self.error.as_mut().filter(|trouble| trouble.open) else { return false };
        trouble.open = !line.trim().is_empty();
        if trouble.open {
            trouble.text.push(" ");
            trouble.text.push(line.trim());
        }
        true
    }

    fn retry(&mut self, seconds: f64, facts: &mut Facts<'_>) {
        self.retries = self.retries.saturating_add(1);
        let message = self.error.take().map(|trouble| trouble.text.as_str().to_owned()).unwrap_or_default();
        let wait = std::time::Duration::try_from_secs_f64(seconds).ok();
        facts.push(Retry::new(self.retries, message).delay_ms(wait.and_then(|wait| wait.as_millis().try_into().ok())));
        // What came of the answer before is told again.
        self.text.clear();
        self.edits.clear();
    }

    /// Words: of the model, or waiting for what they are.
    fn words(&mut self, line: &str, terminated: bool, facts: &mut Facts<'_>) {
        let delta = if terminated { format!("{line}\n") } else { line.to_owned() };
        match self.section {
            Section::Thinking => facts.push(ThinkingDelta::new(delta)),
            Section::After => self.text.push(&delta),
            _ => {
                if self.text.as_str().is_empty() && line.trim().is_empty() {
                    return;
                }
                if !line.trim().is_empty() {
                    self.speak(facts);
                }
                self.text.push(&delta);
                self.edits.line(line);
                facts.push(TextDelta::new(delta));
            }
        }
    }

    /// The model speaks.
    fn speak(&mut self, facts: &mut Facts<'_>) {
        self.interrupted = false;
        if !std::mem::replace(&mut self.speaking, true) {
            facts.push(TurnStart::default());
        }
    }

    /// The answer is whole.
    fn counted(&mut self, bill: Bill, facts: &mut Facts<'_>) {
        self.rule = None;
        // Had the request failed, nothing would be counted: the words of an error were the model's.
        if let Some(trouble) = self.error.take() {
            self.text.push(trouble.text.as_str());
        }
        if self.section == Section::After {
            self.edits.clear();
            let text = self.text.as_str().trim_start().to_owned();
            text.lines().for_each(|line| self.edits.line(line));
            self.speak(facts);
            facts.push(TextDelta::new(text));
        }
        self.speaking = false;
        facts.push(TurnEnd::default());
        self.section = Section::After;
        self.retries = 0;
        self.answer = std::mem::take(&mut self.text);
        self.asked.clear();
        let add = |a: lines::Figure, b: lines::Figure| a.zip(b).map(|(a, b)| a.saturating_add(b));
        self.bill = Some(match self.bill.take() {
            None => bill,
            Some(sum) => Bill {
                sent: add(sum.sent, bill.sent),
                received: add(sum.received, bill.received),
                session_cost: bill.session_cost,
            },
        });
    }

    fn applied(&mut self, path: &str, facts: &mut Facts<'_>) {
        let made = self.edits.is_fresh(path) && self.asked.as_str().lines().any(|asked| asked == path);
        facts.push(FileChange::new(path.to_owned(), if made { Change::Create } else { Change::Update }));
    }

    /// The lines that wait were talk.
    fn tell_talk(&mut self, facts: &mut Facts<'_>) {
        if self.section != Section::After {
            return;
        }
        for line in self.text.take().lines().filter(|line| !line.trim().is_empty()) {
            if self.edits.is_fresh(line) {
                self.asked.push(line);
                self.asked.push("\n");
            }
            facts.push(Activity::new(line.to_owned()));
        }
    }

    /// Nobody will say what the lines that wait were.
    fn tell_waiting(&mut self, facts: &mut Facts<'_>) {
        let text = self.text.take();
        if !text.trim().is_empty() {
            facts.push(TextDelta::new(text));
        }
    }

    /// A rule that no mark followed was a line like any other.
    fn tell_rule(&mut self, facts: &mut Facts<'_>) {
        if let Some(rule) = self.rule.take() {
            self.words(&rule, true, facts);
        }
    }

    /// What all answers cost. Rounded figures are not told as if they were exact, nor one figure as if it were all.
    fn tell_bill(&mut self, facts: &mut Facts<'_>) {
        let Some(Bill { sent, received, session_cost }) = self.bill.take() else { return };
        let exact = sent.zip(received);
        if exact.is_none() && session_cost.is_none() {
            return;
        }
        facts.push(
            // How much of the input was cached is known for some providers only.
            Usage::new(UsageScope::Turn)
                .output_tokens(exact.map(|(_, received)| received))
                .total_tokens(exact.map(|(sent, received)| sent.saturating_add(received)))
                .cost_usd(session_cost),
        );
    }
}
