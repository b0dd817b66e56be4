//! Writes the journal of a run.
//!
//! ```text
//!  append ──► [ queue: records as bytes ] ──swap──► [ the same, being written ] ──► segment ──► fdatasync ──► synced()
//!   caller's thread, no disk                         a thread of its own
//! ```
//!
//! Appending puts bytes into memory and never touches the disk. The thread writes and syncs what has come together: after
//! 100 records or 20 ms, whichever is first, and whatever came while the disk was busy. So one fdatasync covers many records,
//! raw lines and events alike.
//!
//! The queue is bounded in bytes. A caller that can wait elsewhere asks [`Journal::poll_room`] before it takes more; one that
//! does not is made to wait when four times as much is queued. A disk that takes nothing for half a minute, or fails, ends the
//! journal and not the run: the trouble is kept for the caller to tell, and later records are dropped.

mod writer;

use std::fs::{File, TryLockError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use sabir_core::line::{RawLine, Source};

use crate::cursor::Cursor;
use crate::layout::{Home, RunFolder};
use crate::meta::Meta;
use crate::record::{self, Kind};
use crate::repair::{Left, repair};
use crate::trouble::{Trouble, Why};
use writer::Writer;

/// How a journal is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A segment that has this many bytes is followed by another.
    pub segment_bytes: u64,
    /// So many records are not kept waiting.
    pub group_records: usize,
    /// No record waits longer than this.
    pub group_time: Duration,
    /// So many bytes may wait in memory before [`Journal::poll_room`] says that there is no room.
    pub queue_bytes: usize,
    /// A disk that takes nothing for this long has failed.
    pub stall: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            group_records: 100,
            group_time: Duration::from_millis(20),
            queue_bytes: 32 << 20,
            stall: Duration::from_secs(30),
        }
    }
}

/// The journal of a run, open for writing. Only one process at a time can have it.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    left: Left,
    epoch: u32,
    options: Options,
}

#[derive(Debug)]
struct Shared {
    seed: u32,
    options: Options,
    state: Mutex<State>,
    /// Something is to be written.
    work: Condvar,
    /// Something was written, or never will be.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Vec<u8>,
    /// Records in the queue.
    count: usize,
    /// Where in the queue the result begins.
    result_at: Option<usize>,
    /// Bytes that the thread is writing.
    writing: usize,
    last: Cursor,
    synced: Cursor,
    /// Somebody waits for the disk.
    urgent: bool,
    finishing: bool,
    too_large: u64,
    trouble: Option<Trouble>,
    wakers: Vec<Waker>,
    /// Since when the thread has been busy with the disk.
    busy_since: Option<Instant>,
}

impl State {
    fn waiting(&self) -> usize {
        self.queue.len() + self.writing
    }
}

impl Journal {
    /// Creates the journal of a new run. An id that the journal has a run of is [refused](Why::Used).
    pub fn create(home: &Home, run_id: &str) -> Result<Self, Trouble> {
        let folder = home.run(run_id)?;
        let lock = lock(&folder)?;
        refuse_used(&folder)?;
        Self::open_locked(&folder, lock, Cursor::START, Options::default())
    }

    /// Checks that [`Journal::create`] would take the id, without writing anything.
    pub fn check_new(home: &Home, run_id: &str) -> Result<(), Trouble> {
        let folder = home.run(run_id)?;
        if folder.is_live() {
            return Err(live(&folder));
        }
        refuse_used(&folder)
    }

    /// Opens the journal of a run for writing: a new one, or the next epoch of one that is there, after its torn tail was cut
    /// off. Nothing is synced yet, so this is quick.
    pub fn open(home: &Home, run_id: &str) -> Result<Self, Trouble> {
        Self::open_with(home, run_id, Options::default())
    }

    /// The same with options of its own.
    pub fn open_with(home: &Home, run_id: &str, options: Options) -> Result<Self, Trouble> {
        Self::open_in(&home.run(run_id)?, Cursor::START, options)
    }

    /// The same in any folder. A journal that is new begins after the given place.
    pub fn open_in(folder: &RunFolder, begin: Cursor, options: Options) -> Result<Self, Trouble> {
        let lock = lock(folder)?;
        Self::open_locked(folder, lock, begin, options)
    }

    fn open_locked(folder: &RunFolder, lock: File, begin: Cursor, options: Options) -> Result<Self, Trouble> {
        let left = repair(folder)?;
        let before = if left.segment == 0 { begin } else { left.last };
        let epoch = before.epoch.saturating_add(1);
        let last = Cursor { epoch, seq: before.seq };
        let state = State { last, synced: last, ..State::default() };
        let shared = Arc::new(Shared {
            seed: record::seed(folder.id()),
            options,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let failed =
            |error: &std::io::Error| Trouble::io(format_args!("can't write the journal in {}", folder.path().display()), error);
        let writer =
            Writer::create(folder.clone(), lock, options.segment_bytes, left.segment, last).map_err(|error| failed(&error))?;
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || writer.run(&shared)
        });
        let thread = thread.map_err(|error| failed(&error))?;
        Ok(Self { shared, thread: Some(thread), left, epoch, options })
    }

    /// Which opening of this run's journal it is, from 1.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// What an earlier opening left.
    pub fn left(&self) -> Left {
        self.left
    }

    /// Appends what is known at the beginning.
    pub fn meta(&self, meta: &Meta) {
        // A meta is strings; those can always be written as JSON.
        self.append(Kind::Meta, now(), |out| serde_json::to_writer(out, meta).unwrap_or_default());
    }

    /// Appends a line that the agent printed, and when it was read, in milliseconds since 1970.
    pub fn raw_line(&self, line: &RawLine<'_>, source: Source, at: u64) {
        self.append(Kind::Raw, at, |out| record::encode_raw_line(line, source, out));
    }

    /// Appends an event, which is written as JSON.
    pub fn event(&self, json: impl FnOnce(&mut Vec<u8>)) {
        self.append(Kind::Event, now(), json);
    }

    /// Appends the session result.
    pub fn result(&self, result: &impl serde::Serialize) {
        // What can't be written as JSON is not what was asked for; an empty record says so.
        self.append(Kind::Result, now(), |out| serde_json::to_writer(out, result).unwrap_or_default());
    }

    /// Appends a record whose payload is written in place. Its cursor; `None` when it is dropped, because it is too large or
    /// the journal has [failed](Journal::trouble).
    pub fn append(&self, kind: Kind, at: u64, payload: impl FnOnce(&mut Vec<u8>)) -> Option<Cursor> {
        let mut state = self.shared.lock();
        if state.waiting() >= self.options.queue_bytes.saturating_mul(4) {
            state = self.wait_until(state, |state| state.waiting() < self.options.queue_bytes.saturating_mul(4));
        }
        if state.trouble.is_some() {
            return None;
        }
        let cursor = Cursor { seq: state.last.seq + 1, ..state.last };
        let start = state.queue.len();
        if !record::encode(&mut state.queue, self.shared.seed, kind, cursor, at, payload) {
            state.too_large += 1;
            return None;
        }
        state.last = cursor;
        state.count += 1;
        if kind == Kind::Result {
            state.result_at = Some(start);
        }
        // The thread waits for the first record, and then for as many as make a group.
        if state.count == 1 || state.count == self.options.group_records {
            self.shared.work.notify_one();
        }
        Some(cursor)
    }

    /// Ready when more can be taken without memory growing beyond the bound, or when nothing is written any more.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.trouble.is_some() || state.waiting() < self.options.queue_bytes {
            return Poll::Ready(());
        }
        if state.busy_since.is_some_and(|since| since.elapsed() >= self.options.stall) {
            self.shared.fail(&mut state, Trouble::stalled());
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Up to where everything is on the disk: what may be told to others.
    pub fn synced(&self) -> Cursor {
        self.shared.lock().synced
    }

    /// Ready when more than that is on the disk, with how much, or when nothing is written any more. For those who send on what
    /// others append.
    pub fn poll_synced(&self, after: Cursor, context: &mut Context<'_>) -> Poll<Cursor> {
        let mut state = self.shared.lock();
        if state.synced > after || state.trouble.is_some() {
            return Poll::Ready(state.synced);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Why nothing is written any more; `None` while all is well.
    pub fn trouble(&self) -> Option<Trouble> {
        self.shared.lock().trouble.clone()
    }

    /// Waits until all that was appended is on the disk. The cursor of the last record.
    pub fn sync(&self) -> Result<Cursor, Trouble> {
        let mut state = self.shared.lock();
        let last = state.last;
        state.urgent = true;
        self.shared.work.notify_one();
        let state = self.wait_until(state, |state| state.synced >= last);
        state.trouble.clone().map_or(Ok(last), Err)
    }

    /// Says that nothing more comes, and waits until all of it is on the disk.
    pub fn finish(mut self) -> Result<(), Trouble> {
        self.close();
        self.trouble().map_or(Ok(()), Err)
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let mut state = self.shared.lock();
        state.finishing = true;
        self.shared.work.notify_one();
        let state = self.wait_until(state, |state| !state.finishing);
        let stalled = state.trouble.as_ref().is_some_and(|trouble| trouble.why == Why::Stalled);
        drop(state);
        // A thread that a dead disk holds can't be waited for.
        if !stalled {
            let _ = thread.join();
        }
    }

    /// Waits for the thread, as long as the disk makes progress.
    fn wait_until<'a>(&self, mut state: MutexGuard<'a, State>, is_done: impl Fn(&State) -> bool) -> MutexGuard<'a, State>
    where
        Self: 'a,
    {
        while state.trouble.is_none() && !is_done(&state) {
            if state.busy_since.is_some_and(|since| since.elapsed() >= self.options.stall) {
                self.shared.fail(&mut state, Trouble::stalled());
                break;
            }
            let limit = self.options.stall.min(Duration::from_secs(1));
            state = self.shared.done.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl Drop for Journal {
    /// The same as [`Journal::finish`], with nobody to tell.
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is written from now on.
    fn fail(&self, state: &mut State, trouble: Trouble) {
        state.trouble.get_or_insert(trouble);
        state.queue = Vec::new();
        state.count = 0;
        self.tell(state);
    }

    /// Wakes all who wait for the disk.
    fn tell(&self, state: &mut State) {
        self.done.notify_all();
        std::mem::take(&mut state.wakers).into_iter().for_each(Waker::wake);
    }
}

/// Milliseconds since 1970; 0 when the clock is before that.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

/// How often the lock is tried for: a reader that looks whether the run is live holds it for a moment.
const TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(2);

/// Takes the lock of a run, whose folder is made if it is not there.
fn lock(folder: &RunFolder) -> Result<File, Trouble> {
    let failed =
        |error: &std::io::Error| Trouble::io(format_args!("can't write the journal in {}", folder.path().display()), error);
    for _ in 0..TRIES {
        folder.create().map_err(|error| failed(&error))?;
        let file = match folder.lock_file() {
            // The folder was pruned between the two.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            file => file.map_err(|error| failed(&error))?,
        };
        match file.try_lock() {
            Ok(()) if folder.has_lock_file() => return Ok(file),
            // The same: what was locked is gone.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN),
            // A file system without locks: the journal works, and nobody can see that it is live.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
    }
    Err(live(folder))
}

const ANOTHER_ID: &str = "give the new run another id, or none";

fn live(folder: &RunFolder) -> Trouble {
    Trouble::new(Why::Live, format!("a run with the id {} is going on", folder.id()), ANOTHER_ID)
}

fn refuse_used(folder: &RunFolder) -> Result<(), Trouble> {
    let failed = |error: &std::io::Error| Trouble::io(format_args!("can't read the journal of the run {}", folder.id()), error);
    if folder.has_records().map_err(|error| failed(&error))? {
        let what = format!("the journal has a run with the id {} already", folder.id());
        return Err(Trouble::new(Why::Used, what, ANOTHER_ID));
    }
    Ok(())
}
