//! The thread that writes.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::PoisonError;
use std::time::Instant;

use super::{Shared, now};
use crate::cursor::Cursor;
use crate::layout::RunFolder;
use crate::meta::{End, Place};
use crate::record::{self, Head, Kind};
use crate::segment::Header;
use crate::trouble::Trouble;

/// A queue that grew beyond this is given back.
const RETAIN: usize = 4 << 20;
/// A slow disk is not one that does not answer: large writes go in pieces, and each is a sign of life.
const PIECE: usize = 8 << 20;
/// Bytes that are left free on a disk that is full, so that the journal can say so.
const LAST_WORDS: u64 = 512;

/// What the thread owns.
pub(super) struct Writer {
    folder: RunFolder,
    /// Held for as long as the journal is written.
    _lock: File,
    file: File,
    number: u32,
    size: u64,
    /// Bytes of the head of the segment.
    head: u64,
    limit: u64,
    /// The last record that was written.
    last: Cursor,
    /// Where the last result was written.
    result: Option<Place>,
    /// New names have to be made durable too.
    new_names: bool,
}

/// What was taken from the queue.
struct Batch {
    bytes: Vec<u8>,
    last: Cursor,
    result_at: Option<usize>,
    finishing: bool,
    too_large: u64,
}

impl Writer {
    /// Begins the segment after this one.
    pub(super) fn create(folder: RunFolder, lock: File, limit: u64, number: u32, last: Cursor) -> io::Result<Self> {
        let (file, head) = begin(&folder, number + 1, last)?;
        let number = number + 1;
        Ok(Self { folder, _lock: lock, file, number, size: head, head, limit, last, result: None, new_names: true })
    }

    pub(super) fn run(mut self, shared: &Shared) {
        let mut spare = Vec::new();
        loop {
            let batch = next(shared, spare);
            let mut done = self.write(&batch.bytes, batch.result_at, shared).and_then(|()| self.sync());
            if batch.finishing && done.is_ok() {
                let end = End { complete: true, too_large: batch.too_large, result: self.result, ..End::default() };
                done = self.end(shared.seed, &end).and_then(|()| self.sync());
            }
            let mut state = shared.lock();
            (state.writing, state.busy_since) = (0, None);
            if let Err(error) = done {
                drop(state);
                let trouble =
                    Trouble::io(format_args!("the journal in {} can't be written", self.folder.path().display()), &error);
                let why = End { complete: false, why: Some(error.to_string()), result: self.result, ..End::default() };
                // On a disk that is full there may still be room for these few bytes.
                let _ = self.end(shared.seed, &why).and_then(|()| self.sync());
                state = shared.lock();
                state.finishing = false;
                shared.fail(&mut state, trouble);
                return;
            }
            state.synced = batch.last;
            if batch.finishing {
                state.finishing = false;
            }
            let is_over = batch.finishing || state.trouble.is_some();
            shared.tell(&mut state);
            if is_over {
                return;
            }
            drop(state);
            spare = batch.bytes;
            spare.clear();
            if spare.capacity() > RETAIN {
                spare = Vec::new();
            }
        }
    }

    /// Writes records, in a new segment where this one is full.
    fn write(&mut self, bytes: &[u8], result_at: Option<usize>, shared: &Shared) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.limit.saturating_sub(self.size);
            let mut count = if rest.len() as u64 <= room { rest.len() } else { whole_within(rest, room) };
            if count == 0 {
                if self.size > self.head {
                    self.roll()?;
                    continue;
                }
                // One that is larger than a segment has a segment of its own.
                count = Head::parse(rest).map_or(rest.len(), |head| head.size);
            }
            let at = bytes.len() - rest.len();
            if let Some(result_at) = result_at.filter(|result| (at..at + count).contains(result)) {
                self.result = Some(Place { segment: self.number, offset: self.size + (result_at - at) as u64 });
            }
            self.put(&rest[..count], shared)?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Writes whole records; when that fails, as many of them stay as fit.
    fn put(&mut self, records: &[u8], shared: &Shared) -> io::Result<()> {
        let mut pieces = records.chunks(PIECE).peekable();
        let written =
            std::iter::from_fn(|| pieces.next().map(|piece| (piece, pieces.peek().is_some()))).try_for_each(|(piece, more)| {
                (&self.file).write_all(piece)?;
                if more {
                    self.file.sync_data()?;
                    shared.lock().busy_since = Some(Instant::now());
                }
                Ok(())
            });
        let kept = match &written {
            Ok(()) => records.len(),
            Err(_) => {
                let reached = self.file.metadata().map_or(self.size, |file| file.len());
                let kept = whole_within(records, reached.saturating_sub(self.size).saturating_sub(LAST_WORDS));
                // What is left behind if even this fails is a torn tail.
                let _ = self.file.set_len(self.size + kept as u64);
                kept
            }
        };
        self.size += kept as u64;
        let mut at = 0;
        while let Some(head) = Head::parse(&records[at..kept]) {
            self.last = head.cursor;
            at += head.size;
        }
        written
    }

    fn roll(&mut self) -> io::Result<()> {
        // What is in an earlier segment is on the disk before anything is in a later one.
        self.file.sync_data()?;
        (self.file, self.head) = begin(&self.folder, self.number + 1, self.last)?;
        self.number += 1;
        self.size = self.head;
        self.new_names = true;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.new_names {
            self.folder.sync_folders()?;
            self.new_names = false;
        }
        Ok(())
    }

    fn end(&mut self, seed: u32, end: &End) -> io::Result<()> {
        let mut bytes = Vec::new();
        let cursor = Cursor { seq: self.last.seq + 1, ..self.last };
        record::encode(&mut bytes, seed, Kind::End, cursor, now(), |out| serde_json::to_writer(out, end).unwrap_or_default());
        self.file.write_all(&bytes)?;
        (self.size, self.last) = (self.size + bytes.len() as u64, cursor);
        Ok(())
    }
}

/// Makes a segment with its head; the file, and how long the head is.
fn begin(folder: &RunFolder, number: u32, last: Cursor) -> io::Result<(File, u64)> {
    let header =
        Header { number, epoch: last.epoch, first_seq: last.seq + 1, created: now(), run_id: folder.id().to_owned() }.encode();
    let mut file = folder.create_segment(number)?;
    file.write_all(&header)?;
    Ok((file, header.len() as u64))
}

/// How many bytes the records take that fit whole into the room.
fn whole_within(records: &[u8], room: u64) -> usize {
    let mut at = 0;
    while let Some(head) = Head::parse(&records[at..]) {
        if (at + head.size) as u64 > room {
            break;
        }
        at += head.size;
    }
    at
}

/// Waits for a group of records and takes it.
fn next(shared: &Shared, spare: Vec<u8>) -> Batch {
    let mut state = shared.lock();
    while state.queue.is_empty() && !state.finishing && !state.urgent && state.trouble.is_none() {
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let due = Instant::now() + shared.options.group_time;
    while state.count < shared.options.group_records && !state.urgent && !state.finishing && state.trouble.is_none() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        state = shared.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    let bytes = std::mem::replace(&mut state.queue, spare);
    state.count = 0;
    state.urgent = false;
    state.writing = bytes.len();
    state.busy_since = Some(Instant::now());
    Batch { bytes, last: state.last, result_at: state.result_at.take(), finishing: state.finishing, too_large: state.too_large }
}
