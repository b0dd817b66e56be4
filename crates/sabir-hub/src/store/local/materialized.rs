//! Messages of one session, derived from its events into an unlinked temporary file.
//!
//! ```text
//!   events ──► Envelope ──► messages ──► file        offset of every 16th message
//!          └─► OverviewFold
//! ```
//!
//! A session may be larger than memory, so only the offsets stay in memory. The file has no name, and the system frees it when
//! it is closed.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use sabir_core::event::Event;
use sabir_core::export::{Exporter as _, Options};
use sabir_core::fold::{Overview, OverviewFold};
use sabir_protocol::envelope::Envelope;
use sabir_store::account::Session;
use sabir_store::index::Log;
use sabir_store::whole::follow::Follow;

use crate::lock;
use crate::store::{ReadLimit, SessionHead, StoredMessage};

/// Messages between two offsets in the index.
const OFFSET_INTERVAL: u64 = 16;
/// Size of the write buffer.
const WRITE_BYTES: usize = 256 << 10;
/// Size of one read.
const READ_BYTES: usize = 256 << 10;

/// The messages of one session.
#[derive(Debug)]
pub(super) struct MaterializedLog {
    file: Mutex<File>,
    index: Mutex<Index>,
    /// Notified when the index changes.
    grown: Condvar,
    producer: Mutex<Producer>,
    touched: Mutex<Instant>,
    /// Whether the session may continue.
    live: AtomicBool,
}

#[derive(Debug, Default)]
struct Index {
    /// Offsets of every `OFFSET_INTERVAL`th message, starting with the first.
    offsets: Vec<u64>,
    last: u64,
    bytes: u64,
    /// Whether the messages that existed at the start are all in the file.
    caught_up: bool,
    /// Overview as of the last fill.
    overview: Option<Overview>,
    /// Error of a fill.
    error: Option<String>,
}

/// Derives messages from the events of a session.
#[derive(Debug)]
struct Producer {
    follow: Follow,
    options: Options,
    view: Envelope,
    fold: OverviewFold,
    /// Whether the session had ended as of the last fill.
    ended: bool,
}

impl MaterializedLog {
    /// An empty log.
    pub(super) fn new(session: &Session, logs: &[Log], prompt: Option<String>) -> io::Result<Self> {
        let follow = Follow::new(session, logs)?;
        let options = Options { session_id: Some(session.id.clone()), events: true, prompt, ..Options::default() };
        let mut fold = OverviewFold::default();
        if let Some(prompt) = &options.prompt {
            fold.asks(prompt);
        }
        let view = Envelope::new(&options);
        Ok(Self {
            file: Mutex::new(tempfile::tempfile()?),
            index: Mutex::default(),
            grown: Condvar::new(),
            producer: Mutex::new(Producer { follow, options, view, fold, ended: false }),
            touched: Mutex::new(Instant::now()),
            live: AtomicBool::new(true),
        })
    }

    /// Appends the messages of new events, and returns whether there were any. `live`: the session may continue. `raise` is
    /// called whenever the head changes. Does nothing while another thread fills the log.
    pub(super) fn fill(&self, session: &Session, logs: &[Log], live: bool, raise: &dyn Fn(SessionHead)) -> bool {
        let Ok(mut producer) = self.producer.try_lock() else { return false };
        self.live.store(live, Ordering::Relaxed);
        let before = self.head();
        let filled = producer.produce(session, logs, live, &mut |lines| {
            self.append(lines)?;
            raise(self.head());
            Ok(())
        });
        let mut index = lock(&self.index);
        index.error = filled.err().map(|error| error.to_string()).or(index.error.take());
        index.overview = Some(producer.fold.overview());
        index.caught_up = true;
        drop(index);
        self.grown.notify_all();
        raise(self.head());
        self.head().last > before.last
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.file);
        file.seek(SeekFrom::End(0))?;
        file.write_all(lines)?;
        drop(file);
        let mut index = lock(&self.index);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if index.last.is_multiple_of(OFFSET_INTERVAL) {
                let offset = index.bytes;
                index.offsets.push(offset);
            }
            index.last += 1;
            index.bytes += line.len() as u64;
        }
        drop(index);
        self.grown.notify_all();
        Ok(())
    }

    /// Waits until there is a message above `after`, or the existing messages are complete, or `timeout` has passed.
    pub(super) fn wait(&self, after: Option<u64>, timeout: Duration) {
        let is_pending = |index: &mut Index| !index.caught_up && after.is_none_or(|after| index.last <= after);
        let _ = self.grown.wait_timeout_while(lock(&self.index), timeout, is_pending);
    }

    /// Progress of the log.
    pub(super) fn head(&self) -> SessionHead {
        let index = lock(&self.index);
        SessionHead { last: index.last, caught_up: index.caught_up, ..SessionHead::default() }
    }

    /// Returns whether the session could continue as of the last fill.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }

    /// Overview of the session; `None` before the first fill has ended.
    pub(super) fn overview(&self) -> Option<Overview> {
        lock(&self.index).overview.clone()
    }

    /// Records a use.
    pub(super) fn touch(&self) {
        *lock(&self.touched) = Instant::now();
    }

    /// Time of the last use.
    pub(super) fn touched(&self) -> Instant {
        *lock(&self.touched)
    }

    /// Messages numbered above `after`, up to `limit`.
    pub(super) fn read(&self, after: u64, limit: ReadLimit) -> io::Result<Vec<StoredMessage>> {
        let index = lock(&self.index);
        if let (Some(error), true) = (&index.error, after >= index.last) {
            return Err(io::Error::other(error.clone()));
        }
        if after >= index.last {
            return Ok(Vec::new());
        }
        let (last, end) = (index.last, index.bytes);
        let Some(mut offset) = usize::try_from(after / OFFSET_INTERVAL).ok().and_then(|at| index.offsets.get(at).copied()) else {
            return Ok(Vec::new());
        };
        drop(index);
        let mut seq = after / OFFSET_INTERVAL * OFFSET_INTERVAL;
        let (mut messages, mut bytes, mut rest) = (Vec::new(), 0, Vec::new());
        while offset < end && seq < last {
            let length = usize::try_from(end - offset).unwrap_or(READ_BYTES).min(READ_BYTES);
            let start = rest.len();
            rest.resize(start + length, 0);
            let mut file = lock(&self.file);
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(&mut rest[start..])?;
            drop(file);
            offset += length as u64;
            let chunk = Bytes::from(std::mem::take(&mut rest));
            let mut start = 0;
            while let Some(length) = chunk[start..].iter().position(|byte| *byte == b'\n') {
                seq += 1;
                let line = start..start + length;
                start += length + 1;
                if seq <= after {
                    continue;
                }
                if messages.len() >= limit.messages || bytes >= limit.bytes {
                    return Ok(messages);
                }
                bytes += length;
                messages.push(StoredMessage { seq, line: chunk.slice(line) });
            }
            rest = chunk[start..].to_vec();
        }
        Ok(messages)
    }
}

impl Producer {
    fn produce(
        &mut self,
        session: &Session,
        logs: &[Log],
        live: bool,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Self { follow, options, view, fold, ended } = self;
        let mut lines = Vec::new();
        let mut written = Ok(());
        let mut take = |event: &Event<'_>| {
            if written.is_err() {
                return;
            }
            if std::mem::take(ended) {
                // The session has continued, which is another run.
                *view = Envelope::new(&Options { after: view.seq(), prompt: None, ..options.clone() });
            }
            fold.event(event);
            view.event(event, &mut lines);
            if lines.len() >= WRITE_BYTES {
                written = write(&lines);
                lines.clear();
            }
        };
        follow.more(session, logs, &mut take)?;
        if !live {
            follow.end(&mut take)?;
        }
        written?;
        if !live && !std::mem::replace(ended, true) {
            view.end(&mut lines);
        }
        if lines.is_empty() { Ok(()) } else { write(&lines) }
    }
}
