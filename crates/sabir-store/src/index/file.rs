//! The index on disk: a file that entries are added to. Numbers are little-endian.
//!
//! ```text
//!   0             8         12
//!   ┌─────────────┬─────────┬────────┬────────┬────────┄┬────────┬─┄
//!   │ "SABIRIDX"  │ version │ length │ crc32c │ entry   │ length │
//!   │ 8 bytes     │ u32     │ u32    │ u32    │         │ u32    │
//!   └─────────────┴─────────┴────────┴────────┴────────┄┴────────┴─┄
//!                                             └ length bytes, as postcard writes them
//! ```
//!
//! Of several entries of one path the last one counts. Who adds entries adds them with one write at the end. A file that
//! can't be read to its end, or more than half of which does not count any more, is written anew beside the old one and
//! put in its place: who reads sees the one or the other. Nothing waits for the disk: to lose the index costs a reading.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sabir_core::history;

use super::entry::{Kept, Known};
use crate::layout::{create_folder, private};
use crate::record::field;

const MAGIC: &[u8; 8] = b"SABIRIDX";
/// Another number is another file.
const VERSION: u32 = 8;
const HEAD: usize = 12;
const ENTRY_HEAD: usize = 8;
/// No entry is larger: one session has a few hundred bytes for each of its responses.
const MAX_ENTRY: usize = 1 << 30;
/// So much is read and written at a time.
const CHUNK: usize = 256 << 10;
/// Who writes the file anew is done long before that, unless it was killed.
const DONE_BY_THEN: Duration = Duration::from_secs(60);

/// The file of an index, and how much of it is worth keeping.
#[derive(Debug)]
pub(super) struct IndexFile {
    path: PathBuf,
    /// It is as it should be, to its end.
    sound: bool,
    /// How many bytes of it are entries.
    bytes: u64,
}

fn head() -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&(VERSION * 1000 + history::REVISION).to_le_bytes());
    head
}

impl IndexFile {
    /// Reads the entries, in the order that they were written in, with the bytes that each takes. What is no index of this
    /// version has none.
    pub(super) fn open(path: &Path, take: &mut dyn FnMut(Known<'_>, u64)) -> Self {
        let mut index = Self { path: path.to_path_buf(), sound: false, bytes: 0 };
        if let Ok(file) = File::open(path) {
            // What was read up to an error is right.
            index.sound = index.read(Pieces { file, buffer: Vec::new(), start: 0, end: 0 }, take).unwrap_or(false);
        }
        index
    }

    /// Whether it could be read to its end.
    fn read(&mut self, mut file: Pieces, take: &mut dyn FnMut(Known<'_>, u64)) -> io::Result<bool> {
        if file.next(HEAD)? != Some(&head()) {
            return Ok(false);
        }
        loop {
            let Some(bytes) = file.next(ENTRY_HEAD)? else { return Ok(file.is_empty()) };
            let (Some(length), Some(digest)) = (field(bytes, 0).map(u32::from_le_bytes), field(bytes, 4).map(u32::from_le_bytes))
            else {
                return Ok(false);
            };
            let length = usize::try_from(length).map_or(MAX_ENTRY, |length| length.min(MAX_ENTRY));
            let Some(bytes) = file.next(length)?.filter(|bytes| crc32c::crc32c(bytes) == digest) else { return Ok(false) };
            let Ok(entry) = postcard::from_bytes(bytes) else { return Ok(false) };
            let size = (ENTRY_HEAD + length) as u64;
            self.bytes += size;
            take(entry, size);
        }
    }

    /// Whether to write it anew, when so many bytes of it count.
    pub(super) fn is_worn(&self, counting: u64) -> bool {
        !self.sound || self.bytes - counting.min(self.bytes) > counting
    }

    /// Adds entries.
    pub(super) fn add<'k>(&self, entries: impl Iterator<Item = Kept<'k>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            write(&entry, &mut bytes);
        }
        OpenOptions::new().append(true).open(&self.path)?.write_all(&bytes)
    }

    /// Writes the file anew with these entries in it and no others.
    pub(super) fn replace<'k>(&self, entries: impl Iterator<Item = Kept<'k>>) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            create_folder(folder)?;
        }
        let mut new = self.path.clone();
        new.as_mut_os_string().push(".new");
        let written = create(&new).and_then(|file| {
            let mut out = BufWriter::with_capacity(CHUNK, file);
            out.write_all(&head())?;
            let mut bytes = Vec::new();
            for entry in entries {
                bytes.clear();
                write(&entry, &mut bytes);
                out.write_all(&bytes)?;
            }
            out.flush()?;
            fs::rename(&new, &self.path)
        });
        match written {
            // Somebody else writes it at this moment: it is theirs.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => {
                let _ = fs::remove_file(&new);
                Err(error)
            }
            done => done,
        }
    }
}

/// A file in pieces that lie where they were read to.
struct Pieces {
    file: File,
    buffer: Vec<u8>,
    /// Which bytes of the buffer were read and not given out.
    start: usize,
    end: usize,
}

impl Pieces {
    /// The next bytes, so many of them; `None` when the file ends before that.
    fn next(&mut self, length: usize) -> io::Result<Option<&[u8]>> {
        if self.end - self.start < length {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < length {
            if self.end == self.buffer.len() {
                // As much as has come, and not as much as is said to come.
                self.buffer.resize(CHUNK.max(2 * self.end), 0);
            }
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(None),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.start += length;
        Ok(Some(&self.buffer[self.start - length..self.start]))
    }

    /// Whether all that was read was given out.
    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Makes the file, unless somebody is writing it.
fn create(path: &Path) -> io::Result<File> {
    let create = || private(OpenOptions::new().write(true).create_new(true)).open(path);
    create().or_else(|error| {
        let age = fs::metadata(path).and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age < DONE_BY_THEN) {
            return Err(error);
        }
        fs::remove_file(path)?;
        create()
    })
}

/// Appends an entry.
fn write(entry: &Kept<'_>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; ENTRY_HEAD]);
    if postcard::to_io(entry, &mut *bytes).is_err() {
        // There is nothing in an entry that can't be written; without it a log is read again.
        return bytes.truncate(start);
    }
    let (head, entry) = bytes[start..].split_at_mut(ENTRY_HEAD);
    let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&crc32c::crc32c(entry).to_le_bytes());
}
