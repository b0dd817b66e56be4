//! Run ids that were used more than once: each run in such a folder, apart from the others.
//!
//! Today an id names one run. Earlier versions appended a second run of the same id to the folder of the first, as a new epoch.
//! A segment belongs to one epoch, so each run is a range of segments. The latest run keeps the id, because it is the one that
//! may still be written; an earlier one gets its epoch as a suffix: `nightly.1`.

use std::io;

use crate::cursor::Cursor;
use crate::layout::{RunFolder, Span};
use crate::reader::Reader;
use crate::record::Kind;

/// The runs in a folder, the earliest first; the folder itself where it holds one run.
pub(crate) fn split(folder: &RunFolder) -> io::Result<Vec<RunFolder>> {
    let numbers = folder.segments()?;
    if is_one_run(&numbers) {
        return Ok(vec![folder.clone()]);
    }
    let mut begins = Vec::new();
    let mut epoch = 0;
    for number in numbers {
        let Some(begin) = Begin::read(folder, number)? else { continue };
        if begin.epoch != epoch && (begin.has_meta || epoch != 0 && begin.is_damaged) {
            begins.push((number, begin));
        }
        epoch = begin.epoch;
    }
    // The first run of a folder begins at 0, unless an earlier run was pruned.
    if begins.len() < 2 && begins.iter().all(|(_, begin)| begin.before.seq == 0) {
        return Ok(vec![folder.clone()]);
    }
    let part = |(place, (number, begin)): (usize, &(u32, Begin))| {
        // Segments before the first run hold nothing readable, which is damage of that run.
        let span = Span { first: if place == 0 { 0 } else { *number }, last: u32::MAX, before: begin.before };
        match begins.get(place + 1) {
            Some((next, _)) => folder.part(Some(begin.epoch), Span { last: next - 1, ..span }),
            None => folder.part(None, span),
        }
    };
    Ok(begins.iter().enumerate().map(part).collect())
}

/// Whether segments of these numbers are of one run, as nearly all are: no other segment was ever in the folder.
pub(crate) fn is_one_run(numbers: &[u32]) -> bool {
    matches!(numbers, [] | [1])
}

/// How a segment begins.
#[derive(Clone, Copy)]
struct Begin {
    epoch: u32,
    before: Cursor,
    /// Its first record is the first of a run.
    has_meta: bool,
    /// Something before its first readable record is damaged.
    is_damaged: bool,
}

impl Begin {
    /// `None` for a segment without a readable record.
    fn read(folder: &RunFolder, number: u32) -> io::Result<Option<Self>> {
        let mut reader = Reader::only(folder.clone(), number);
        let first = reader.next()?.map(|record| (record.kind, record.cursor));
        let damage = reader.damage();
        Ok(first.map(|(kind, cursor)| Self {
            epoch: cursor.epoch,
            before: reader.before().unwrap_or(Cursor { seq: cursor.seq.saturating_sub(1), ..cursor }),
            has_meta: kind == Kind::Meta,
            is_damaged: damage.places + damage.headers > 0,
        }))
    }
}
