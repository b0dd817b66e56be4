//! Reads durable messages for delivery.

use std::sync::Arc;

use sabir_protocol::envelope::read;
use sabir_store::cursor::Kept;
use sabir_store::{Cursor, Kind, Reader};

use super::Outbox;
use crate::error::{RunnerError, Source};

/// Consecutive messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Sequence number of the first.
    pub first: u64,
    /// Number of messages.
    pub count: u32,
    /// The messages, newline-terminated.
    pub lines: Vec<u8>,
}

impl Page {
    /// Sequence number of the last.
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }
}

/// Sequential reader of an outbox. Buffers at most one message beyond a page.
#[derive(Debug)]
pub struct PageReader {
    outbox: Arc<Outbox>,
    reader: Option<Reader>,
    /// Sequence number of the next message.
    next: u64,
    /// A message that was read but did not fit into the last page.
    pending: Option<Kept>,
    /// Record number before the next record; `None` at the beginning.
    before: Option<u64>,
    /// Records are missing before the next message.
    has_gap: bool,
}

impl PageReader {
    /// A reader without a position.
    pub fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, reader: None, next: 0, pending: None, before: None, has_gap: false }
    }

    /// Reads messages from `first` on, up to the given limits (a single larger message is returned alone). `None` if none is
    /// durable yet.
    pub fn read_page(&mut self, first: u64, messages: u32, bytes: usize) -> Result<Option<Page>, RunnerError> {
        if first <= self.outbox.after() {
            return Err(RunnerError::BeforeOutbox { message: first, after: self.outbox.after() });
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
                // Return the messages before the damage; the next call reports it.
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

    fn seek(&mut self, first: u64) -> Result<(), RunnerError> {
        let (message, before) = self.outbox.locate(first);
        self.pending = None;
        self.next = message;
        self.before = (before != Cursor::START).then_some(before.seq);
        self.has_gap = false;
        let folder = self.outbox.folder.clone();
        self.reader = Some(if before == Cursor::START { Reader::of(folder)? } else { Reader::resume_in(folder, before)? });
        Ok(())
    }

    /// The next durable message.
    fn next_message(&mut self, synced: Cursor) -> Result<Option<Kept>, RunnerError> {
        if let Some(pending) = self.pending.take() {
            if pending.cursor <= synced {
                return Ok(Some(pending));
            }
            self.pending = Some(pending);
            return Ok(None);
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        loop {
            let next = reader.next().map_err(|error| RunnerError::OutboxRead(Source::new(error)))?;
            let Some(record) = next else { return Ok(None) };
            self.has_gap |= self.before.is_some_and(|before| record.cursor.seq != before + 1);
            self.before = Some(record.cursor.seq);
            if record.kind != Kind::Message {
                continue;
            }
            // Messages are numbered by counting, so check the number after a gap.
            if self.has_gap && read::check(record.payload, self.outbox.session().as_str()) != Ok(self.next) {
                return Err(RunnerError::OutboxGap(self.next));
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
