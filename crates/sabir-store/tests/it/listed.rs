//! Runs that are damaged are in the list, and what is whole of them is told.

use std::fs;
use std::path::PathBuf;

use sabir_core::event::Outcome;
use sabir_store::account::Session;
use sabir_store::history::Places;
use sabir_store::past::{self, Past};
use sabir_store::{Home, Journal, Kind, Meta};

use crate::{RUN, append, home, write};

/// How many events a run has here.
const EVENTS: u64 = 5;

/// A run that was written to its end: its only segment, and the bytes of that.
fn written(home: &Home) -> (PathBuf, Vec<u8>) {
    let journal = Journal::open(home, RUN).expect("opened");
    let at = sabir_core::time::Timestamp::parse("2026-11-15T10:00:00.000Z");
    journal.meta(&Meta {
        run_id: RUN.to_owned(),
        agent: "localexec".to_owned(),
        cwd: "/home/user/project".to_owned(),
        prompt: "say it".to_owned(),
        started: at,
        ..Meta::default()
    });
    let events = [
        r#""kind":"started","agent":"localexec""#,
        r#""kind":"text","delta":"one ""#,
        r#""kind":"text","delta":"two""#,
        r#""kind":"final","text":"one two""#,
        r#""kind":"exited","exitCode":0,"cancelled":false,"outcome":"completed""#,
    ];
    for (event, seq) in events.iter().zip(1..) {
        let json = format!(r#"{{"runId":"{RUN}","seq":{seq},"at":"2026-11-15T10:00:0{seq}.000Z",{event}}}"#);
        append(&journal, Kind::Event, json.as_bytes());
    }
    journal.result(&serde_json::json!({"agent": "localexec", "outcome": "completed", "durationMs": 4000}));
    journal.finish().expect("finished");
    let folder = home.run(RUN).expect("an id");
    let numbers = folder.segments().expect("segments");
    assert_eq!(numbers.len(), 1);
    let segment = folder.segment(numbers[0]);
    let bytes = fs::read(&segment).expect("readable");
    (segment, bytes)
}

fn listed(home: &Home) -> Past {
    past::load(&Places::default(), Some(home), None, |_| true, &mut |_, _| {})
}

/// All tokens of the first session.
fn tokens(past: &Past) -> u64 {
    past.sessions[0].spent(&past.logs).total()
}

/// The numbers of the events that are told of the only run.
fn told(past: &Past) -> Vec<u64> {
    let mut seqs = Vec::new();
    past.decode(&past.sessions[0], &mut |event| seqs.push(event.seq)).expect("readable");
    seqs
}

#[test]
fn a_wrong_byte_anywhere_hides_no_run() {
    let (_folder, home) = home();
    let (segment, bytes) = written(&home);
    let sound = listed(&home);
    assert_eq!((sound.sessions.len(), sound.failures.len(), told(&sound).len()), (1, 0, 5));
    for place in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[place] ^= 0x41;
        fs::write(&segment, &wrong).expect("written");
        let past = listed(&home);
        // A head of another version is not read at all, which is said.
        if past.sessions.is_empty() {
            assert!(place < 16 && past.failures.len() == 1, "byte {place}: {:?}", past.failures);
            continue;
        }
        let session = &past.sessions[0];
        assert_eq!((session.id.as_str(), session.agent.id.0), (RUN, "localexec"), "byte {place}");
        let seqs = told(&past);
        assert!(seqs.len() as u64 + 1 >= EVENTS && seqs.is_sorted(), "byte {place}: {seqs:?}");
        // It is in the result and in the last event.
        assert_eq!(session.outcome, Outcome::Completed, "byte {place}");
    }
}

#[test]
fn a_run_that_ends_anywhere_is_listed_as_far_as_it_goes() {
    let (_folder, home) = home();
    let (segment, bytes) = written(&home);
    let mut before = 0;
    for length in 0..=bytes.len() {
        fs::write(&segment, &bytes[..length]).expect("written");
        let past = listed(&home);
        assert!(past.sessions.len() + past.failures.len() <= 1, "cut at {length}");
        if past.sessions.is_empty() {
            assert_eq!(before, 0, "cut at {length}");
            continue;
        }
        let seqs = told(&past);
        assert!(seqs.iter().zip(1..).all(|(seq, number)| *seq == number) && seqs.len() >= before, "cut at {length}: {seqs:?}");
        before = seqs.len();
        let outcome = if before as u64 == EVENTS { Outcome::Completed } else { Outcome::Crashed };
        assert_eq!(
            (past.sessions[0].outcome, past.sessions[0].account(&past.logs).title()),
            (outcome, Some("say it")),
            "cut at {length}"
        );
    }
    assert_eq!(before as u64, EVENTS);
}

#[test]
fn a_run_that_is_over_is_read_once() {
    let (_folder, home) = home();
    let (segment, bytes) = written(&home);
    let with_index = || past::load(&Places::default(), Some(&home), Some(&home.index()), |_| true, &mut |_, _| {});
    let outcome = |past: &Past| {
        past.sessions.first().map(|session| (session.outcome, session.account(&past.logs).title().map(str::to_owned)))
    };
    let told = outcome(&listed(&home));
    assert_eq!((told.as_ref().map(|told| told.0), outcome(&with_index())), (Some(Outcome::Completed), told.clone()));
    let time = fs::metadata(&segment).and_then(|data| data.modified()).expect("a time");
    let file = fs::File::options().write(true).open(&segment).expect("opened");
    fs::write(&segment, vec![0; bytes.len()]).expect("written");
    file.set_modified(time).expect("set");
    assert_eq!((outcome(&with_index()), outcome(&listed(&home))), (told, None), "nothing looks changed");
    file.set_modified(time + std::time::Duration::from_secs(1)).expect("set");
    let past = with_index();
    assert_eq!((past.sessions.len(), past.failures.len()), (0, 1));
    // Who takes it up again is seen, and so is who removes it.
    fs::write(&segment, &bytes).expect("written");
    let journal = Journal::open(&home, RUN).expect("opened");
    append(&journal, Kind::Event, b"{}");
    journal.sync().expect("synced");
    assert_eq!(outcome(&with_index()), outcome(&listed(&home)));
    journal.finish().expect("finished");
    fs::remove_dir_all(home.run(RUN).expect("an id").path()).expect("removed");
    assert!(with_index().sessions.is_empty());
}

#[test]
fn what_a_run_spent_counts_also_when_it_has_no_end() {
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    journal.meta(&Meta { run_id: RUN.to_owned(), agent: "cursor".to_owned(), ..Meta::default() });
    for (event, seq) in [
        r#""kind":"started","agent":"cursor""#,
        r#""kind":"usage","inputTokens":10,"outputTokens":3,"model":"model-a","scope":"message""#,
    ]
    .iter()
    .zip(1..)
    {
        append(&journal, Kind::Event, format!(r#"{{"runId":"{RUN}","seq":{seq},{event}}}"#).as_bytes());
    }
    journal.sync().expect("synced");
    assert_eq!(tokens(&listed(&home)), 0, "it is not over");
    // A writer that is killed leaves no end.
    let folder = home.run(RUN).expect("an id");
    let segment = folder.segment(folder.segments().expect("segments")[0]);
    let bytes = fs::read(&segment).expect("readable");
    journal.finish().expect("finished");
    fs::write(&segment, bytes).expect("written");
    let past = listed(&home);
    assert_eq!((past.sessions[0].outcome, tokens(&past)), (Outcome::Crashed, 13));
    // All its events had to be read for that. Once it is known, they are read again only when it is another file.
    let with_index = || {
        let past = past::load(&Places::default(), Some(&home), Some(&home.index()), |_| true, &mut |_, _| {});
        let session = &past.sessions[0];
        (session.agent.id.0, session.outcome, session.models(&past.logs).join(" "), tokens(&past))
    };
    let known = ("cursor", Outcome::Crashed, "model-a".to_owned(), 13);
    assert_eq!(with_index(), known);
    let written = fs::metadata(&segment).and_then(|data| data.modified()).expect("a time");
    let mut bytes = fs::read(&segment).expect("readable");
    let end = bytes.len();
    bytes[end - 20] ^= 0x41;
    fs::write(&segment, &bytes).expect("written");
    let file = fs::File::options().write(true).open(&segment).expect("opened");
    file.set_modified(written).expect("set");
    assert_eq!((with_index(), tokens(&listed(&home))), (known.clone(), 0), "nothing looks changed");
    file.set_modified(written + std::time::Duration::from_secs(1)).expect("set");
    assert_eq!(with_index().3, 0);
    // Who writes it to its end is believed.
    Journal::open(&home, RUN).expect("opened").finish().expect("finished");
    assert_eq!(with_index().1, listed(&home).sessions[0].outcome);
}

#[test]
fn a_run_is_the_session_that_its_agent_logged_though_the_name_of_the_file_has_only_the_beginning_of_its_id() {
    const ID: &str = "0a1b2c3d-5555-4000-8000-000000000001";
    let (folder, home) = home();
    let head = |id: &str| format!(r#"{{"sessionId":"{id}","projectHash":"h","startTime":"2026-11-15T18:00:00.000Z"}}"#);
    let answer = |id: &str, output: u64| {
        let tokens = format!(r#"{{"input":100,"output":{output},"cached":0,"thoughts":0,"tool":0}}"#);
        let time = "2026-11-15T18:00:02.000Z";
        format!(r#"{{"id":"{id}","timestamp":"{time}","type":"gemini","content":"Done.","tokens":{tokens},"model":"m"}}"#)
    };
    let chats = folder.path().join(".gemini/tmp/work/chats");
    write(&chats.join("session-2026-11-15T18-00-0a1b2c3d.jsonl"), &format!("{}\n{}\n", head(ID), answer("a", 10)));
    // A sub-agent of it, and another session whose id begins in the same way.
    write(&chats.join(ID).join("helper.jsonl"), &format!("{}\n{}\n", head("0b"), answer("b", 20)));
    let other = ID.replace("5555", "6666");
    write(&chats.join("session-2026-11-15T18-01-0a1b2c3d.jsonl"), &format!("{}\n{}\n", head(&other), answer("c", 40)));
    let journal = Journal::open(&home, RUN).expect("opened");
    journal.meta(&Meta { run_id: RUN.to_owned(), agent: "gemini".to_owned(), ..Meta::default() });
    let tokens = serde_json::json!({"uncachedInput": 200, "output": 30, "total": 230});
    journal.result(&serde_json::json!({"agent": "gemini", "sessionId": ID, "outcome": "completed",
        "models": [{"model": "m", "tokens": tokens}]}));
    journal.finish().expect("finished");
    let places = Places { home: Some(folder.path().to_path_buf()), ..Places::default() };
    let past = past::load(&places, Some(&home), None, |_| true, &mut |_, _| {});
    let row = |session: &Session| (session.id.clone(), session.logs.len(), session.spent(&past.logs).output);
    let listed: Vec<_> = past.sessions.iter().map(row).collect();
    assert_eq!(listed, [(ID.to_owned(), 2, 30), (other, 1, 40)]);
    assert_eq!(past.parts.iter().map(row).collect::<Vec<_>>(), [(RUN.to_owned(), 1, 30)]);
}
