//! The index on disk: a file that entries are added to. Numbers are little-endian.
//!
//! ```text
//!   0             8         12
//!   ┌─────────────┬─────────┬────────┬────────┬──────┬────────┬──────┬─────────┄┬────────┬─┄
//!   │ "SABIRIDX"  │ version │ length │ crc32c │ kind │ length │ path │ what is  │ length │
//!   │ 8 bytes     │ u32     │ u32    │ u32    │ u8   │ u32    │      │ known    │ u32    │
//!   └─────────────┴─────────┴────────┴────────┴──────┴────────┴──────┴─────────┄┴────────┴─┄
//!                                             └ length bytes, whose digest is that
//! ```
//!
//! Of several entries of one kind and path the last one counts. Who adds entries adds them with one write at the end. A
//! file that can't be read to its end, or more than half of which does not count any more, is written anew beside the old
//! one and put in its place: who reads sees the one or the other. Nothing waits for the disk: to lose the index costs a
//! reading.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use memmap2::MmapOptions;
use sabir_core::history;

use crate::private;
use crate::record::field;

const MAGIC: &[u8; 8] = b"SABIRIDX";
/// Another number is another file.
const VERSION: u32 = 11;
const HEAD: usize = 12;
const ENTRY_HEAD: usize = 8;
/// The kind, and the length of the path.
const PATH_HEAD: usize = 5;
/// No index is larger: it has a few kilobytes for a megabyte of logs. What is, is none.
const LARGEST: usize = 1 << 30;
/// How large a page of memory is that is not small, on most machines.
const LARGE_PAGE: usize = 2 << 20;
/// So much is written at a time.
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
    bytes: usize,
}

/// An entry, by its place in the file. There are many, and no file is longer than such numbers.
#[derive(Debug, Clone)]
pub(super) struct Place(Range<u32>);

/// An entry taken apart.
pub(super) struct Entry<'b> {
    pub(super) kind: u8,
    pub(super) path: &'b [u8],
    pub(super) known: &'b [u8],
}

fn head() -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&(VERSION * 1000 + history::REVISION).to_le_bytes());
    head
}

impl IndexFile {
    /// Reads the file and hands out its entries, in the order that they were written in. What is no index of this version
    /// has none.
    pub(super) fn open(path: &Path, take: &mut dyn FnMut(Place, &Entry<'_>)) -> (Self, Bytes) {
        let mut index = Self { path: path.to_path_buf(), sound: false, bytes: 0 };
        let bytes = read(path).unwrap_or_default();
        if !bytes.is_empty() {
            let mut start = HEAD;
            while let Some(place) = entry_at(&bytes, start) {
                let Some(entry) = place.entry(&bytes) else { break };
                start = place.0.end as usize;
                index.bytes += place.size();
                take(place, &entry);
            }
            index.sound = start == bytes.len();
        }
        (index, bytes)
    }

    /// Whether to write it anew, when so many bytes of it count.
    pub(super) fn is_worn(&self, counting: usize) -> bool {
        !self.sound || self.bytes.saturating_sub(counting) > counting
    }

    /// Adds entries.
    pub(super) fn add(&self, entries: &[u8]) -> io::Result<()> {
        private::tighten(&self.path);
        OpenOptions::new().append(true).open(&self.path)?.write_all(entries)
    }

    /// Writes the file anew with these entries in it and no others.
    pub(super) fn replace(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            private::create_folder(folder)?;
        }
        let mut new = self.path.clone();
        new.as_mut_os_string().push(".new");
        let written = create(&new).and_then(|file| {
            let mut out = BufWriter::with_capacity(CHUNK, file);
            out.write_all(&head())?;
            write(&mut out)?;
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

/// What there is in the file, if it is an index of this version.
fn read(path: &Path) -> io::Result<Bytes> {
    // To open a pipe would wait for somebody who writes to it.
    if !fs::metadata(path)?.is_file() {
        return Ok(Bytes::new());
    }
    let mut file = File::open(path)?;
    // What is added from now on is for the next time.
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut start = [0; HEAD];
    file.read_exact(&mut start)?;
    if start != head() || size > LARGEST {
        return Ok(Bytes::new());
    }
    // To get megabytes in pages of four kilobytes takes longer than to read them. A system that has larger ones gives those
    // for a piece that is as long as some of them; any other one gives what it has. Of the last one at least half must be
    // needed: all of a page is cleared before anything is read into it.
    let length = if size < LARGE_PAGE / 2 { size.max(HEAD) } else { size.next_multiple_of(LARGE_PAGE) };
    let mut room = MmapOptions::new().len(length).map_anon()?;
    #[cfg(target_os = "linux")]
    let _ = room
        .advise_range(memmap2::Advice::HugePage, 0, (size + LARGE_PAGE / 2) / LARGE_PAGE * LARGE_PAGE)
        // All at once, and not each when it is first written to.
        .and_then(|()| room.advise_range(memmap2::Advice::PopulateWrite, 0, size.max(HEAD)));
    room[..HEAD].copy_from_slice(&start);
    let mut end = HEAD;
    // What was read up to an error is right.
    while let Ok(count @ 1..) = file.read(&mut room[end..size.max(HEAD)]) {
        end += count;
    }
    Ok(Bytes::from_owner(room).slice(..end))
}

/// The entry that begins there, if there is a whole one and its digest is right.
fn entry_at(bytes: &[u8], start: usize) -> Option<Place> {
    let bytes = bytes.get(start..)?;
    let length = usize::try_from(u32::from_le_bytes(field(bytes, 0)?)).ok()?;
    let digest = u32::from_le_bytes(field(bytes, 4)?);
    let entry = bytes.get(ENTRY_HEAD..ENTRY_HEAD.checked_add(length)?)?;
    let place = u32::try_from(start).ok()?..u32::try_from(start + ENTRY_HEAD + length).ok()?;
    (crc32c::crc32c(entry) == digest).then_some(Place(place))
}

impl Place {
    /// Where in the file it begins.
    pub(super) fn start(&self) -> u32 {
        self.0.start
    }

    /// How many bytes it takes in the file.
    pub(super) fn size(&self) -> usize {
        (self.0.end - self.0.start) as usize
    }

    /// The bytes that it takes.
    pub(super) fn bytes<'b>(&self, all: &'b [u8]) -> &'b [u8] {
        all.get(self.0.start as usize..self.0.end as usize).unwrap_or_default()
    }

    /// What is there.
    pub(super) fn entry<'b>(&self, all: &'b [u8]) -> Option<Entry<'b>> {
        let (head, rest) = self.bytes(all).get(ENTRY_HEAD..)?.split_at_checked(PATH_HEAD)?;
        let length = usize::try_from(u32::from_le_bytes(field(head, 1)?)).ok()?;
        let (path, known) = rest.split_at_checked(length)?;
        Some(Entry { kind: head[0], path, known })
    }
}

/// Appends an entry. One that is too large to be told is not.
pub(super) fn write(kind: u8, path: &str, bytes: &mut Vec<u8>, known: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; ENTRY_HEAD]);
    bytes.push(kind);
    bytes.extend_from_slice(&u32::try_from(path.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(path.as_bytes());
    known(bytes);
    let (head, entry) = bytes[start..].split_at_mut(ENTRY_HEAD);
    match u32::try_from(entry.len()) {
        Ok(length) => {
            head[..4].copy_from_slice(&length.to_le_bytes());
            head[4..].copy_from_slice(&crc32c::crc32c(entry).to_le_bytes());
        }
        Err(_) => bytes.truncate(start),
    }
}

/// Makes the file, unless somebody is writing it.
fn create(path: &Path) -> io::Result<File> {
    let create = || private::options(OpenOptions::new().write(true).create_new(true)).open(path);
    create().or_else(|error| {
        let age = fs::metadata(path).and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age < DONE_BY_THEN) {
            return Err(error);
        }
        fs::remove_file(path)?;
        create()
    })
}
