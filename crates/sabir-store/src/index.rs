//! What was read in short, kept: only what changed is read again.
//!
//! The index is a cache and nothing else. Each file's entry counts only while the file's identity, size, time of writing and
//! time of change are what they were; a file that has grown is read from where it ended. An index of another version, a
//! broken one, or an entry whose digest is wrong is thrown away and made anew, so the answer is the same with and without it.
//!
//! It is read in one piece, and what is known stays where it is in that: a look at a history that has hardly changed takes
//! nothing apart but what it looks at.

mod file;
mod logs;
pub mod summary;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;
use sabir_core::history::{id_of, id_with};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::DigestState;
use file::{IndexFile, Place};
pub use logs::{Log, Logs, read};

/// About as many bytes an entry takes, and for how many of them there is room before they are read.
const BYTES_OF_AN_ENTRY: u64 = 1024;
const MOST_AT_ONCE: usize = 1 << 16;

/// What an entry is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// What a log says.
    Log = 1,
    /// What a database says.
    Database = 2,
    /// What a folder holds.
    Folder = 3,
    /// What a run tells that is over.
    Run = 4,
}

/// What is known from earlier readings. One without a file knows nothing and keeps nothing.
#[derive(Debug, Default)]
pub struct Index {
    file: Option<IndexFile>,
    /// The file as it was read.
    bytes: Bytes,
    /// What is where, by a digest of kind and path.
    places: HashMap<u64, Known, DigestState>,
    /// Entries that are not in the file.
    news: Vec<u8>,
}

#[derive(Debug)]
struct Known {
    place: Place,
    /// Somebody has asked for it, so it is of something that is there.
    asked: bool,
}

/// The number of an entry. Two may have the same; who asks sees which one it is.
fn digest(kind: u8, path: &[u8]) -> u64 {
    id_with(id_of(path), [kind.into()])
}

impl Index {
    /// Opens the index at that path and reads it. One that can't be used is empty.
    pub fn open(path: &Path) -> Self {
        let mut places: HashMap<u64, Known, DigestState> = HashMap::default();
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        places.reserve(usize::try_from(size / BYTES_OF_AN_ENTRY).unwrap_or(0).min(MOST_AT_ONCE));
        let (file, bytes) = IndexFile::open(path, &mut |place, entry| {
            places.insert(digest(entry.kind, entry.path), Known { place, asked: false });
        });
        Self { file: Some(file), bytes, places, news: Vec::new() }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// What is known of a place: how it was, and the rest. A path that is no text is not known.
    pub(crate) fn recall<T: DeserializeOwned>(&mut self, kind: Kind, path: &Path) -> Option<(T, Bytes)> {
        let path = path.to_str()?;
        let known = self.places.get_mut(&digest(kind as u8, path.as_bytes()))?;
        let entry = known.place.entry(&self.bytes).filter(|entry| (entry.kind, entry.path) == (kind as u8, path.as_bytes()))?;
        known.asked = true;
        let (how, rest) = postcard::take_from_bytes(entry.known).ok()?;
        Some((how, self.bytes.slice_ref(rest)))
    }

    /// Takes note of what is known of a place now.
    pub(crate) fn remember<T: Serialize>(&mut self, kind: Kind, path: &Path, how: &T, rest: &[u8]) {
        if let Some(path) = path.to_str().filter(|_| self.file.is_some()) {
            self.forget(kind, path);
            write(kind, path, how, [rest], &mut self.news);
        }
    }

    /// What the file says of that path does not count any more.
    fn forget(&mut self, kind: Kind, path: &str) {
        self.places.remove(&digest(kind as u8, path.as_bytes()));
    }

    /// Keeps what is new, with so many more entries. What is gone harms nobody, so it is forgotten when much is.
    pub(crate) fn save(&mut self, more: usize, write: impl Fn(usize, &mut Vec<u8>)) -> io::Result<()> {
        let Self { file, bytes, places, news } = self;
        let Some(file) = file.as_ref().filter(|_| more > 0 || !news.is_empty()) else { return Ok(()) };
        places.retain(|_, known| known.asked || known.place.entry(bytes).is_some_and(|entry| exists(entry.path)));
        if !file.is_worn(places.values().map(|known| known.place.size()).sum()) {
            (0..more).for_each(|number| write(number, news));
            return file.add(news);
        }
        let mut kept: Vec<&Place> = places.values().map(|known| &known.place).collect();
        kept.sort_by_key(|place| place.start());
        file.replace(|out| {
            kept.into_iter().try_for_each(|place| out.write_all(place.bytes(bytes)))?;
            out.write_all(news)?;
            for number in 0..more {
                news.clear();
                write(number, news);
                out.write_all(news)?;
            }
            Ok(())
        })
    }
}

fn exists(path: &[u8]) -> bool {
    std::str::from_utf8(path).is_ok_and(|path| Path::new(path).exists())
}

/// Appends an entry.
fn write<'r, T: Serialize>(kind: Kind, path: &str, how: &T, rest: impl IntoIterator<Item = &'r [u8]>, bytes: &mut Vec<u8>) {
    file::write(kind as u8, path, bytes, |bytes| {
        // What can't be written is an entry that can't be read, and is made anew.
        let _ = postcard::to_io(how, &mut *bytes);
        rest.into_iter().for_each(|rest| bytes.extend_from_slice(rest));
    });
}
