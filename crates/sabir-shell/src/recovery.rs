//! Crash recovery: completes the log of a run whose runner was killed.

use sabir_core::event::{ErrorEvent, Event, EventKind, Exited, Final, Outcome, RunId};

use crate::now;
use crate::outbox::LastRun;
use crate::session_log::SessionLog;

/// Writes the missing end of a run: its recorded outcome, or an error and `incomplete` if none was recorded.
pub(crate) fn finish_interrupted_run(log: &SessionLog, run: &LastRun) {
    let event = |seq, kind| Event {
        run_id: RunId::from(run.run_id.as_str()),
        seq,
        at: Some(now()),
        line: None,
        parent_tool_call_id: None,
        kind,
    };
    log.resume_run(&run.agent, run.is_interrupted());
    if let Some(json) = &run.exited {
        if let Some(text) = &run.answer {
            log.append_verbatim(&event(run.events, Final::new(text).into()));
        }
        if let Ok(exited) = serde_json::from_str::<Event<'_>>(json) {
            log.append_verbatim(&exited);
        }
    } else {
        let error = ErrorEvent::new("interrupted: the shell was gone before the run was over").fatal(true);
        log.append_verbatim(&event(run.events + 1, error.into()));
        // The agent may have continued; its outcome is unknown.
        log.append_verbatim(&event(run.events + 2, Exited::new(Outcome::Incomplete).into()));
    }
    log.end_run();
}

/// Recorded outcome of a run.
pub(crate) fn run_outcome(run: &LastRun) -> Option<(Outcome, Option<sabir_core::event::Cause>)> {
    let event: Event<'_> = serde_json::from_str(run.exited.as_deref()?).ok()?;
    match event.kind {
        EventKind::Exited(Exited { outcome, cause, .. }) => Some((outcome, cause)),
        _ => None,
    }
}
