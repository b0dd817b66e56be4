//! Opening, closing, opening again; what is where, and for whom.

use std::fs;

use sabir_core::line::{self, Source};
use sabir_store::cursor::BatchSize;
use sabir_store::record::raw_line;
use sabir_store::summary::{State, summary};
use sabir_store::{Cursor, Damage, End, Journal, Kind, Meta, Reader, Why};

use crate::{RUN, append, assert_dense, home, read, read_from, small};

#[test]
fn what_is_written_comes_back() {
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    let meta = Meta { schema: Meta::SCHEMA.to_owned(), prompt: "say \"ü\"\n".to_owned(), ..Meta::default() };
    journal.meta(&meta);
    let bytes = b"one\r\n\xff\xfe\n\nlast";
    for line in line::split(bytes) {
        journal.raw_line(&line, Source::Stdout, 1_000 + line.number);
    }
    append(&journal, Kind::Result, b"{\"schema\":\"sabir.result/1\"}");
    journal.finish().expect("finished");

    let (records, damage) = read(&home);
    assert_eq!(damage, Damage::default());
    assert_dense(&records);
    assert_eq!(serde_json::from_slice::<Meta>(&records[0].payload).expect("JSON"), meta);
    let mut printed = Vec::new();
    for record in &records[1..5] {
        let (line, source) = raw_line(&record.payload).expect("a line");
        assert_eq!((source, record.at), (Source::Stdout, 1_000 + line.number));
        printed.extend_from_slice(line.bytes);
        printed.extend_from_slice(match (line.cr, line.terminated) {
            (true, true) => b"\r\n",
            (false, true) => b"\n",
            _ => b"",
        });
    }
    assert_eq!(printed, bytes, "byte by byte");
    let end: End = serde_json::from_slice(&records[6].payload).expect("JSON");
    let place = end.result.expect("a place");
    let segment = fs::read(home.run(RUN).expect("an id").segment(place.segment)).expect("readable");
    let at = usize::try_from(place.offset).expect("small") + sabir_store::record::HEAD;
    assert!(end.complete && segment[at..].starts_with(b"{\"schema\":\"sabir.result/1\"}"));
}

#[test]
fn each_opening_is_an_epoch_and_one_process_at_a_time_has_it() {
    let (_folder, home) = home();
    for epoch in 1..4 {
        let journal = Journal::open(&home, RUN).expect("opened");
        assert_eq!(journal.epoch(), epoch);
        append(&journal, Kind::Event, b"{}");
        let refused = Journal::open(&home, RUN).expect_err("it is taken");
        assert_eq!(refused.why, Why::Live);
        assert!(home.run(RUN).expect("an id").is_live());
        journal.finish().expect("finished");
        assert!(!home.run(RUN).expect("an id").is_live());
    }
    let (records, damage) = read(&home);
    assert_eq!(damage, Damage::default());
    assert_dense(&records);
    let epochs: Vec<u32> = records.iter().map(|record| record.cursor.epoch).collect();
    assert_eq!(epochs, [1, 1, 2, 2, 3, 3]);
}

#[test]
fn segments_roll_over_between_records_and_a_reader_resumes_anywhere() {
    let (_folder, home) = home();
    let journal = Journal::open_with(&home, RUN, small(1_000)).expect("opened");
    for number in 0..100_u8 {
        // Now and then one that is larger than a segment.
        let size = if number % 30 == 29 { 5_000 } else { usize::from(number) };
        append(&journal, Kind::Event, &vec![number; size]);
    }
    journal.finish().expect("finished");
    let folder = home.run(RUN).expect("an id");
    let numbers = folder.segments().expect("segments");
    assert_eq!(numbers, (1..=u32::try_from(numbers.len()).expect("few")).collect::<Vec<_>>());
    assert!(numbers.len() > 5, "{numbers:?}");
    for number in &numbers {
        let size = fs::metadata(folder.segment(*number)).expect("a file").len();
        assert!(size <= 1_000 || size > 5_000, "segment {number} has {size} bytes");
    }
    let (records, _) = read(&home);
    assert_dense(&records);
    for (place, record) in records.iter().enumerate() {
        let (rest, damage) = read_from(Reader::resume(&home, RUN, record.cursor).expect("a journal"));
        assert_eq!((rest.as_slice(), damage), (&records[place + 1..], Damage::default()));
    }
    let mut reader = Reader::open(&home, RUN).expect("a journal");
    let mut batched = Vec::new();
    loop {
        let batch = reader.next_batch(BatchSize { records: 7, bytes: 300 }).expect("readable");
        assert!(batch.len() <= 7);
        let Some(last) = batch.last() else { break };
        assert_eq!(reader.cursor(), last.cursor);
        batched.extend(batch);
        reader = Reader::resume(&home, RUN, reader.cursor()).expect("a journal");
    }
    assert_eq!(batched, records);
}

#[test]
fn a_cursor_of_a_lost_tail_goes_on_with_the_next_epoch() {
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    let cursors: Vec<Cursor> = (0..5).map(|_| append(&journal, Kind::Event, b"{}")).collect();
    journal.finish().expect("finished");
    // The machine died: the last records never were on the disk, though a reader had seen them.
    let path = home.run(RUN).expect("an id").segment(1);
    let bytes = fs::read(&path).expect("readable");
    let end = bytes.windows(2).position(|two| two == b"{}").expect("the first payload") + 2;
    fs::write(&path, &bytes[..end]).expect("cut");
    let journal = Journal::open(&home, RUN).expect("opened again");
    let again = append(&journal, Kind::Event, b"[]");
    journal.finish().expect("finished");
    assert_eq!(again, Cursor { epoch: 2, seq: 2 });
    let (rest, damage) = read_from(Reader::resume(&home, RUN, cursors[4]).expect("a journal"));
    assert_eq!((rest[0].cursor, damage), (again, Damage::default()));
}

#[test]
fn a_record_of_a_hundred_megabytes_goes_through() {
    const SIZE: usize = 100 << 20;
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    journal.append(Kind::Raw, 0, |out| out.resize(out.len() + SIZE, b'x')).expect("taken");
    append(&journal, Kind::Event, b"{}");
    journal.finish().expect("finished");
    let mut reader = Reader::open(&home, RUN).expect("a journal");
    let large = reader.next().expect("readable").expect("a record");
    assert!(large.payload.len() == SIZE && large.payload.iter().all(|byte| *byte == b'x'));
    assert_eq!(reader.next().expect("readable").expect("a record").payload, b"{}");
}

#[test]
fn a_run_in_short_is_what_its_records_say() {
    let (_folder, home) = home();
    let folder = home.run(RUN).expect("an id");
    for prompt in ["first", "second"] {
        let journal = Journal::open_with(&home, RUN, small(500)).expect("opened");
        let meta = Meta { prompt: prompt.to_owned(), ..Meta::default() };
        journal.meta(&meta);
        for _ in 0..50 {
            append(&journal, Kind::Event, b"{}");
        }
        journal.sync().expect("synced");
        let running = summary(&folder).expect("readable");
        assert_eq!((running.state, running.meta, running.end), (State::Running, Some(meta.clone()), None));
        journal.result(&prompt);
        journal.finish().expect("finished");
        let ended = summary(&folder).expect("readable");
        assert_eq!((ended.state, ended.meta), (State::Ended, Some(meta)));
        assert_eq!(ended.result, Some(format!("{prompt:?}").into_bytes()));
        assert!(ended.end.is_some_and(|end| end.complete));
    }
    let last = folder.segment(*folder.segments().expect("segments").last().expect("one"));
    let bytes = fs::read(&last).expect("readable");
    fs::write(&last, &bytes[..bytes.len() - 1]).expect("cut");
    let died = summary(&folder).expect("readable");
    assert_eq!((died.state, died.result, died.end), (State::Died, None, None));
    assert_eq!(died.meta.map(|meta| meta.prompt), Some("second".to_owned()));
}

#[cfg(unix)]
#[test]
fn journals_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    journal.finish().expect("finished");
    let folder = home.run(RUN).expect("an id");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(folder.path().ancestors().take(3).map(mode).collect::<Vec<_>>(), [0o700; 3]);
    for entry in fs::read_dir(folder.path()).expect("a folder") {
        assert_eq!(mode(&entry.expect("an entry").path()), 0o600);
    }
    // What an earlier version or another program left wider is tightened when it is opened to write.
    let set = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    let (segment, runs) = (folder.segment(1), folder.path().parent().expect("a parent"));
    for (path, wide) in [(runs, 0o755), (folder.path(), 0o755), (segment.as_path(), 0o644)] {
        set(path, wide);
    }
    Journal::open(&home, RUN).expect("opened").finish().expect("finished");
    assert_eq!([runs, folder.path(), &segment].map(mode), [0o700, 0o700, 0o600]);
}

#[test]
fn a_home_that_cannot_be_is_trouble_with_a_hint() {
    let (folder, _) = home();
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let trouble = Journal::open(&sabir_store::Home::at(file), RUN).expect_err("a file is no folder");
    assert_eq!(trouble.why, Why::Io);
    assert!(trouble.hint.contains("SABIR_HOME") && trouble.hint.contains("--no-journal"));
    let (_folder, home) = home();
    assert_eq!(Reader::open(&home, RUN).expect_err("no run").why, Why::NotFound);
}

#[test]
fn runs_are_removed_whole_and_never_while_they_are_live() {
    use sabir_store::prune;
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    let folder = home.run(RUN).expect("an id");
    assert!(!prune::remove(&folder).expect("looked at"), "it is live");
    journal.finish().expect("finished");
    Journal::open(&home, "a/b").expect("opened").finish().expect("finished");
    let stored = prune::stored(&home).expect("readable");
    let ids: Vec<&str> = stored.iter().map(|run| run.folder.id()).collect();
    assert!(ids.len() == 2 && ids.contains(&RUN) && ids.contains(&"a/b"), "{ids:?}");
    assert!(prune::remove(&folder).expect("removed"));
    assert!(!folder.path().exists());
    // What a pruning that was killed left is swept, and is no run.
    let aside = folder.path().with_file_name(format!(".pruned-{RUN}"));
    fs::create_dir(&aside).expect("made");
    fs::write(aside.join("lock"), "").expect("written");
    assert_eq!(home.runs().expect("readable").len(), 1);
    prune::sweep(&home).expect("swept");
    assert!(!aside.exists());
}
