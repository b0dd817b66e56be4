//! Numbered messages of the core protocol: `codex exec --json` up to 0.42.
//!
//! ```text
//! {"workdir":…,"model":…,"provider":…,"sandbox":…}      what it runs with, without a type
//! {"prompt":…}
//! {"id":"0","msg":{"type":…}}                           everything else
//! ```
//!
//! Nothing says that the task is done: the stream just ends, with exit code 0 even after an error. What comes nearest to
//! a sign is the token count of a response that ended with a message and called no tool.

mod message;
mod tool;

use std::collections::BTreeMap;

use message::Msg;
use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{FileChange, Outcome, Session};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use serde::Deserialize;

use super::answer::Answer;
use super::counter::Counter;
use super::report;
use super::trouble::Trouble;

/// Reads numbered messages.
#[derive(Debug, Default)]
pub(super) struct Legacy {
    answer: Answer,
    /// The message that is being said, as far as it was said in pieces.
    said: Held,
    thought: Held,
    /// Messages have no ids of their own.
    messages: u64,
    counter: Counter,
    trouble: Trouble,
    ending: Ending,
    /// What the patches that are open will have changed.
    patches: BTreeMap<String, Vec<FileChange<'static>>>,
    /// Bytes of a character whose rest comes with the next piece of output, by call and stream.
    cut: BTreeMap<(String, String), Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Ending {
    #[default]
    None,
    /// The last response called no tool.
    Answered,
    /// The agent said that the task is done.
    Completed,
    Aborted,
}

#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    msg: Option<Msg<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    prompt: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    workdir: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    model: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    sandbox: Option<Str<'a>>,
}

/// How sure a line makes us that the stream is of this dialect.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Probe<'a> {
        #[serde(borrow)]
        msg: Option<Typed<'a>>,
        #[serde(borrow)]
        workdir: Option<Str<'a>>,
        #[serde(borrow)]
        sandbox: Option<Str<'a>>,
        #[serde(borrow)]
        prompt: Option<Str<'a>>,
        #[serde(borrow)]
        r#type: Option<Str<'a>>,
    }
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow)]
        r#type: Option<Str<'a>>,
    }
    let Some(probe) = json::parse::<Probe<'_>>(line) else { return Confidence::None };
    let message = probe.msg.is_some_and(|msg| msg.r#type.is_some());
    if probe.r#type.is_some() {
        return Confidence::None;
    }
    if message || probe.workdir.is_some() && probe.sandbox.is_some() {
        return Confidence::Certain;
    }
    if probe.prompt.is_some() { Confidence::Possible } else { Confidence::None }
}

impl JsonDialect for Legacy {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match wire.msg {
            Some(msg) => self.msg(msg, line, facts),
            None if wire.workdir.is_some() || wire.model.is_some() => {
                facts.push(Session::default().model(wire.model).cwd(wire.workdir).permission_mode(wire.sandbox));
            }
            None if wire.prompt.is_some() => {}
            None => json::unrecognized(line, facts),
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = match (self.ending, self.trouble.verdict()) {
            (_, Some(failed)) => failed,
            (Ending::Completed, None) => Verdict::of(Outcome::Completed),
            (Ending::Answered, None) if self.answer.stands() => Verdict::of(Outcome::Completed),
            (Ending::Aborted, None) => Verdict::of(Outcome::Cancelled),
            // A message without its token count: only the exit code can tell whether more was to come.
            _ if self.answer.stands() => Verdict { exit_code_decides: true, ..Verdict::of(Outcome::Completed) },
            _ => Verdict::of(Outcome::Incomplete),
        };
        report::answer(&self.answer, &verdict, end, facts);
        verdict
    }
}
