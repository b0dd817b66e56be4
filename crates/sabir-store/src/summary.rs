//! What a list of runs shows, read from a few places of a journal and not from all of it.

use std::io;

use serde::{Deserialize, Serialize};

use crate::layout::RunFolder;
use crate::meta::{End, Meta, Place};
use crate::reader::{Damage, Reader};
use crate::record::{self, HEAD, Head, Kind};
use crate::segment::{Header, Opening};
use crate::window::Window;

/// What became of a run, as far as its journal knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// A process writes it now.
    Running,
    /// It was written to its end.
    Ended,
    /// Its writer is gone and has not said why: it was killed, or the machine died.
    Died,
}

/// A run in short. With several epochs, the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Whether it goes on.
    pub state: State,
    /// What was known at its beginning; `None` when that can't be read.
    pub meta: Option<Meta>,
    /// The session result as JSON; `None` when there is none, or the run has no whole end: its events still tell.
    pub result: Option<Vec<u8>>,
    /// How the journal ended.
    pub end: Option<End>,
    /// When that was, in milliseconds since 1970.
    pub ended: Option<i64>,
}

/// An end is never longer than this, and the last thing in the last segment.
const LONGEST_END: usize = 4096;

/// Reads a run in short.
pub fn summary(folder: &RunFolder) -> io::Result<Summary> {
    // Before anything is read: a run that ends meanwhile is one that runs.
    let live = folder.is_live();
    let numbers = folder.segments()?;
    short(folder, live, &numbers, meta(folder, &numbers)?)
}

/// Reads a run in short, and all of its journal for damage, unless it is written now.
pub(crate) fn checked(folder: &RunFolder) -> io::Result<(Summary, Damage)> {
    if folder.is_live() {
        return Ok((summary(folder)?, Damage::default()));
    }
    let mut reader = Reader::of(folder.clone()).map_err(|trouble| io::Error::other(trouble.what))?;
    let mut meta = None;
    while let Some(record) = reader.next()? {
        if record.kind == Kind::Meta {
            meta = serde_json::from_slice(record.payload).ok().or(meta);
        }
    }
    Ok((short(folder, false, &folder.segments()?, meta)?, reader.damage()))
}

fn short(folder: &RunFolder, live: bool, numbers: &[u32], meta: Option<Meta>) -> io::Result<Summary> {
    let (end, ended) = match numbers.last() {
        Some(last) if !live => end(folder, *last)?.unzip(),
        _ => (None, None),
    };
    let result = match end.as_ref().and_then(|end| end.result) {
        Some(place) => result(folder, place)?,
        None => None,
    };
    let state = match (live, &end) {
        (true, _) => State::Running,
        (false, Some(_)) => State::Ended,
        (false, None) => State::Died,
    };
    Ok(Summary { state, meta, result, end, ended: ended.flatten() })
}

/// The first record of the last epoch.
fn meta(folder: &RunFolder, numbers: &[u32]) -> io::Result<Option<Meta>> {
    let mut first: Option<(u32, u32)> = None;
    for number in numbers.iter().rev() {
        let opening = Header::parse(Window::open(&folder.segment(*number))?.bytes(0, usize::from(u16::MAX))?);
        let Opening::Whole(header, _) = opening else { continue };
        if first.is_some_and(|(_, epoch)| epoch != header.epoch) {
            break;
        }
        first = Some((*number, header.epoch));
    }
    if let Some((number, _)) = first
        && let Some(meta) = first_meta(Reader::only(folder.clone(), number))?
    {
        return Ok(Some(meta));
    }
    // Behind a damaged head it may be whole.
    Reader::of(folder.clone()).map_or(Ok(None), first_meta)
}

fn first_meta(mut reader: Reader) -> io::Result<Option<Meta>> {
    let record = reader.next()?.filter(|record| record.kind == Kind::Meta);
    Ok(record.and_then(|record| serde_json::from_slice(record.payload).ok()))
}

/// The end of a journal, and when it was written.
fn end(folder: &RunFolder, last: u32) -> io::Result<Option<(End, Option<i64>)>> {
    let mut window = Window::open(&folder.segment(last))?;
    let size = window.len()?;
    let from = size.saturating_sub(LONGEST_END as u64);
    let bytes = window.bytes(from, LONGEST_END)?;
    let seed = record::seed(folder.written_id());
    let found = (0..bytes.len()).find_map(|at| {
        let rest = &bytes[at..];
        let head =
            Head::parse(rest).filter(|head| head.kind == Kind::End && head.size == rest.len() && head.holds(rest, seed))?;
        Some((&rest[HEAD..], head.at))
    });
    Ok(found.and_then(|(end, at)| Some((serde_json::from_slice(end).ok()?, i64::try_from(at).ok().filter(|at| *at > 0)))))
}

fn result(folder: &RunFolder, place: Place) -> io::Result<Option<Vec<u8>>> {
    let mut window = match Window::open(&folder.segment(place.segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        window => window?,
    };
    let Some(head) = Head::parse(window.bytes(place.offset, HEAD)?).filter(|head| head.kind == Kind::Result) else {
        return Ok(None);
    };
    let bytes = window.bytes(place.offset, head.size)?;
    let whole = bytes.len() == head.size && head.holds(bytes, record::seed(folder.written_id()));
    Ok(whole.then(|| bytes[HEAD..].to_vec()))
}
