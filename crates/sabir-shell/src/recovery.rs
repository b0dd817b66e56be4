//! The end of a run whose shell was gone before it.

use sabir_core::event::{ErrorEvent, Event, EventKind, Exited, Final, Outcome, RunId};

use crate::now;
use crate::outbox::LastRun;
use crate::session_log::SessionLog;

/// Writes what is missing of a run: how it ended, as far as anybody knows, or only what follows from that.
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
        // Whether the agent went on is not known; that it was done was not heard.
        log.append_verbatim(&event(run.events + 2, Exited::new(Outcome::Incomplete).into()));
    }
    log.end_run();
}

/// How a run ended that has.
pub(crate) fn run_outcome(run: &LastRun) -> Option<(Outcome, Option<sabir_core::event::Cause>)> {
    let event: Event<'_> = serde_json::from_str(run.exited.as_deref()?).ok()?;
    match event.kind {
        EventKind::Exited(Exited { outcome, cause, .. }) => Some((outcome, cause)),
        _ => None,
    }
}
