//! Why a run did not complete: its outcome, how the process ended, and the agent's own error.

use std::collections::VecDeque;

use sabir_core::event::{Activity, Cause, ErrorEvent, Event, EventKind, Exited, Outcome};
use sabir_core::readable;

/// How many lines of an error are shown, and how many of standard error where the agent reported no error.
const LINES: usize = 6;
const STDERR: usize = 3;
/// How much of a line is shown.
const LONGEST: usize = 400;

/// Collects from the events of a run why it ended.
#[derive(Debug, Default)]
pub(crate) struct Reason {
    /// The last error, and whether it was fatal: a fatal one is not replaced by one that was not.
    error: Option<(String, bool)>,
    /// The last lines of standard error.
    stderr: VecDeque<String>,
    exit_code: Option<i32>,
    signal: Option<String>,
}

impl Reason {
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Error(ErrorEvent { message, fatal, .. })
                if *fatal || !self.error.as_ref().is_some_and(|(_, fatal)| *fatal) =>
            {
                self.error = Some((shortened(message), *fatal));
            }
            // An activity without a line is one of standard error.
            EventKind::Activity(Activity { message, .. }) if event.line.is_none() && !message.trim().is_empty() => {
                if self.stderr.len() == STDERR {
                    self.stderr.pop_front();
                }
                self.stderr.push_back(shortened(message));
            }
            EventKind::Exited(Exited { exit_code, signal, .. }) => {
                (self.exit_code, self.signal) = (*exit_code, signal.as_deref().map(str::to_owned));
            }
            _ => {}
        }
    }

    /// `failed (auth, exit 1)`.
    pub(crate) fn outcome(&self, outcome: Outcome, cause: Option<Cause>) -> String {
        let exit_code = self.exit_code.filter(|code| *code != 0).map(|code| format!("exit {code}"));
        let known = cause.filter(|cause| !matches!(cause, Cause::Unknown | Cause::Signal)).map(|cause| cause.to_string());
        let ended = self.signal.clone().or(exit_code);
        let mut details: Vec<String> = known.into_iter().chain(ended).collect();
        if details.is_empty() {
            details.extend(cause.map(|cause| cause.to_string()));
        }
        if details.is_empty() { outcome.to_string() } else { format!("{outcome} ({})", details.join(", ")) }
    }

    /// The first lines of the agent's error. Where it reported none and its process failed, the last lines of standard error.
    pub(crate) fn error(&self, outcome: Outcome) -> Vec<&str> {
        match (&self.error, outcome) {
            (_, Outcome::Completed | Outcome::Cancelled) => Vec::new(),
            (Some((error, _)), _) => error.lines().collect(),
            (None, Outcome::Failed | Outcome::Crashed | Outcome::StartFailed) => {
                self.stderr.iter().flat_map(|line| line.lines()).collect()
            }
            (None, _) => Vec::new(),
        }
    }
}

/// The first lines of a text, none of them too long or able to steer a terminal.
fn shortened(text: &str) -> String {
    let text = readable::text(text.trim());
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).take(LINES + 1).map(shortened_line).collect();
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("…".to_owned());
    }
    lines.join("\n")
}

fn shortened_line(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use sabir_core::event::{Activity, Cause, ErrorEvent, Event, EventKind, Outcome, RunId};

    use super::Reason;

    fn reason(kinds: Vec<EventKind<'static>>) -> Reason {
        let mut reason = Reason::default();
        for kind in kinds {
            let run_id = RunId::from("r");
            reason.event(&Event { run_id, seq: 1, at: None, line: None, parent_tool_call_id: None, kind });
        }
        reason
    }

    fn error(message: &'static str, fatal: bool) -> EventKind<'static> {
        ErrorEvent::new(message).fatal(fatal).into()
    }

    #[test]
    fn error_is_the_agents_own() {
        let stderr = |text: &'static str| EventKind::Activity(Activity::new(text));
        assert_eq!(reason(vec![stderr("a"), error("first", true), error("second", false)]).error(Outcome::Failed), ["first"]);
        assert_eq!(reason(vec![error("first", false), error("two\n\n lines", false)]).error(Outcome::Failed), ["two", " lines"]);
        let lines = ["one", " ", "two", "three", "\u{1b}[31mfour"].map(stderr);
        assert_eq!(reason(lines.into()).error(Outcome::Failed), ["two", "three", "four"]);
        assert_eq!(
            reason(vec![error("1\n2\n3\n4\n5\n6\n7\n8", true)]).error(Outcome::Failed),
            ["1", "2", "3", "4", "5", "6", "…"]
        );
        assert!(Reason::default().error(Outcome::Failed).is_empty());
        // What a command wrote to standard error says nothing about a limit that ended it.
        let lines = || reason(vec![stderr("warning")]);
        assert!(lines().error(Outcome::TimedOut).is_empty() && lines().error(Outcome::Completed).is_empty());
        assert_eq!(reason(vec![error("limit", true)]).error(Outcome::TimedOut), ["limit"]);
    }

    #[test]
    fn outcome_says_how_the_process_ended() {
        let mut reason = Reason { exit_code: Some(3), ..Reason::default() };
        assert_eq!(reason.outcome(Outcome::Failed, Some(Cause::Unknown)), "failed (exit 3)");
        assert_eq!(reason.outcome(Outcome::Failed, Some(Cause::Auth)), "failed (auth, exit 3)");
        reason.exit_code = Some(0);
        assert_eq!(reason.outcome(Outcome::Failed, Some(Cause::Unknown)), "failed (unknown)");
        assert_eq!(reason.outcome(Outcome::Completed, None), "completed");
        reason.signal = Some("SIGKILL".to_owned());
        assert_eq!(reason.outcome(Outcome::Crashed, Some(Cause::Signal)), "crashed (SIGKILL)");
    }
}
