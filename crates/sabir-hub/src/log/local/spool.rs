//! The messages of one session, made from its events, in a file that nobody else sees.
//!
//! ```text
//!   events ──► Envelope ──► lines ──► file        marks: where every 16th message begins
//!          └─► OverviewFold
//! ```
//!
//! A session may be larger than the memory, so what is kept of it there are the marks. The file has no name, and is gone
//! when nobody has it open.

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

use crate::lock::locked;
use crate::log::{Head, Limit, Stored};

/// How often a mark is kept.
const MARK: u64 = 16;
/// So much is gathered before it is written.
const GATHER: usize = 256 << 10;
/// So much is read at once.
const CHUNK: usize = 256 << 10;

/// The messages of one session.
#[derive(Debug)]
pub(super) struct Spool {
    file: Mutex<File>,
    index: Mutex<Index>,
    /// The index has changed.
    grown: Condvar,
    filler: Mutex<Filler>,
    touched: Mutex<Instant>,
    /// A run goes on, as far as is known.
    live: AtomicBool,
}

#[derive(Debug, Default)]
struct Index {
    /// Where every `MARK`th message begins, the first one included.
    marks: Vec<u64>,
    last: u64,
    bytes: u64,
    /// All that there was has been made messages of.
    whole: bool,
    /// What the session was when it was last looked at.
    overview: Option<Overview>,
    /// What went wrong.
    failed: Option<String>,
}

#[derive(Debug)]
struct Filler {
    follow: Follow,
    options: Options,
    view: Envelope,
    fold: OverviewFold,
    /// Nothing more was awaited when it was last looked at.
    ended: bool,
}

impl Spool {
    /// No message yet. The options say what messages tell of the session.
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
            filler: Mutex::new(Filler { follow, options, view, fold, ended: false }),
            touched: Mutex::new(Instant::now()),
            live: AtomicBool::new(true),
        })
    }

    /// Makes messages of what is new in the session's log, and tells whether there was anything. `live` says whether more
    /// is awaited; `tell` hears how far it is, as often as that changes. Who comes while another does it does nothing.
    pub(super) fn pump(&self, session: &Session, logs: &[Log], live: bool, tell: &dyn Fn(Head)) -> bool {
        let Ok(mut filler) = self.filler.try_lock() else { return false };
        self.live.store(live, Ordering::Relaxed);
        let before = self.head();
        let filled = filler.fill(session, logs, live, &mut |lines| {
            self.append(lines)?;
            tell(self.head());
            Ok(())
        });
        let mut index = locked(&self.index);
        index.failed = filled.err().map(|error| error.to_string()).or(index.failed.take());
        index.overview = Some(filler.fold.overview());
        index.whole = true;
        drop(index);
        self.grown.notify_all();
        tell(self.head());
        self.head().last > before.last
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut file = locked(&self.file);
        file.seek(SeekFrom::End(0))?;
        file.write_all(lines)?;
        drop(file);
        let mut index = locked(&self.index);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if index.last.is_multiple_of(MARK) {
                let at = index.bytes;
                index.marks.push(at);
            }
            index.last += 1;
            index.bytes += line.len() as u64;
        }
        drop(index);
        self.grown.notify_all();
        Ok(())
    }

    /// Waits until there is a message after a number, or else until all that there was has been made messages of; at most
    /// this long.
    pub(super) fn wait(&self, after: Option<u64>, limit: Duration) {
        let awaited = |index: &mut Index| !index.whole && after.is_none_or(|after| index.last <= after);
        let _ = self.grown.wait_timeout_while(locked(&self.index), limit, awaited);
    }

    /// How far it is.
    pub(super) fn head(&self) -> Head {
        let index = locked(&self.index);
        Head { last: index.last, whole: index.whole, ..Head::default() }
    }

    /// Whether it was live when it was last looked at.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }

    /// The session so far; `None` while it is read for the first time.
    pub(super) fn overview(&self) -> Option<Overview> {
        locked(&self.index).overview.clone()
    }

    /// Somebody wants it.
    pub(super) fn touch(&self) {
        *locked(&self.touched) = Instant::now();
    }

    /// When somebody last wanted it.
    pub(super) fn touched(&self) -> Instant {
        *locked(&self.touched)
    }

    /// Messages after a number.
    pub(super) fn read(&self, after: u64, limit: Limit) -> io::Result<Vec<Stored>> {
        let index = locked(&self.index);
        if let (Some(error), true) = (&index.failed, after >= index.last) {
            return Err(io::Error::other(error.clone()));
        }
        if after >= index.last {
            return Ok(Vec::new());
        }
        let (last, end) = (index.last, index.bytes);
        let Some(mut at) = usize::try_from(after / MARK).ok().and_then(|mark| index.marks.get(mark).copied()) else {
            return Ok(Vec::new());
        };
        drop(index);
        let mut seq = after / MARK * MARK;
        let (mut found, mut bytes, mut rest) = (Vec::new(), 0, Vec::new());
        while at < end && seq < last {
            let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let from = rest.len();
            rest.resize(from + wanted, 0);
            let mut file = locked(&self.file);
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut rest[from..])?;
            drop(file);
            at += wanted as u64;
            let whole = Bytes::from(std::mem::take(&mut rest));
            let mut start = 0;
            while let Some(length) = whole[start..].iter().position(|byte| *byte == b'\n') {
                seq += 1;
                let line = start..start + length;
                start += length + 1;
                if seq <= after {
                    continue;
                }
                if found.len() >= limit.messages || bytes >= limit.bytes {
                    return Ok(found);
                }
                bytes += length;
                found.push(Stored { seq, line: whole.slice(line) });
            }
            rest = whole[start..].to_vec();
        }
        Ok(found)
    }
}

impl Filler {
    fn fill(
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
                // It goes on after all, as another run of the session.
                *view = Envelope::new(&Options { after: view.seq(), prompt: None, ..options.clone() });
            }
            fold.event(event);
            view.event(event, &mut lines);
            if lines.len() >= GATHER {
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
