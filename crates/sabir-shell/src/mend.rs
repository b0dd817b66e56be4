//! The end of a run whose shell was gone before it.

use sabir_core::event::{Event, EventKind, Outcome, RunId};

use crate::log::Log;
use crate::now;
use crate::outbox::LastRun;

/// Writes what is missing of a run: how it ended, as far as anybody knows, or only what follows from that.
pub(crate) fn mend(log: &Log, run: &LastRun) {
    let event = |seq, kind| Event {
        run_id: RunId::from(run.run_id.as_str()),
        seq,
        at: Some(now()),
        line: None,
        parent_tool_call_id: None,
        kind,
    };
    log.take_up(&run.agent, run.is_broken_off());
    if let Some(json) = &run.exited {
        if let Some(text) = &run.answer {
            log.event_as_it_is(&event(run.events, EventKind::Final { text: text.into() }));
        }
        if let Ok(exited) = serde_json::from_str::<Event<'_>>(json) {
            log.event_as_it_is(&exited);
        }
    } else {
        let message = "interrupted: the shell was gone before the run was over".into();
        log.event_as_it_is(&event(run.events + 1, EventKind::Error { message, class: None, fatal: true }));
        // Whether the agent went on is not known; that it was done was not heard.
        log.event_as_it_is(&event(run.events + 2, EventKind::exited(Outcome::Incomplete, None)));
    }
    log.end();
}

/// How a run ended that has.
pub(crate) fn outcome(run: &LastRun) -> Option<(Outcome, Option<sabir_core::event::Cause>)> {
    let event: Event<'_> = serde_json::from_str(run.exited.as_deref()?).ok()?;
    match event.kind {
        EventKind::Exited { outcome, cause, .. } => Some((outcome, cause)),
        _ => None,
    }
}
