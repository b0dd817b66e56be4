//! Logs and databases in folders that the tests make.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod database;
mod threads;

use std::fs;
use std::path::Path;

use sabir_store::history::{Places, find};
use sabir_store::index::{self, Logs};

/// Reads what an agent keeps below a home folder.
fn read(home: &Path, agent: &str, index: Option<&Path>) -> Logs {
    let places = Places { home: Some(home.to_path_buf()), ..Places::default() };
    let found = find(&places, |candidate| candidate.id.0 == agent);
    assert!(found.failures.is_empty(), "{:?}", found.failures);
    index::read(found.files, index, &mut |_, _| {})
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}
