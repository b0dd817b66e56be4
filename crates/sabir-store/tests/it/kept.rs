//! Runs read whole: the events that were made then, and the same lines decoded anew.

use std::fs;

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Outcome, RunId, ToolStatus};
use sabir_core::line::{self, Source};
use sabir_core::price::Table;
use sabir_core::time::Timestamp;
use sabir_store::history::Places;
use sabir_store::past::{self, Past};
use sabir_store::query::{self, Subject};
use sabir_store::{Damage, Home, Journal, Meta, whole};

use crate::{RUN, home};

/// What an agent prints that is asked to run something, and is answered.
const LINES: &str = concat!(
    r#"{"type":"system","subtype":"init","session_id":"s1","model":"m","cwd":"/home/user"}"#,
    "\r\n",
    r#"{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}"#,
    "\n",
    r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]}}"#,
    "\n",
    r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s1"}"#,
    "\n",
);

/// Writes a run as it is watched. Without an end, whoever watched it was killed.
fn watched(home: &Home, agent: &str, printed: &str, end: Option<&End>) {
    let (journal, at) = (Journal::open(home, RUN).expect("opened"), Timestamp::parse("2026-11-15T10:00:00.000Z"));
    journal.meta(&Meta { run_id: RUN.to_owned(), agent: agent.to_owned(), started: at, ..Meta::default() });
    let start = Start::named(agent).expect("an agent");
    let mut decoder = Decoder::new(Start { run_id: RunId::from(RUN), at, structured: true, ..start });
    let keep = |events: &[Event<'_>]| {
        events.iter().for_each(|event| journal.event(|out| event.write_json(out)));
    };
    let mut events = Vec::new();
    decoder.begin(&mut events);
    keep(&events);
    for raw in line::split(printed.as_bytes()) {
        journal.raw_line(&raw, Source::Stdout, 1_000);
        let mut events = Vec::new();
        decoder.line(&raw.to_line(at, Source::Stdout), &mut events);
        keep(&events);
    }
    if let Some(end) = end {
        let mut events = Vec::new();
        decoder.end(end, &mut events);
        keep(&events);
    }
    journal.sync().expect("synced");
    let folder = home.run(RUN).expect("an id");
    let segment = folder.segment(*folder.segments().expect("segments").last().expect("one"));
    let so_far = fs::read(&segment).expect("readable");
    journal.finish().expect("finished");
    if end.is_none() {
        fs::write(&segment, so_far).expect("written");
    }
}

fn listed(home: &Home) -> Past {
    past::load(&Places::default(), Some(home), None, |_| true, &mut |_, _| {})
}

/// The events that were made then, which must be those that are made now.
fn both(home: &Home) -> Vec<EventKind<'static>> {
    let (mut then, mut now) = (Vec::new(), Vec::new());
    let past = listed(home);
    let kind = |event: &Event<'_>| event.kind.clone().into_owned();
    let damage = past.decode(&past.sessions[0], &mut |event| then.push(kind(event))).expect("readable");
    whole::decoded_anew(&home.run(RUN).expect("an id"), &mut |event| now.push(kind(event))).expect("readable");
    assert_eq!((&now, damage), (&then, Damage::default()));
    then
}

fn ends(events: &[EventKind<'_>]) -> Vec<Outcome> {
    let ends = events.iter().filter_map(|kind| match kind {
        EventKind::Exited { outcome, .. } => Some(*outcome),
        _ => None,
    });
    ends.collect()
}

#[test]
fn a_run_whose_watcher_was_killed_is_incomplete_wherever_it_is_looked_at() {
    // The call is open after two lines. What a command printed is its answer only once it has ended.
    let two_lines = LINES.split_inclusive('\n').take(2).collect::<String>();
    for (agent, printed) in [("claude-code", &*two_lines), ("claude-code", LINES), ("localexec", "one\ntwo\n")] {
        let (_folder, home) = home();
        watched(&home, agent, printed, None);
        let events = both(&home);
        assert_eq!(ends(&events), [Outcome::Incomplete], "{agent}");
        assert!(matches!(events.last(), Some(EventKind::Exited { .. })));
        assert_eq!(listed(&home).sessions[0].outcome, Outcome::Incomplete, "{agent}");
        let unfinished = |kind: &&EventKind<'_>| matches!(kind, EventKind::ToolEnd { status: ToolStatus::Unfinished, .. });
        assert_eq!(events.iter().filter(unfinished).count(), usize::from(printed.len() == two_lines.len()), "{agent}");
    }
}

#[test]
fn a_run_that_was_run_again_is_one_stream_behind_another() {
    let (_folder, home) = home();
    let end = End { exit_code: Some(0), ..End::default() };
    watched(&home, "claude-code", LINES, None);
    watched(&home, "claude-code", LINES, Some(&end));
    watched(&home, "claude-code", LINES, Some(&end));
    assert_eq!(ends(&both(&home)), [Outcome::Incomplete, Outcome::Completed, Outcome::Completed]);
}

#[test]
fn what_an_agent_printed_comes_back_byte_by_byte() {
    let (_folder, home) = home();
    let printed = format!("{LINES}\r\n\rhalf a line\r");
    watched(&home, "claude-code", &printed, Some(&End::default()));
    let (past, mut bytes) = (listed(&home), Vec::new());
    let mut take = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        true
    };
    whole::raw(&past.sessions[0], &past.logs, &mut take).expect("readable");
    assert_eq!(String::from_utf8_lossy(&bytes), printed);
}

#[test]
fn damage_is_told() {
    let (_folder, home) = home();
    watched(&home, "claude-code", LINES, Some(&End::default()));
    let folder = home.run(RUN).expect("an id");
    let segment = folder.segment(1);
    let mut bytes = fs::read(&segment).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xff);
    fs::write(&segment, bytes).expect("written");
    let past = listed(&home);
    let damage = past.decode(&past.sessions[0], &mut |_| {}).expect("readable");
    assert!(damage.places > 0 && damage.missing > 0, "{damage:?}");
    assert_eq!(whole::decoded_anew(&folder, &mut |_| {}).expect("readable"), damage);
    assert_eq!(whole::raw(&past.sessions[0], &past.logs, &mut |_| true).expect("readable"), damage);
}

#[test]
fn lists_and_questions_report_a_damaged_journal() {
    let (_folder, home) = home();
    let end = End { exit_code: Some(0), ..End::default() };
    watched(&home, "claude-code", LINES, Some(&end));
    assert!(listed(&home).damaged.is_empty());
    let index = home.index();
    let indexed = || past::load(&Places::default(), Some(&home), Some(&index), |_| true, &mut |_, _| {});
    assert!(indexed().damaged.is_empty());
    let segment = home.run(RUN).expect("an id").segment(1);
    let mut bytes = fs::read(&segment).expect("readable");
    let at = memchr::memmem::rfind(&bytes, b"toolStart").expect("an event");
    bytes[at] ^= 1;
    fs::write(&segment, bytes).expect("written");
    let past = listed(&home);
    let (run, damage) = past.damage(&past.sessions[0]).expect("it is damaged");
    assert_eq!((run, damage.places, damage.missing, damage.torn_bytes), (RUN, 1, 1, 0));
    // The same from the index, when it is read and when it is known.
    for _ in 0..2 {
        assert_eq!(indexed().damaged, past.damaged);
    }
    let subject = Subject { sessions: &past.sessions, logs: &past.logs, prices: Table::embedded(), chosen: &|_| true };
    let mut rows = 0;
    let answer = query::query(&subject, "SELECT * FROM events", &mut |_, _| {
        rows += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(answer.expect("an answer").damaged, past.damaged);
    assert!(rows > 3, "{rows}");
}
