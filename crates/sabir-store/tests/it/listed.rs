//! Runs that are damaged are in the list, and what is whole of them is told.

use std::fs;
use std::path::PathBuf;

use sabir_agents::builtin;
use sabir_core::event::{EventKind, Exited, Outcome};
use sabir_store::history::Places;
use sabir_store::past::{self, Past};
use sabir_store::{Home, Journal, Kind, Meta};

use crate::{RUN, append, home};

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
    past::load(&Places { registry: builtin(), ..Places::default() }, Some(home), None, |_| true, &mut |_, _| {})
}

/// All tokens of the first session.
fn tokens(past: &Past) -> u64 {
    past.sessions[0].spent(&past.logs).total()
}

/// The numbers of the events that are told of the only run, and the outcome that the last one tells and no other.
fn told(past: &Past) -> (Vec<u64>, Option<Outcome>) {
    let (mut seqs, mut end) = (Vec::new(), None);
    past.decode(&past.sessions[0], &mut |event| {
        assert_eq!(end, None, "nothing comes after the end");
        seqs.push(event.seq);
        if let EventKind::Exited(Exited { outcome, .. }) = event.kind {
            end = Some(outcome);
        }
    })
    .expect("readable");
    (seqs, end)
}

#[test]
fn a_wrong_byte_anywhere_hides_no_run() {
    let (_folder, home) = home();
    let (segment, bytes) = written(&home);
    let sound = listed(&home);
    assert_eq!((sound.sessions.len(), sound.failures.len(), told(&sound).0.len()), (1, 0, 5));
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
        assert_eq!((session.id.as_str(), session.agent.id.as_str()), (RUN, "localexec"), "byte {place}");
        let (seqs, end) = told(&past);
        assert!(seqs.len() as u64 + 1 >= EVENTS && seqs.is_sorted(), "byte {place}: {seqs:?}");
        // It is in the result and in the last event.
        assert_eq!((session.outcome, end), (Outcome::Completed, Some(Outcome::Completed)), "byte {place}");
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
        let (seqs, end) = told(&past);
        assert!(seqs.iter().zip(1..).all(|(seq, number)| *seq == number), "cut at {length}: {seqs:?}");
        // One that was cut off gets an end, as soon as it has a beginning.
        let was_cut = end != Some(Outcome::Completed);
        let whole = seqs.len() - usize::from(was_cut && !seqs.is_empty());
        assert!(whole >= before && (was_cut == (whole as u64 != EVENTS)), "cut at {length}: {seqs:?}");
        before = whole;
        let outcome = if was_cut { Outcome::Incomplete } else { Outcome::Completed };
        assert_eq!(end.is_some(), !seqs.is_empty(), "cut at {length}");
        assert_eq!(end.unwrap_or(outcome), outcome, "cut at {length}");
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
    let with_index = || {
        past::load(
            &Places { registry: builtin(), ..Places::default() },
            Some(&home),
            Some(&home.index()),
            |_| true,
            &mut |_, _| {},
        )
    };
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
    assert_eq!((past.sessions[0].outcome, tokens(&past)), (Outcome::Incomplete, 13));
    // All its events had to be read for that. Once it is known, they are read again only when it is another file.
    let with_index = || {
        let past = past::load(
            &Places { registry: builtin(), ..Places::default() },
            Some(&home),
            Some(&home.index()),
            |_| true,
            &mut |_, _| {},
        );
        let session = &past.sessions[0];
        (session.agent.id.to_string(), session.outcome, session.models(&past.logs).join(" "), tokens(&past))
    };
    let known = ("cursor".to_owned(), Outcome::Incomplete, "model-a".to_owned(), 13);
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
