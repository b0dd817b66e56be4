//! The outbox: the durable log of one session on this machine.
//!
//! ```text
//!  outbox/SESSION/00000001.seg   meta │ message 1 │ message 2 │ … │ end
//!                 00000002.seg   meta │ message 18 │ …                     a later runner: the next epoch
//! ```
//!
//! It is a journal (`sabir-store`). Each epoch begins with a meta record that is synced before the epoch is announced, so no
//! two runners share an epoch, whatever is killed when. Every message contains its sequence number, without gaps across epochs.
//! All state is derived from these files.
//!
//! A damaged outbox is repaired when it is opened. Nothing is overwritten: the readable messages are appended again between two
//! meta records, with an error message in place of each lost one, and readers start there.

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

use crate::error::{RunnerError, Source};
pub use pages::{Page, PageReader};
pub use recover::{LastRun, OutboxState};
use repair::Rebuild;
pub use repair::Repair;
pub(crate) use repair::runner_message;

/// First record of each epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    /// `sabir.outbox/1`.
    schema: String,
    session: SessionId,
    /// Id of the outbox.
    writer: String,
    /// Sequence number before the first message.
    after: u64,
    /// Every target had taken everything before this record. Written on a clean exit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    delivered: bool,
    /// Messages of this epoch were validated when appended. Earlier versions did not validate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    checked: bool,
    /// Marks a rebuild: copies of all readable messages follow or precede.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild: Option<Rebuild>,
}

const SCHEMA: &str = "sabir.outbox/1";

/// Start of a new outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Its first epoch.
    pub epoch: u32,
    /// Sequence number before its first message.
    pub after: u64,
}

impl Position {
    /// Start of a session without history.
    pub const FIRST: Self = Self { epoch: 1, after: 0 };
}

/// An outbox, opened for writing by one process at a time.
#[derive(Debug)]
pub struct Outbox {
    journal: Journal,
    folder: RunFolder,
    meta: Meta,
    recovered: OutboxState,
    /// Sequence number of the last message.
    last: AtomicU64,
    /// Meta record of this epoch, followed only by messages.
    epoch_start: Cursor,
    /// Record before the first valid message.
    origin: Cursor,
    /// Repairs made when it was opened.
    repair: Repair,
    /// Sparse index, so that readers need not scan from the beginning.
    index: Mutex<Vec<IndexEntry>>,
}

/// Position of a message.
#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    message: u64,
    before: Cursor,
}

/// Messages per index entry.
const INDEX_INTERVAL: u64 = 1024;

impl Outbox {
    /// Opens the outbox of a session for its next epoch; `None` if it does not exist.
    pub fn open(home: &Home, session: &SessionId) -> Result<Option<Self>, RunnerError> {
        let folder = home.outbox(session.as_str())?;
        if !folder.exists() {
            return Ok(None);
        }
        if !folder.is_live() && !recover::has_records(&folder)? {
            // The creator was killed before its first record was synced, so no target knows of it.
            let failed =
                |error: std::io::Error| RunnerError::OutboxClear { path: folder.path().to_owned(), source: Source::new(error) };
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
        // After full delivery, only the end record can be torn.
        repair.torn_bytes = if log.state.delivered { 0 } else { journal.left().cut };
        let outbox = Self::start_epoch(journal, folder, log, repair)?;
        if outbox.repair.torn_bytes > 0 {
            let text = format!(
                "the outbox ends in {} bytes that can't be read: message {} and some after it may be lost",
                outbox.repair.torn_bytes,
                outbox.last() + 1,
            );
            // A failing disk is reported by the next append.
            let _ = outbox.append_message(&runner_message(session.as_str(), outbox.last() + 1, "error", None, &text));
        }
        Ok(Some(outbox))
    }

    /// Scans an outbox without changing it. Returns the repair it needs and its number of messages then; `None` if it does not
    /// exist.
    pub fn check(home: &Home, session: &SessionId) -> Result<Option<(Repair, u64)>, RunnerError> {
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

    /// Creates an outbox.
    pub fn create(home: &Home, session: &SessionId, writer: String, position: Position) -> Result<Self, RunnerError> {
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
        // Written twice: an outbox without its first record cannot be opened.
        put_meta(&journal, &meta)?;
        let state = OutboxState { last: position.after, ..OutboxState::default() };
        let log =
            recover::ScannedOutbox { meta, state, index: Vec::new(), origin: Cursor::START, is_damaged: false, torn_bytes: 0 };
        Self::start_epoch(journal, folder, log, Repair::default())
    }

    /// Generates an outbox id.
    pub fn new_writer() -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn start_epoch(
        journal: Journal,
        folder: RunFolder,
        log: recover::ScannedOutbox,
        repair: Repair,
    ) -> Result<Self, RunnerError> {
        let recover::ScannedOutbox { meta, state, index, origin, .. } = log;
        let meta = Meta { delivered: false, checked: true, rebuild: None, ..meta };
        let epoch_start = put_meta(&journal, &meta)?;
        let (last, index) = (AtomicU64::new(state.last), Mutex::new(index));
        Ok(Self { journal, folder, meta, recovered: state, last, epoch_start, origin, repair, index })
    }

    /// Session id.
    pub fn session(&self) -> &SessionId {
        &self.meta.session
    }

    /// Id of the outbox.
    pub fn writer(&self) -> &str {
        &self.meta.writer
    }

    /// Epoch of this opening.
    pub fn epoch(&self) -> u32 {
        self.journal.epoch()
    }

    /// Sequence number before the first message.
    pub fn after(&self) -> u64 {
        self.meta.after
    }

    /// State found when the outbox was opened.
    pub fn recovered(&self) -> &OutboxState {
        &self.recovered
    }

    /// Repairs made when the outbox was opened.
    pub fn repair(&self) -> &Repair {
        &self.repair
    }

    /// Sequence number of the last message.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Appends newline-terminated messages with consecutive sequence numbers, without waiting for the disk.
    ///
    /// Invalid lines are replaced by error messages, because a hub would refuse them and everything after them.
    pub fn append(&self, lines: &[u8]) {
        let mut in_invalid = false;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if self.append_line(line, &mut in_invalid).is_none() {
                return;
            }
        }
    }

    /// Appends one line; `None` if the disk failed. `in_invalid`: the previous line was invalid.
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
            // A duplicate.
            Ok(_) => Some(()),
            // Consecutive invalid lines are pieces of one message.
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

    /// Appends the message with the next sequence number; `None` if the disk failed.
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

    /// Waits until all appended messages are durable.
    pub fn sync(&self) -> Result<(), RunnerError> {
        self.journal.sync().map(drop).map_err(RunnerError::from)
    }

    /// Records that every target has taken everything.
    pub fn mark_delivered(&self) -> Result<(), RunnerError> {
        put_meta(&self.journal, &Meta { delivered: true, ..self.meta.clone() }).map(drop)
    }

    /// Error that ended writing.
    pub fn write_error(&self) -> Option<RunnerError> {
        self.journal.trouble().map(RunnerError::from)
    }

    /// The underlying journal, for backpressure.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Position up to which records are durable.
    pub fn synced(&self) -> Cursor {
        self.journal.synced()
    }

    /// Sequence number of the last message that may be announced: durable or, while the disk works, about to be.
    pub fn last_durable(&self) -> u64 {
        if self.write_error().is_none() {
            return self.last();
        }
        let synced = self.synced();
        let messages = if synced.epoch == self.epoch_start.epoch { synced.seq.saturating_sub(self.epoch_start.seq) } else { 0 };
        self.last().min(self.recovered.last + messages)
    }

    /// Waits until more is durable. Returns at once after a write error.
    pub async fn synced_after(&self, after: Cursor) -> Cursor {
        poll_fn(|context| self.journal.poll_synced(after, context)).await
    }

    /// An indexed message at or before `message`, and the record before it.
    fn locate(&self, message: u64) -> (u64, Cursor) {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let count = index.partition_point(|entry| entry.message <= message);
        let entry = count.checked_sub(1).and_then(|at| index.get(at));
        entry.map_or((self.meta.after + 1, self.origin), |entry| (entry.message, entry.before))
    }
}

/// Appends a meta record and waits until it is durable.
fn put_meta(journal: &Journal, meta: &Meta) -> Result<Cursor, RunnerError> {
    journal.append(Kind::Meta, millis(), |out| serde_json::to_writer(out, meta).unwrap_or_default());
    journal.sync().map_err(RunnerError::from)
}

fn open_journal(folder: &RunFolder, begin: Cursor) -> Result<Journal, RunnerError> {
    Journal::open_in(folder, begin, Options::default()).map_err(|trouble: Trouble| match trouble.why {
        Why::Live => RunnerError::SessionInUse(folder.id().to_owned()),
        _ => trouble.into(),
    })
}

fn millis() -> u64 {
    u64::try_from(crate::now().as_millis()).unwrap_or_default()
}
