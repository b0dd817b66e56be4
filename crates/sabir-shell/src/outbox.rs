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

mod found;
mod pages;

use std::fs;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sabir_core::view::envelope::read::Message;
use sabir_protocol::{MAX_MESSAGE, SessionId};
use sabir_store::{Cursor, Home, Journal, Kind, Options, RunFolder, Trouble, Why};
use serde::{Deserialize, Serialize};

use crate::Failure;
pub use found::{Found, LastRun};
pub use pages::{Page, Pages};

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
}

const SCHEMA: &str = "sabir.outbox/1";

/// Where a new log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its first epoch.
    pub epoch: u32,
    /// The number before that of its first message.
    pub after: u64,
}

impl Place {
    /// The beginning, for one who knows of nothing before.
    pub const FIRST: Self = Self { epoch: 1, after: 0 };
}

/// The log, open for writing. Only one process at a time can have it.
#[derive(Debug)]
pub struct Outbox {
    journal: Journal,
    folder: RunFolder,
    meta: Meta,
    found: Found,
    /// The number of the last message.
    last: AtomicU64,
    /// The record that this opening began with; messages follow it one after another.
    begun: Cursor,
    /// Where some messages are, so that a reader need not look from the beginning.
    marks: Mutex<Vec<Mark>>,
}

/// The record before a message.
#[derive(Debug, Clone, Copy)]
struct Mark {
    message: u64,
    before: Cursor,
}

/// There is a mark for every so many messages.
const MARKED: u64 = 1024;

impl Outbox {
    /// Opens the log of a session for its next epoch; `None` when there is none.
    pub fn open(home: &Home, session: &SessionId) -> Result<Option<Self>, Failure> {
        let folder = home.outbox(session.as_str())?;
        if !folder.exists() {
            return Ok(None);
        }
        if !folder.is_live() && !found::begins(&folder)? {
            // It was killed before its first record was synced, so nobody has heard of it.
            let failed = |error| Failure::delivery(format!("can't clear {}: {error}", folder.path().display()));
            for number in folder.segments().map_err(failed)? {
                fs::remove_file(folder.segment(number)).map_err(failed)?;
            }
            return Ok(None);
        }
        let journal = journal(&folder, Cursor::START)?;
        let mut marks = Vec::new();
        let Some((meta, found)) = found::read(&folder, &mut marks)? else {
            return Err(Failure::delivery(format!("the log in {} is damaged: it has no beginning", folder.path().display())));
        };
        if meta.schema != SCHEMA || meta.session != *session {
            let what = format!("the log in {} is not that of the session {session}", folder.path().display());
            return Err(Failure::usage(what).hint("a newer version may have written it"));
        }
        Self::begin(journal, folder, meta, found, marks).map(Some)
    }

    /// Begins the log of a session.
    pub fn create(home: &Home, session: &SessionId, writer: String, place: Place) -> Result<Self, Failure> {
        let folder = home.outbox(session.as_str())?;
        let journal = journal(&folder, Cursor { epoch: place.epoch.saturating_sub(1), seq: place.after })?;
        let meta = Meta { schema: SCHEMA.to_owned(), session: session.clone(), writer, after: place.after, delivered: false };
        let found = Found { last: place.after, ..Found::default() };
        Self::begin(journal, folder, meta, found, Vec::new())
    }

    /// A new id of a log.
    pub fn new_writer() -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn begin(journal: Journal, folder: RunFolder, meta: Meta, found: Found, marks: Vec<Mark>) -> Result<Self, Failure> {
        let begun = put_meta(&journal, &Meta { delivered: false, ..meta.clone() })?;
        Ok(Self { journal, folder, last: AtomicU64::new(found.last), begun, meta, found, marks: Mutex::new(marks) })
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
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The number of the last message.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Appends messages: whole lines, each with its line feed, whose numbers go on from the last. Nothing waits for the disk.
    pub fn append(&self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let shorter = if line.len() > MAX_MESSAGE { left_out(line) } else { None };
            let line = shorter.as_deref().unwrap_or(line);
            let Some(cursor) = self.journal.append(Kind::Message, millis(), |out| out.extend_from_slice(line)) else {
                return;
            };
            let message = self.last.load(Ordering::Acquire) + 1;
            if message.is_multiple_of(MARKED) {
                let before = Cursor { seq: cursor.seq - 1, ..cursor };
                self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(Mark { message, before });
            }
            self.last.store(message, Ordering::Release);
        }
    }

    /// Waits until all that was appended is on the disk.
    pub fn sync(&self) -> Result<(), Failure> {
        self.journal.sync().map(drop).map_err(Failure::from)
    }

    /// Notes that everybody has taken all of it.
    pub fn delivered(&self) -> Result<(), Failure> {
        put_meta(&self.journal, &Meta { delivered: true, ..self.meta.clone() }).map(drop)
    }

    /// Why nothing is kept any more; `None` while all is well.
    pub fn trouble(&self) -> Option<Failure> {
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
    pub fn last_there(&self) -> u64 {
        if self.trouble().is_none() {
            return self.last();
        }
        let synced = self.synced();
        let messages = if synced.epoch == self.begun.epoch { synced.seq.saturating_sub(self.begun.seq) } else { 0 };
        self.last().min(self.found.last + messages)
    }

    /// Waits until more than that is on the disk. Comes back at once when nothing is written any more.
    pub async fn synced_after(&self, after: Cursor) -> Cursor {
        poll_fn(|context| self.journal.poll_synced(after, context)).await
    }

    /// A message at or before that one, and the record before it.
    fn before(&self, message: u64) -> (u64, Cursor) {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let count = marks.partition_point(|mark| mark.message <= message);
        let mark = count.checked_sub(1).and_then(|index| marks.get(index));
        mark.map_or((self.meta.after + 1, Cursor::START), |mark| (mark.message, mark.before))
    }
}

/// Appends what is known of an opening, and waits until it is on the disk.
fn put_meta(journal: &Journal, meta: &Meta) -> Result<Cursor, Failure> {
    journal.append(Kind::Meta, millis(), |out| serde_json::to_writer(out, meta).unwrap_or_default());
    journal.sync().map_err(Failure::from)
}

fn journal(folder: &RunFolder, begin: Cursor) -> Result<Journal, Failure> {
    Journal::open_in(folder, begin, Options::default()).map_err(|trouble: Trouble| match trouble.why {
        Why::Live => Failure::usage(format!("another shell runs the session {} on this machine", folder.id()))
            .hint("a session has one shell at a time; --session names another"),
        _ => trouble.into(),
    })
}

/// What stands in the log for a message that no hub would take.
fn left_out(line: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(line).ok()?;
    let message: Message<'_> = serde_json::from_str(text).ok()?;
    let words = format!("a message of {} bytes is too long to be sent and was left out", line.len());
    let short = serde_json::json!({
        "id": uuid::Uuid::new_v4().to_string(),
        "sessionId": message.session_id,
        "ts": message.ts,
        "type": "log",
        "level": "warn",
        "origin": "runner",
        "seq": message.seq,
        "payload": { "text": words, "meta": { "role": "shell", "order": message.order() } },
    });
    serde_json::to_vec(&short).ok()
}

fn millis() -> u64 {
    u64::try_from(crate::now().as_millis()).unwrap_or_default()
}
