//! A log is read in two ways, in short and whole; what was spent and how it ended is the same in both.

use std::path::Path;

use sabir_core::agent;
use sabir_core::decode::Start;
use sabir_core::event::{EventKind, Outcome};
use sabir_core::history::{Ledger, Spent};
use sabir_core::line;

use crate::fixtures;

#[test]
fn a_log_says_the_same_in_short_and_whole() {
    let mut logs = 0;
    for fixture in fixtures::all() {
        let name = fixture.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let history = agent::find(&fixture.agent).expect("a known agent").history;
        let Some(history) = history.filter(|_| name.starts_with("history-")) else { continue };
        logs += 1;

        let mut ledger = Ledger::default();
        for raw in line::split(&fixture.input) {
            (history.note)(&mut ledger, raw.to_line(None, line::Source::Stdout).text.as_bytes());
        }
        let mut short = ledger.spent();
        for (model, claimed) in &ledger.claimed {
            let mut known = Spent::default();
            let of_model = ledger.responses.iter().filter(|response| response.model == *model);
            of_model.for_each(|response| known.add(&response.spent));
            short.add(&claimed.beyond(&known));
        }

        let mut whole = Spent::default();
        let mut calls = 0;
        let mut session = None;
        let mut ended = Outcome::Incomplete;
        for event in fixtures::decode(Start::named(&fixture.agent).expect("a known agent"), &fixture.input, &fixture.end()) {
            if let Some(spent) = Spent::of_event(&event.kind) {
                whole.add(&spent);
            }
            match event.kind {
                EventKind::ToolStart { .. } => calls += 1,
                EventKind::Session { session_id, .. } => session = session.or(session_id),
                EventKind::Exited { outcome, .. } => ended = outcome,
                _ => {}
            }
        }
        assert_eq!(short, whole, "{}", fixture.folder.display());
        // Of a database each session has a ledger of its own; here all of them are in one.
        if !history.roots.iter().any(|root| Path::new(root.below).extension().is_some_and(|end| end == "db")) {
            assert_eq!(ledger.session.as_deref(), session.as_deref(), "{}", fixture.folder.display());
        }
        assert_eq!(ledger.outcome.unwrap_or(Outcome::Incomplete), ended, "{}", fixture.folder.display());
        // Some logs tell calls and no figures: those belong to no response.
        let noted: u32 = ledger.responses.iter().map(|response| response.calls).sum();
        let noted = noted + ledger.calls;
        assert_eq!(noted, calls, "calls of {}", fixture.folder.display());
        assert_eq!(ledger.bad_lines, 0, "{}", fixture.folder.display());
    }
    assert!(logs > 0, "no fixture is a log");
}

#[test]
fn what_is_not_looked_at_is_no_log() {
    let mut histories = 0;
    for (history, only) in agent::ALL.iter().filter_map(|agent| agent.history.as_ref()).filter_map(|h| Some((h, h.only?))) {
        histories += 1;
        // Names that logs have somewhere.
        let names =
            ["events.jsonl", "agent-1.jsonl", "session-2026-11-15T18-02-12345678.json", "a_b.jsonl", "chats", "subagents"];
        for others in names.iter().filter(|name| **name != only.name).flat_map(|name| names.map(|last| [*name, last])) {
            for count in 1..=others.len() {
                let path: Vec<&str> = std::iter::repeat_n("folder", only.depth).chain(others[..count].iter().copied()).collect();
                assert_eq!((history.part)(&path), None, "{path:?}");
            }
        }
    }
    assert!(histories > 0, "no agent has such folders");
}
