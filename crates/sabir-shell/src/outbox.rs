//! The log of one session, on this machine's disk.
//!
//! ```text
//!  outbox/SESSION/00000001.seg   meta │ message 1 │ message 2 │ … │ end
//!                 00000002.seg   meta │ message 18 │ …                     a later shell: the next epoch
//! ```
//!
//! It is a journal (`sabir-store`). Each opening begins with a meta record, which is synced before anybody is told of the
//! opening: so no two openings have the same epoch, whatever is killed when. A message's number is in its JSON; numbers have no
//! gap over all openings. What there is to know at an opening, the files say; nothing is written down beside them.
//!
//! A damaged outbox is repaired when it is opened. Nothing is overwritten: the messages that can be read are appended once more,
//! between two meta records, with an error message in place of each one that is lost. From then on readers begin there.

mod pages;
mod recover;
mod repair;

use std::fs;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sabir_protocol::envelope::read::{self, Message};
use sabir_protocol::{MAX_MESSAGE, SessionId};
use sabir_store::{Cursor, Home, Journal, Kind, Options, RunFolder, Trouble, Why};
use serde::{Deserialize, Serialize};

use crate::Failure;
pub use pages::{Page, PageReader};
pub use recover::{LastRun, OutboxState};
use repair::Rebuild;
pub use repair::Repair;
pub(crate) use repair::runner_message;

/// The first record of each opening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    /// `sabir.outbox/1`.
    schema: String,
    session: SessionId,
    /// The id of this log.
    writer: String,
    /// The number before that of the first message.
    after: u64,
    /// All that was in the log when this was written had been taken by everybody. Written at a good end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    delivered: bool,
    /// Messages of this opening were validated when they were appended. Earlier versions did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    checked: bool,
    /// The messages that follow, or that came before, are a copy of all that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild: Option<Rebuild>,
}

const SCHEMA: &str = "sabir.outbox/1";

/// Where a new log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Its first epoch.
    pub epoch: u32,
    /// The number before that of its first message.
    pub after: u64,
}

impl Position {
    /// The beginning, for one who knows of nothing before.
    pub const FIRST: Self = Self { epoch: 1, after: 0 };
}

/// The log, open for writing. Only one process at a time can have it.
#[derive(Debug)]
pub struct Outbox {
    journal: Journal,
    folder: RunFolder,
    meta: Meta,
    recovered: OutboxState,
    /// The number of the last message.
    last: AtomicU64,
    /// The record that this opening began with; messages follow it one after another.
    epoch_start: Cursor,
    /// The record before the first message that counts.
    origin: Cursor,
    /// What was repaired when it was opened.
    repair: Repair,
    /// Where some messages are, so that a reader need not look from the beginning.
    index: Mutex<Vec<IndexEntry>>,
}

/// The record before a message.
#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    message: u64,
    before: Cursor,
}

/// There is a entry for every so many messages.
const INDEX_INTERVAL: u64 = 1024;

impl Outbox {
    /// Opens the log of a session for its next epoch; `None` when there is none.
    pub fn open(home: &Home, session: &SessionId) -> Result<Option<Self>, Failure> {
        let folder = home.outbox(session.as_str())?;
        if !folder.exists() {
            return Ok(None);
        }
        if !folder.is_live() && !recover::has_records(&folder)? {
            // It was killed before its first record was synced, so nobody has heard of it and nothing is lost.
            let failed = |error| Failure::delivery(format!("can't clear {}: {error}", folder.path().display()));
            for number in folder.segments().map_err(failed)? {
                fs::remove_file(folder.segment(number)).map_err(failed)?;
            }
            return Ok(None);
        }
        let journal = open_journal(&folder, Cursor::START)?;
        let mut log = recover::scan(&folder, session)?;
        let mut repair = Repair::default();
        if log.is_damaged {
            repair = repair::rebuild(&journal, &folder, &log)?;
            log = recover::scan(&folder, session)?;
        }
        // Who had told everybody everything can have lost no more than its end.
        repair.torn_bytes = if log.state.delivered { 0 } else { journal.left().cut };
        let outbox = Self::start_epoch(journal, folder, log, repair)?;
        if outbox.repair.torn_bytes > 0 {
            let text = format!(
                "the outbox ends in {} bytes that can't be read: message {} and some after it may be lost",
                outbox.repair.torn_bytes,
                outbox.last() + 1,
            );
            // What fails now, fails again when the next message is appended.
            let _ = outbox.append_message(&runner_message(session.as_str(), outbox.last() + 1, "error", None, &text));
        }
        Ok(Some(outbox))
    }

    /// Reads the log of a session and says what a repair would do, and how many messages there are then. Changes nothing; `None` when
    /// there is no log.
    pub fn check(home: &Home, session: &SessionId) -> Result<Option<(Repair, u64)>, Failure> {
        let folder = home.outbox(session.as_str())?;
        if !folder.exists() || !recover::has_records(&folder)? {
            return Ok(None);
        }
        let log = recover::scan(&folder, session)?;
        let mut repair = Repair::default();
        if log.is_damaged {
            repair = recover::replay(&folder, &log, u32::MAX, &mut |_| Ok(()))?;
        }
        repair.torn_bytes = if log.state.delivered { 0 } else { log.torn_bytes };
        Ok(Some((repair, log.state.last - log.meta.after)))
    }

    /// Begins the log of a session.
    pub fn create(home: &Home, session: &SessionId, writer: String, position: Position) -> Result<Self, Failure> {
        let folder = home.outbox(session.as_str())?;
        let journal = open_journal(&folder, Cursor { epoch: position.epoch.saturating_sub(1), seq: position.after })?;
        let meta = Meta {
            schema: SCHEMA.to_owned(),
            session: session.clone(),
            writer,
            after: position.after,
            delivered: false,
            checked: true,
            rebuild: None,
        };
        // A log can't be taken up without its first record, so there are two of it.
        put_meta(&journal, &meta)?;
        let state = OutboxState { last: position.after, ..OutboxState::default() };
        let log =
            recover::ScannedOutbox { meta, state, index: Vec::new(), origin: Cursor::START, is_damaged: false, torn_bytes: 0 };
        Self::start_epoch(journal, folder, log, Repair::default())
    }

    /// A new id of a log.
    pub fn new_writer() -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn start_epoch(journal: Journal, folder: RunFolder, log: recover::ScannedOutbox, repair: Repair) -> Result<Self, Failure> {
        let recover::ScannedOutbox { meta, state, index, origin, .. } = log;
        let meta = Meta { delivered: false, checked: true, rebuild: None, ..meta };
        let epoch_start = put_meta(&journal, &meta)?;
        let (last, index) = (AtomicU64::new(state.last), Mutex::new(index));
        Ok(Self { journal, folder, meta, recovered: state, last, epoch_start, origin, repair, index })
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.meta.session
    }

    /// The id of this log.
    pub fn writer(&self) -> &str {
        &self.meta.writer
    }

    /// Which opening of the log it is.
    pub fn epoch(&self) -> u32 {
        self.journal.epoch()
    }

    /// The number before that of the first message.
    pub fn after(&self) -> u64 {
        self.meta.after
    }

    /// What was in the log when it was opened.
    pub fn recovered(&self) -> &OutboxState {
        &self.recovered
    }

    /// What was damaged when the log was opened, and is repaired.
    pub fn repair(&self) -> &Repair {
        &self.repair
    }

    /// The number of the last message.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Appends messages: is_complete lines, each with its line feed, whose numbers go on from the last. Nothing waits for the disk.
    ///
    /// A hub refuses a line that is no message of this log, and everything after it. So such a line is left out, and an error
    /// message has its number.
    pub fn append(&self, lines: &[u8]) {
        let mut in_invalid = false;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if self.append_line(line, &mut in_invalid).is_none() {
                return;
            }
        }
    }

    /// Appends one line; `None` when the disk takes no more. `in_invalid`: the line before was no message.
    fn append_line(&self, line: &[u8], in_invalid: &mut bool) -> Option<()> {
        let (session, next) = (self.meta.session.as_str(), self.last() + 1);
        match read::check(line, session) {
            Ok(seq) if seq >= next => {
                for missing in next..seq {
                    self.append_message(&runner_message(
                        session,
                        missing,
                        "error",
                        None,
                        "a message that is not valid was left out",
                    ))?;
                }
                *in_invalid = false;
                if line.len() <= MAX_MESSAGE {
                    return self.append_message(line);
                }
                let text = format!("a message of {} bytes is too long to be sent and was left out", line.len());
                let command = serde_json::from_slice::<Message<'_>>(line).ok().and_then(|message| message.order());
                self.append_message(&runner_message(session, seq, "warn", command, &text))
            }
            // It is there already.
            Ok(_) => Some(()),
            // Pieces of one message that is broken follow each other.
            Err(_) if *in_invalid => Some(()),
            Err(reason) => {
                *in_invalid = true;
                self.append_message(&runner_message(
                    session,
                    next,
                    "error",
                    None,
                    &format!("a message that is not valid was left out: {reason}"),
                ))
            }
        }
    }

    /// Appends the message with the next number; `None` when the disk takes no more.
    fn append_message(&self, line: &[u8]) -> Option<()> {
        let cursor = self.journal.append(Kind::Message, millis(), |out| out.extend_from_slice(line))?;
        let message = self.last.load(Ordering::Acquire) + 1;
        if message.is_multiple_of(INDEX_INTERVAL) {
            let before = Cursor { seq: cursor.seq - 1, ..cursor };
            self.index.lock().unwrap_or_else(PoisonError::into_inner).push(IndexEntry { message, before });
        }
        self.last.store(message, Ordering::Release);
        Some(())
    }

    /// Waits until all that was appended is on the disk.
    pub fn sync(&self) -> Result<(), Failure> {
        self.journal.sync().map(drop).map_err(Failure::from)
    }

    /// Notes that everybody has taken all of it.
    pub fn mark_delivered(&self) -> Result<(), Failure> {
        put_meta(&self.journal, &Meta { delivered: true, ..self.meta.clone() }).map(drop)
    }

    /// Why nothing is kept any more; `None` while all is well.
    pub fn write_error(&self) -> Option<Failure> {
        self.journal.trouble().map(Failure::from)
    }

    /// The journal, for one who waits for room in it.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Up to where the records are on the disk.
    pub fn synced(&self) -> Cursor {
        self.journal.synced()
    }

    /// The number of the last message that anybody can be told of: it is on the disk, or, while the disk takes what it is
    /// given, will be.
    pub fn last_durable(&self) -> u64 {
        if self.write_error().is_none() {
            return self.last();
        }
        let synced = self.synced();
        let messages = if synced.epoch == self.epoch_start.epoch { synced.seq.saturating_sub(self.epoch_start.seq) } else { 0 };
        self.last().min(self.recovered.last + messages)
    }

    /// Waits until more than that is on the disk. Comes back at once when nothing is written any more.
    pub async fn synced_after(&self, after: Cursor) -> Cursor {
        poll_fn(|context| self.journal.poll_synced(after, context)).await
    }

    /// A message at or before that one, and the record before it.
    fn locate(&self, message: u64) -> (u64, Cursor) {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let count = index.partition_point(|entry| entry.message <= message);
        let entry = count.checked_sub(1).and_then(|at| index.get(at));
        entry.map_or((self.meta.after + 1, self.origin), |entry| (entry.message, entry.before))
    }
}

/// Appends what is known of an opening, and waits until it is on the disk.
fn put_meta(journal: &Journal, meta: &Meta) -> Result<Cursor, Failure> {
    journal.append(Kind::Meta, millis(), |out| serde_json::to_writer(out, meta).unwrap_or_default());
    journal.sync().map_err(Failure::from)
}

fn open_journal(folder: &RunFolder, begin: Cursor) -> Result<Journal, Failure> {
    Journal::open_in(folder, begin, Options::default()).map_err(|trouble: Trouble| match trouble.why {
        Why::Live => Failure::usage(format!("another shell runs the session {} on this machine", folder.id()))
            .hint("a session has one shell at a time; --session names another"),
        _ => trouble.into(),
    })
}

fn millis() -> u64 {
    u64::try_from(crate::now().as_millis()).unwrap_or_default()
}
