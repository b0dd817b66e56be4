//! Any byte may be missing or wrong.

use std::fs;
use std::path::PathBuf;

use sabir_store::cursor::Kept;
use sabir_store::record::HEAD;
use sabir_store::segment::Header;
use sabir_store::{Damage, Home, Journal, Kind, Why};

use crate::{RUN, append, assert_dense, home, read, small};

/// Two segments of a few records each: all records, and the bytes of the last segment.
fn written(home: &Home) -> (Vec<Kept>, PathBuf, Vec<u8>) {
    let journal = Journal::open_with(home, RUN, small(260)).expect("opened");
    for (number, kind) in [Kind::Meta, Kind::Raw, Kind::Event, Kind::Raw, Kind::Event, Kind::Raw, Kind::Event].iter().enumerate()
    {
        append(&journal, *kind, format!("payload of record {number}").as_bytes());
    }
    journal.finish().expect("finished");
    let (records, damage) = read(home);
    assert_eq!((records.len(), damage), (8, Damage::default()));
    let folder = home.run(RUN).expect("an id");
    let numbers = folder.segments().expect("segments");
    assert!(numbers.len() > 1, "{numbers:?}");
    let last = folder.segment(*numbers.last().expect("one"));
    let bytes = fs::read(&last).expect("readable");
    (records, last, bytes)
}

/// Where the records of the last segment lie in it.
fn extents(records: &[Kept], bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut end = bytes.len();
    let mut all = Vec::new();
    for record in records.iter().rev() {
        let size = HEAD + record.payload.len();
        if end < size + 42 {
            break;
        }
        all.push((end - size, end));
        end -= size;
    }
    all.reverse();
    assert!(all.len() > 1, "several records are in the last segment");
    all
}

#[test]
fn a_file_that_ends_anywhere_shows_every_record_before() {
    let (_folder, home) = home();
    let (records, last, bytes) = written(&home);
    let extents = extents(&records, &bytes);
    let before = records.len() - extents.len();
    for length in 0..bytes.len() {
        fs::write(&last, &bytes[..length]).expect("written");
        let (got, damage) = read(&home);
        let whole = before + extents.iter().filter(|(_, end)| *end <= length).count();
        assert_eq!(got, records[..whole], "cut at {length}");
        let end = extents.iter().map(|(_, end)| *end).rfind(|end| *end <= length);
        let boundary = end.unwrap_or(if length < extents[0].0 { 0 } else { extents[0].0 });
        assert_eq!(damage, Damage { torn_bytes: (length - boundary) as u64, ..Damage::default() }, "cut at {length}");

        // It is cut off when the journal is written again, which then goes on without a gap.
        let journal = Journal::open(&home, RUN).expect("opened again");
        assert_eq!((journal.epoch(), journal.left().cut), (2, damage.torn_bytes), "cut at {length}");
        append(&journal, Kind::Event, b"more");
        journal.finish().expect("finished");
        let (again, damage) = read(&home);
        assert_eq!((damage, again.len()), (Damage::default(), whole + 2), "cut at {length}");
        assert_eq!(again[..whole], records[..whole]);
        assert_dense(&again);
        let added = home.run(RUN).expect("an id").segments().expect("segments").pop().expect("one");
        fs::remove_file(home.run(RUN).expect("an id").segment(added)).expect("removed");
    }
}

#[test]
fn a_wrong_byte_anywhere_costs_one_record_at_most() {
    let (_folder, home) = home();
    let (records, last, bytes) = written(&home);
    let extents = extents(&records, &bytes);
    let before = records.len() - extents.len();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            fs::write(&last, &damaged).expect("written");
            let (got, damage) = read(&home);
            let mut left = records.clone();
            let hit = extents.iter().position(|(start, end)| (*start..*end).contains(&at));
            if let Some(hit) = hit {
                left.remove(before + hit);
            }
            assert_eq!(got, left, "byte {at} ^ {flip:#x}");
            assert!(!damage.is_none(), "byte {at} ^ {flip:#x}");
            let is_last = hit == Some(extents.len() - 1);
            assert_eq!(damage.missing, u64::from(hit.is_some() && !is_last), "byte {at} ^ {flip:#x}");
        }
    }
}

#[test]
fn damage_in_the_middle_is_counted_and_left_when_the_journal_is_written_again() {
    let (_folder, home) = home();
    let (records, last, mut bytes) = written(&home);
    let (start, end) = extents(&records, &bytes)[0];
    bytes[start + HEAD] ^= 1;
    bytes.extend_from_slice(b"half a rec");
    fs::write(&last, &bytes).expect("written");
    let (_, damage) = read(&home);
    let place = Damage { places: 1, bytes: (end - start) as u64, missing: 1, ..Damage::default() };
    assert_eq!(damage, Damage { torn_bytes: 10, ..place });
    let journal = Journal::open(&home, RUN).expect("opened again");
    assert_eq!(journal.left().cut, 10);
    journal.finish().expect("finished");
    assert_eq!(fs::read(&last).expect("readable"), bytes[..bytes.len() - 10]);
    assert_eq!(read(&home).1, place);
}

#[test]
fn zeros_at_the_end_are_told_from_a_torn_record() {
    let (_folder, home) = home();
    let (records, last, bytes) = written(&home);
    for zeros in [1, 28, 29, 4096, 200_000] {
        let mut padded = bytes.clone();
        padded.resize(bytes.len() + zeros, 0);
        fs::write(&last, padded).expect("written");
        let (got, damage) = read(&home);
        assert_eq!((got, damage), (records.clone(), Damage { zero_bytes: zeros as u64, ..Damage::default() }));
    }
    // A whole segment of them: the machine died before anything of it was on the disk.
    fs::write(&last, vec![0; bytes.len()]).expect("written");
    let (got, damage) = read(&home);
    assert!(got.len() < records.len() && records.starts_with(&got));
    assert_eq!((damage.headers, damage.zero_bytes), (1, bytes.len() as u64));
    let journal = Journal::open(&home, RUN).expect("opened again");
    assert_eq!((journal.epoch(), journal.left().cut), (2, bytes.len() as u64));
}

#[test]
fn a_segment_that_is_gone_is_a_gap_with_a_number() {
    let (_folder, home) = home();
    let (records, _, _) = written(&home);
    let folder = home.run(RUN).expect("an id");
    fs::remove_file(folder.segment(1)).expect("removed");
    let (got, damage) = read(&home);
    let missing = records.len() - got.len();
    assert_eq!(got, records[missing..]);
    assert_eq!(damage, Damage { missing: missing as u64, ..Damage::default() });
}

#[test]
fn a_newer_schema_is_left_alone() {
    let (_folder, home) = home();
    let (records, _, _) = written(&home);
    let folder = home.run(RUN).expect("an id");
    let next = folder.segments().expect("segments").len() + 1;
    let header = Header { number: 9, epoch: 9, first_seq: 9, created: 9, run_id: RUN.to_owned() };
    let mut head = header.encode();
    head[8] = 2;
    let crc = crc32c(&head);
    head[12..16].copy_from_slice(&crc.to_le_bytes());
    head.extend_from_slice(b"records of another kind");
    let path = folder.segment(u32::try_from(next).expect("few"));
    fs::write(&path, &head).expect("written");
    let (got, damage) = read(&home);
    assert_eq!((got, damage), (records, Damage { newer_segments: 1, ..Damage::default() }));
    let refused = Journal::open(&home, RUN).expect_err("not ours to write");
    assert_eq!(refused.why, Why::NewerSchema);
    assert!(!refused.hint.is_empty());
    assert_eq!(fs::read(&path).expect("readable"), head);
}

/// The checksum of a head, written down a second time: bit by bit.
fn crc32c(head: &[u8]) -> u32 {
    let bytes = head[..12].iter().chain(&head[16..]);
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

#[test]
fn an_unknown_kind_is_given_out_and_counted() {
    let (_folder, home) = home();
    let journal = Journal::open(&home, RUN).expect("opened");
    append(&journal, Kind::Other(99), b"from the future");
    append(&journal, Kind::Event, b"{}");
    journal.finish().expect("finished");
    let (records, damage) = read(&home);
    assert_eq!((records[0].kind, records[0].payload.as_slice()), (Kind::Other(99), &b"from the future"[..]));
    assert_eq!((records.len(), damage), (3, Damage { unknown_kinds: 1, ..Damage::default() }));
}

#[test]
fn a_journal_that_an_agent_prints_is_not_taken_for_records() {
    let (_folder, home) = home();
    let (records, last, bytes) = written(&home);
    let first = fs::read(home.run(RUN).expect("an id").segment(1)).expect("readable");
    // Another run's record with a number that would fit, and our own earlier ones, inside a record that is then damaged.
    let other = crate::home();
    let journal = Journal::open(&other.1, "another").expect("opened");
    for _ in 0..20 {
        append(&journal, Kind::Event, b"{}");
    }
    journal.finish().expect("finished");
    let foreign = fs::read(other.1.run("another").expect("an id").segment(1)).expect("readable");
    let journal = Journal::open(&home, RUN).expect("opened again");
    append(&journal, Kind::Raw, &[first.as_slice(), &bytes, &foreign].concat());
    append(&journal, Kind::Event, b"after");
    journal.finish().expect("finished");
    let path = home.run(RUN).expect("an id").segments().expect("segments").pop().expect("one");
    let path = home.run(RUN).expect("an id").segment(path);
    assert_ne!(path, last);
    let mut damaged = fs::read(&path).expect("readable");
    let at = damaged.windows(8).position(|eight| eight == &first[..8]).expect("the head of the run");
    let inside = damaged.windows(8).rposition(|eight| eight == &first[..8]).expect("what was printed");
    assert!(inside > at);
    damaged[inside] ^= 1;
    fs::write(&path, damaged).expect("written");
    let (got, damage) = read(&home);
    assert_eq!(got[..records.len()], records);
    assert_eq!(got[records.len()..].iter().map(|record| record.payload.as_slice()).next(), Some(&b"after"[..]));
    assert_eq!((damage.places, damage.missing, damage.out_of_order), (1, 1, 0));
}
