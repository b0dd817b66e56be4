//! Runs read whole: the events that were made then, and the same lines decoded anew.

use std::fs;

use sabir_agents::builtin;
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Exited, Final, Outcome, RunId, ToolEnd, ToolStatus};
use sabir_core::line::{self, Source};
use sabir_core::price::Table;
use sabir_core::time::Timestamp;
use sabir_store::account::Session;
use sabir_store::history::Places;
use sabir_store::past::{self, Past};
use sabir_store::query::{self, Subject};
use sabir_store::{Damage, Home, Journal, Meta, Why, prune, whole};

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
    let start = Start::of(builtin().find(agent).expect("a known agent").clone());
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
    past::load(&Places { registry: builtin(), ..Places::default() }, Some(home), None, |_| true, &mut |_, _| {})
}

/// The events that were made then, which must be those that are made now.
fn both(home: &Home) -> Vec<EventKind<'static>> {
    let (mut then, mut now) = (Vec::new(), Vec::new());
    let past = listed(home);
    let kind = |event: &Event<'_>| event.kind.clone().into_owned();
    let damage = past.decode(&past.sessions[0], &mut |event| then.push(kind(event))).expect("readable");
    whole::decoded_anew(&home.run(RUN).expect("an id"), &builtin(), &mut |event| now.push(kind(event))).expect("readable");
    assert_eq!((&now, damage), (&then, Damage::default()));
    then
}

fn ends(events: &[EventKind<'_>]) -> Vec<Outcome> {
    let ends = events.iter().filter_map(|kind| match kind {
        EventKind::Exited(Exited { outcome, .. }) => Some(*outcome),
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
        assert!(matches!(events.last(), Some(EventKind::Exited(_))));
        assert_eq!(listed(&home).sessions[0].outcome, Outcome::Incomplete, "{agent}");
        let unfinished =
            |kind: &&EventKind<'_>| matches!(kind, EventKind::ToolEnd(ToolEnd { status: ToolStatus::Unfinished, .. }));
        assert_eq!(events.iter().filter(unfinished).count(), usize::from(printed.len() == two_lines.len()), "{agent}");
    }
}

/// Writes a run of the id, `dup` say, whose one answer is the given text.
fn reuse_id(home: &Home, text: &str, end: Option<&End>) {
    let printed = LINES.replace("\"result\":\"Done.\"", &format!("\"result\":\"{text}\""));
    watched(home, "claude-code", &printed, end);
}

/// The text that a run ended with.
fn answer(past: &Past, session: &Session) -> String {
    let mut answer = String::new();
    let damage = past.decode(session, &mut |event| {
        if let EventKind::Final(Final { text, .. }) = &event.kind {
            answer.push_str(text);
        }
    });
    assert_eq!(damage.expect("readable"), Damage::default());
    answer
}

#[test]
fn reused_run_id_keeps_runs_apart() {
    let (_folder, home) = home();
    let end = End { exit_code: Some(0), ..End::default() };
    reuse_id(&home, "first", Some(&end));
    reuse_id(&home, "second", None);
    reuse_id(&home, "third", Some(&end));
    let index = home.index();
    let load =
        |index| past::load(&Places { registry: builtin(), ..Places::default() }, Some(&home), index, |_| true, &mut |_, _| {});
    // Without an index, with a new one, and with one that knows the runs.
    for index in [None, Some(&*index), Some(&*index)] {
        let past = load(index);
        let rows: Vec<_> = past.sessions.iter().map(|one| (one.id.as_str(), one.outcome, answer(&past, one))).collect();
        let (first, second) = (format!("{RUN}.1"), format!("{RUN}.2"));
        assert_eq!(
            rows,
            [
                (&*first, Outcome::Completed, "first".to_owned()),
                (&*second, Outcome::Incomplete, String::new()),
                (RUN, Outcome::Completed, "third".to_owned())
            ]
        );
        for session in &past.sessions {
            let mut raw = Vec::new();
            whole::raw(session, &past.logs, &mut |bytes| {
                raw.extend_from_slice(bytes);
                true
            })
            .expect("readable");
            let raw = String::from_utf8(raw).expect("text");
            assert_eq!(raw.lines().count(), LINES.lines().count(), "one run's lines");
            let folder = whole::run_of(session, &past.logs).expect("a run");
            assert_eq!(whole::decoded_anew(folder, &builtin(), &mut |_| {}).expect("readable"), Damage::default());
        }
    }
}

#[test]
fn reused_run_id_is_pruned_run_by_run() {
    let (_folder, home) = home();
    let end = End { exit_code: Some(0), ..End::default() };
    reuse_id(&home, "first", Some(&end));
    reuse_id(&home, "second", Some(&end));
    let ids = || listed(&home).sessions.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let stored = prune::stored(&home).expect("readable");
    assert_eq!(stored.len(), 2);
    let earlier = stored.iter().find(|run| run.folder.id() != RUN).expect("the earlier run");
    assert!(prune::remove(&earlier.folder).expect("removed"));
    // The run that is left is whole: what was removed was another one.
    let past = listed(&home);
    assert_eq!((ids(), answer(&past, &past.sessions[0])), (vec![RUN.to_owned()], "second".to_owned()));
    for run in prune::stored(&home).expect("readable") {
        assert!(prune::remove(&run.folder).expect("removed"));
    }
    assert!(ids().is_empty() && home.runs().expect("readable").is_empty());
}

#[test]
fn reused_run_id_is_not_created_again() {
    let (_folder, home) = home();
    Journal::check_new(&home, RUN).expect("a new id");
    let journal = Journal::create(&home, RUN).expect("a new id");
    assert_eq!(Journal::check_new(&home, RUN).expect_err("it is written").why, Why::Live);
    assert_eq!(Journal::create(&home, RUN).expect_err("it is written").why, Why::Live);
    journal.meta(&Meta { run_id: RUN.to_owned(), agent: "codex".to_owned(), ..Meta::default() });
    journal.finish().expect("finished");
    let segments = || home.run(RUN).expect("an id").segments().expect("readable");
    let before = segments();
    assert_eq!(Journal::check_new(&home, RUN).expect_err("it is there").why, Why::Used);
    assert_eq!(Journal::create(&home, RUN).expect_err("it is there").why, Why::Used);
    assert_eq!(segments(), before, "nothing was written");
    // A folder that a crash left before anything was written to it is no run.
    fs::create_dir_all(home.run("blank").expect("an id").path()).expect("made");
    Journal::create(&home, "blank").expect("nothing has that id").finish().expect("finished");
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
    assert_eq!(whole::decoded_anew(&folder, &builtin(), &mut |_| {}).expect("readable"), damage);
    assert_eq!(whole::raw(&past.sessions[0], &past.logs, &mut |_| true).expect("readable"), damage);
}

#[test]
fn lists_and_questions_report_a_damaged_journal() {
    let (_folder, home) = home();
    let end = End { exit_code: Some(0), ..End::default() };
    watched(&home, "claude-code", LINES, Some(&end));
    assert!(listed(&home).damaged.is_empty());
    let index = home.index();
    let indexed =
        || past::load(&Places { registry: builtin(), ..Places::default() }, Some(&home), Some(&index), |_| true, &mut |_, _| {});
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
