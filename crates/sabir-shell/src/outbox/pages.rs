//! Reads messages that may be told to others: what is on the disk, and nothing else.

use std::sync::Arc;

use sabir_protocol::envelope::read;
use sabir_store::cursor::Kept;
use sabir_store::{Cursor, Kind, Reader};

use super::Outbox;
use crate::Failure;

/// Messages that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The number of the first.
    pub first: u64,
    /// How many there are.
    pub count: u32,
    /// They, each with a line feed.
    pub lines: Vec<u8>,
}

impl Page {
    /// The number of the last.
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }
}

/// A reader of an outbox. It holds no message but those of a page and the one after it.
#[derive(Debug)]
pub struct PageReader {
    outbox: Arc<Outbox>,
    reader: Option<Reader>,
    /// The number of the message that the reader comes to next.
    next: u64,
    /// It was read already and does not belong to the last page.
    pending: Option<Kept>,
    /// The number of the record before the next one; `None` before the first.
    before: Option<u64>,
    /// Records are missing before the next message.
    has_gap: bool,
}

impl PageReader {
    /// A reader that stands nowhere yet.
    pub fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, reader: None, next: 0, pending: None, before: None, has_gap: false }
    }

    /// The messages from `first` on, as many as are there and fit; one that is larger than all of it comes alone. `None`: not
    /// there yet.
    pub fn read_page(&mut self, first: u64, messages: u32, bytes: usize) -> Result<Option<Page>, Failure> {
        if first <= self.outbox.after() {
            let what = format!("message {first} is asked for, and the log on this machine begins after {}", self.outbox.after());
            return Err(Failure::delivery(what));
        }
        let synced = self.outbox.synced();
        if self.reader.is_none() || self.next != first {
            self.seek(first)?;
        }
        let mut page = Page { first, count: 0, lines: Vec::new() };
        while page.count < messages.max(1) {
            let record = match self.next_message(synced) {
                Ok(Some(record)) => record,
                Ok(None) => break,
                // What is before the damage is right. The next page says what is wrong.
                Err(_) if page.count > 0 => {
                    self.reader = None;
                    break;
                }
                Err(failure) => return Err(failure),
            };
            if self.next < first {
                self.next += 1;
                continue;
            }
            if page.count > 0 && page.lines.len() + record.payload.len() >= bytes {
                self.pending = Some(record);
                break;
            }
            page.lines.extend_from_slice(&record.payload);
            page.lines.push(b'\n');
            page.count += 1;
            self.next += 1;
        }
        Ok((page.count > 0).then_some(page))
    }

    fn seek(&mut self, first: u64) -> Result<(), Failure> {
        let (message, before) = self.outbox.locate(first);
        self.pending = None;
        self.next = message;
        self.before = (before != Cursor::START).then_some(before.seq);
        self.has_gap = false;
        let folder = self.outbox.folder.clone();
        self.reader = Some(if before == Cursor::START { Reader::of(folder)? } else { Reader::resume_in(folder, before)? });
        Ok(())
    }

    /// The next message, if it is on the disk.
    fn next_message(&mut self, synced: Cursor) -> Result<Option<Kept>, Failure> {
        if let Some(pending) = self.pending.take() {
            if pending.cursor <= synced {
                return Ok(Some(pending));
            }
            self.pending = Some(pending);
            return Ok(None);
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        loop {
            let next = reader.next().map_err(|error| Failure::delivery(format!("can't read the log: {error}")))?;
            let Some(record) = next else { return Ok(None) };
            self.has_gap |= self.before.is_some_and(|before| record.cursor.seq != before + 1);
            self.before = Some(record.cursor.seq);
            if record.kind != Kind::Message {
                continue;
            }
            // Messages are counted, so one that is missing would give its number to the next one.
            if self.has_gap && read::check(record.payload, self.outbox.session().as_str()) != Ok(self.next) {
                let what = format!("the outbox is damaged: message {} can't be read", self.next);
                return Err(
                    Failure::delivery(what).hint("the next `sabir shell` of the session repairs it, and says what is lost")
                );
            }
            self.has_gap = false;
            let record = Kept::from(record);
            if record.cursor <= synced {
                return Ok(Some(record));
            }
            self.pending = Some(record);
            return Ok(None);
        }
    }
}
