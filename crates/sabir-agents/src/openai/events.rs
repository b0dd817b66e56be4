//! Events that were told in our own vocabulary, with or without their head.
//!
//! They are facts already. The decoder gives them a head of this run, keeps the laws that another program may break, and
//! judges anew how the run ended: a recording of a failure reads as one.

use std::borrow::Cow;

use sabir_core::dialect::{End, Facts, RecordingHeader, Verdict};
use sabir_core::event::{Cause, ErrorEvent, EventKind, Exited, Outcome, Started, Told};
use sabir_core::json::{self, JsonDialect};
use sabir_core::line::Line;

use super::kind_of;

/// Reads the vocabulary.
#[derive(Default)]
pub(super) struct Events {
    /// What the last `exited` said.
    verdict: Option<Verdict>,
    /// An error ended the run …
    fatal: bool,
    /// … of this class.
    cause: Option<Cause>,
}

impl JsonDialect for Events {
    type Wire<'a> = Told<'a>;

    fn message<'a>(&mut self, told: Told<'a>, _: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = told.at;
        facts.parent = told.parent_tool_call_id;
        match told.kind {
            EventKind::Started(_) => {}
            EventKind::Exited(Exited {
                exit_code,
                signal,
                cancelled,
                outcome,
                cause,
                timeout,
                quiescent,
                stop_reason,
                turns,
                duration_ms,
                api_duration_ms,
                ..
            }) => {
                let signal = signal.map(Cow::into_owned);
                let end = End { exit_code, signal, cancelled, timeout, quiescent, at: told.at, start_failed: None };
                self.verdict = Some(Verdict {
                    cause,
                    stop_reason: stop_reason.map(Cow::into_owned),
                    turns,
                    duration_ms,
                    api_duration_ms,
                    recorded: Some(end),
                    ..Verdict::of(outcome)
                });
            }
            kind => {
                if let EventKind::Error(ErrorEvent { class, fatal: true, .. }) = &kind {
                    self.fatal = true;
                    self.cause = *class;
                }
                facts.push(kind);
            }
        }
    }

    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        match kind_of(&line.text) {
            Some(kind) => {
                let kind = Cow::Owned(kind.0.into_owned());
                facts.unrecognized(Some(kind), line);
            }
            None => json::unrecognized(line, facts),
        }
    }

    fn recording_header(&self, line: &str) -> Option<RecordingHeader> {
        let Told { at, kind: EventKind::Started(Started { agent, agent_version, detection, accounting, .. }), .. } =
            json::parse(line)?
        else {
            return None;
        };
        let (agent, agent_version) = (agent.into_owned(), agent_version.map(Cow::into_owned));
        Some(RecordingHeader { agent, agent_version, detection, accounting, at })
    }

    fn over(&self) -> Option<bool> {
        Some(self.verdict.is_some())
    }

    fn end(&mut self, _: &End, _: &mut Facts<'static>) -> Verdict {
        match self.verdict.take() {
            // Who said that the run was ended by an error can't call it a success.
            Some(verdict) if self.fatal && verdict.outcome == Outcome::Completed => {
                Verdict { outcome: Outcome::Failed, cause: verdict.cause.or(self.cause), ..verdict }
            }
            Some(verdict) => verdict,
            None if self.fatal => Verdict::failed(self.cause),
            None => Verdict::of(Outcome::Incomplete),
        }
    }
}
