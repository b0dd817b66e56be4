//! Outbox: content and state after reopening and after kills.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use sabir_core::event::{Event, EventKind, Exited, Outcome, RunId, Session, Started};
use sabir_core::export::{Exporter as _, Options};
use sabir_protocol::SessionId;
use sabir_protocol::envelope::{Envelope, notes};
use sabir_shell::outbox::{Outbox, PageReader, Position};
use sabir_store::Home;

const WRITER: &str = "SABIR_TEST_OUTBOX";

fn session() -> SessionId {
    "s/1".parse().expect("a session")
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::at(folder.path().join("home"));
    (folder, home)
}

fn open(home: &Home) -> Arc<Outbox> {
    let known = Outbox::open(home, &session()).expect("readable");
    Arc::new(known.unwrap_or_else(|| Outbox::create(home, &session(), Outbox::new_writer(), Position::FIRST).expect("created")))
}

/// A message with this sequence number.
fn line(seq: u64) -> Vec<u8> {
    let text = "x".repeat(usize::try_from(seq * 7 % 900).expect("small"));
    format!(
        "{{\"id\":\"i\",\"sessionId\":\"s/1\",\"ts\":\"2026-01-02T03:04:05Z\",\"type\":\"log\",\"seq\":{seq},\"payload\":{{\"text\":\"{text}\"}}}}\n"
    )
    .into_bytes()
}

/// Sequence numbers of all messages from `first` on.
fn numbers(outbox: &Arc<Outbox>, first: u64) -> Vec<u64> {
    let mut pages = PageReader::new(Arc::clone(outbox));
    let mut all = Vec::new();
    let mut next = first;
    while let Some(page) = pages.read_page(next, 100, 10_000).expect("readable") {
        assert_eq!(page.first, next);
        for line in page.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message: serde_json::Value = serde_json::from_slice(line).expect("JSON");
            all.push(message["seq"].as_u64().expect("a number"));
        }
        next = page.last() + 1;
    }
    all
}

#[test]
fn sequence_continues_across_epochs() {
    let (_folder, home) = home();
    let first = open(&home);
    let writer = first.writer().to_owned();
    (1..=3_000).for_each(|seq| first.append(&line(seq)));
    first.sync().expect("synced");
    assert_eq!((first.epoch(), first.last()), (1, 3_000));
    drop(first);
    let second = open(&home);
    assert_eq!((second.epoch(), second.last(), second.writer()), (2, 3_000, writer.as_str()));
    (3_001..=5_000).for_each(|seq| second.append(&line(seq)));
    second.sync().expect("synced");
    for from in [1, 2, 1_023, 1_024, 1_025, 2_999, 3_000, 3_001, 4_097, 5_000] {
        assert_eq!(numbers(&second, from), (from..=5_000).collect::<Vec<_>>(), "from {from}");
    }
    assert!(numbers(&second, 5_001).is_empty());
    assert!(Outbox::open(&home, &session()).is_err_and(|error| error.to_string().contains("another shell")));
}

#[test]
fn create_starts_at_position() {
    let (_folder, home) = home();
    let position = Position { epoch: 5, after: 40 };
    let outbox = Outbox::create(&home, &session(), "w".to_owned(), position).expect("created");
    assert_eq!((outbox.epoch(), outbox.last()), (5, 40));
    outbox.append(&line(41));
    outbox.sync().expect("synced");
    drop(outbox);
    let outbox = open(&home);
    assert_eq!((outbox.epoch(), outbox.last(), outbox.after()), (6, 41, 40));
    assert_eq!(numbers(&outbox, 41), [41]);
    let mut pages = PageReader::new(Arc::clone(&outbox));
    assert!(pages.read_page(40, 1, 1).is_err(), "what is not in the log can't be sent");
}

#[test]
fn open_ignores_outbox_without_records() {
    let (_folder, home) = home();
    let folder = home.outbox("s/1").expect("a folder");
    std::fs::create_dir_all(folder.path()).expect("made");
    std::fs::write(folder.segment(1), b"SABIRJN").expect("written");
    assert!(Outbox::open(&home, &session()).expect("readable").is_none());
    let position = Position { epoch: 9, after: 3 };
    let outbox = Outbox::create(&home, &session(), "w".to_owned(), position).expect("created");
    assert_eq!((outbox.epoch(), outbox.last()), (9, 3));
}

fn event(seq: u64, kind: EventKind<'static>) -> Event<'static> {
    Event { run_id: RunId::from("r1"), seq, at: None, line: None, parent_tool_call_id: None, kind }
}

fn exited() -> EventKind<'static> {
    EventKind::Exited(Exited::new(Outcome::Completed).exit_code(0))
}

#[test]
fn recovers_last_run() {
    let (_folder, home) = home();
    let outbox = open(&home);
    let options =
        Options { session_id: Some("s/1".to_owned()), events: true, prompt: Some("do it".to_owned()), ..Options::default() };
    let mut envelope = Envelope::new(&options);
    let mut lines = Vec::new();
    let session = EventKind::Session(Session::default().session_id("conversation-7"));
    envelope.event(&event(1, EventKind::Started(Started::new("codex"))), &mut lines);
    envelope.event(&event(2, session), &mut lines);
    let order = notes::Order { number: 7, prompt: false, text: "stop", by: None, refused: None };
    envelope.order(sabir_core::time::Timestamp::EPOCH, &order, &mut lines);
    outbox.append(&lines);
    drop(outbox);

    let outbox = open(&home);
    let found = outbox.recovered().clone();
    let run = found.run.expect("a run");
    assert_eq!((found.last, found.last_command), (envelope.seq(), 7));
    assert_eq!((run.agent.as_str(), run.events, run.prompt.as_deref()), ("codex", 2, Some("do it")));
    assert_eq!(run.agent_session.as_deref(), Some("conversation-7"));
    assert!(run.is_interrupted() && !run.is_complete);
    lines.clear();
    envelope.event(&event(3, exited()), &mut lines);
    let first = lines.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    outbox.append(&lines[..first]);
    drop(outbox);

    let outbox = open(&home);
    let run = outbox.recovered().run.clone().expect("a run");
    assert!(run.exited.is_some() && !run.is_complete, "its result is missing: {run:?}");
    outbox.append(&lines[first..]);
    drop(outbox);

    let outbox = open(&home);
    assert!(outbox.recovered().run.as_ref().is_some_and(|run| run.is_complete) && !outbox.recovered().delivered);
    outbox.mark_delivered().expect("noted");
    drop(outbox);
    assert!(open(&home).recovered().delivered);
}

#[test]
fn append_replaces_oversized_message() {
    let (_folder, home) = home();
    let outbox = open(&home);
    let long = "x".repeat(1 << 20);
    let text = format!(
        "{{\"sessionId\":\"s/1\",\"ts\":\"2026-01-02T03:04:05Z\",\"type\":\"log\",\"seq\":1,\"payload\":{{\"text\":\"{long}\"}}}}\n"
    );
    outbox.append(text.as_bytes());
    outbox.sync().expect("synced");
    let page = PageReader::new(Arc::clone(&outbox)).read_page(1, 1, 1).expect("readable").expect("a page");
    let message: serde_json::Value = serde_json::from_slice(&page.lines).expect("JSON");
    assert!(message["seq"] == 1 && message["payload"]["text"].as_str().is_some_and(|text| text.contains("left out")));
}

/// Opens the outbox, prints its epoch and durable position, and appends until killed.
fn append_until_killed(home: &Home) {
    let outbox = open(home);
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\nepoch {}", outbox.epoch()).expect("the parent reads");
    loop {
        for _ in 0..50 {
            outbox.append(&line(outbox.last() + 1));
        }
        outbox.sync().expect("synced");
        writeln!(stdout, "\nsynced {}", outbox.last()).expect("the parent reads");
    }
}

fn start(home: &Home) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "outbox::epochs_and_messages_survive_kills", "--nocapture"])
        .env(WRITER, home.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

#[test]
fn epochs_and_messages_survive_kills() {
    if let Some(home) = std::env::var_os(WRITER) {
        return append_until_killed(&Home::at(home));
    }
    let (_folder, home) = home();
    let (mut epoch, mut synced) = (0, 0);
    for round in 0..25_usize {
        let mut child = start(&home);
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let reports = lines.map_while(Result::ok).filter_map(|line| {
            let (word, number) = line.split_once(' ')?;
            Some((word.to_owned(), number.parse::<u64>().ok()?))
        });
        let mut after = round % 5;
        for (word, number) in reports {
            match word.as_str() {
                "epoch" => {
                    assert!(number > epoch, "no epoch comes twice: {number} after {epoch}");
                    epoch = number;
                }
                "synced" => synced = number,
                _ => continue,
            }
            if after == 0 {
                child.kill().expect("killed");
            }
            after = after.saturating_sub(1);
        }
        child.wait().expect("it is gone");
    }
    let outbox = open(&home);
    assert!(outbox.last() >= synced && synced > 0);
    assert_eq!(numbers(&outbox, 1), (1..=outbox.last()).collect::<Vec<_>>());
}
