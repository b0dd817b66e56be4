//! The journal against kills, damage, full disks and readers that watch; agents' logs and their index.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cost;
mod damage;
mod database;
#[cfg(unix)]
mod full;
mod history;
mod identity;
mod kept;
#[cfg(unix)]
mod kill;
mod listed;
mod model;
mod open;
mod parts;
mod sums;
mod tail;
mod threads;
mod truth;

use std::fs;
use std::path::Path;
use std::time::Duration;

use sabir_agents::builtin;
use sabir_store::account::{Portion, Session, each_portion};
use sabir_store::cursor::Kept;
use sabir_store::history::{Places, find};
use sabir_store::index::{self, Index, Log, Logs};
use sabir_store::{Cursor, Damage, Home, Journal, Kind, Options, Reader};

const RUN: &str = "0199a2c4-7f00-7000-8000-000000000001";

/// A home of its own, removed at the end.
fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::at(folder.path().join("home"));
    (folder, home)
}

/// Segments of a few records.
fn small(segment_bytes: u64) -> Options {
    Options { segment_bytes, ..Options::default() }
}

fn append(journal: &Journal, kind: Kind, payload: &[u8]) -> Cursor {
    journal.append(kind, 7, |out| out.extend_from_slice(payload)).expect("the journal takes it")
}

/// Every record that can be read, and what can't.
fn read(home: &Home) -> (Vec<Kept>, Damage) {
    read_from(Reader::open(home, RUN).expect("a journal"))
}

fn read_from(mut reader: Reader) -> (Vec<Kept>, Damage) {
    let mut all = Vec::new();
    while let Some(record) = reader.next().expect("readable") {
        all.push(Kept::from(record));
    }
    (all, reader.damage())
}

/// The numbers are dense from 1, and epochs never go back.
fn assert_dense(records: &[Kept]) {
    for (record, seq) in records.iter().zip(1..) {
        assert_eq!(record.cursor.seq, seq);
    }
    assert!(records.is_sorted_by_key(|record| record.cursor));
}

/// Longer than any test waits for something that comes.
const LONG: Duration = Duration::from_secs(300);

/// Reads what an agent keeps below a home folder.
fn read_logs(home: &Path, agent: &str, index: Option<&Path>) -> Logs {
    let places = Places { home: Some(home.to_path_buf()), registry: builtin(), ..Places::default() };
    let found = find(&places, |candidate| candidate.id.as_str() == agent);
    assert!(found.failures.is_empty(), "{:?}", found.failures);
    index::read(found.files, index.map_or_else(Index::default, Index::open), &mut |_, _| {})
}

/// What counts, as a list.
fn portions<'l>(logs: &'l [Log], sessions: &[Session]) -> Vec<Portion<'l>> {
    let mut portions = Vec::new();
    each_portion(logs, sessions, &mut |portion| portions.push(portion));
    portions
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}
