//! Sessions that something happens in: their last messages, and what they are in short.
//!
//! ```text
//!   ingest ──► recent (a few messages) ──► watchers, who else read the log
//!          └─► fold, behind: reads like a watcher, and writes the overview to the log now and then
//! ```
//!
//! All of it can be made anew from the log. What is kept for a session does not grow with it, and what is kept for all of them
//! has a limit: beyond it, the session that was quiet for longest lets go of its last messages, and of an event that it has
//! only a part of.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use sabir_core::fold::Overview;
use sabir_core::view::envelope::overview::LogOverview;
use sabir_protocol::SessionId;

use crate::error::StoreError;
use crate::lock::locked;
use crate::metrics::Counts;
use crate::store::{ReadLimit, SessionRecord, Store, StoredMessage};

/// So much is kept of a session for those who watch it live.
const RECENT: ReadLimit = ReadLimit { messages: 256, bytes: 128 << 10 };
/// So much is read at once by a fold.
const PAGE: ReadLimit = ReadLimit { messages: 1_024, bytes: 1 << 20 };
/// How often figures that only grow are written to the log.
const WRITE: Duration = Duration::from_secs(5);
/// So many bytes are kept of all sessions together.
const ALL: usize = 24 << 20;
/// A session in which nothing happens any more is let go after this.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) struct Live {
    store: Store,
    counts: Arc<Counts>,
    sessions: Mutex<HashMap<SessionId, Arc<One>>>,
    /// How many bytes are kept of all sessions: their last messages, and parts of events.
    kept: AtomicUsize,
}

#[derive(Debug, Default)]
struct One {
    recent: Mutex<Recent>,
    /// How many shells are connected.
    connected: AtomicUsize,
    /// Up to where there is something to fold.
    target: AtomicU64,
    /// Somebody folds.
    folding: AtomicBool,
    fold: tokio::sync::Mutex<Fold>,
    /// What was folded last, for lists.
    shown: Mutex<Option<(u64, Overview)>>,
    touched: Mutex<Option<Instant>>,
    /// How many bytes of it are counted in what is kept of all sessions: of the last messages, and of a part of an event.
    counted: [AtomicUsize; 2],
}

/// What of a session is counted.
#[derive(Debug, Clone, Copy)]
enum Part {
    Recent,
    Event,
}

#[derive(Debug, Default)]
struct Recent {
    /// The number of the first message.
    first: u64,
    lines: VecDeque<Bytes>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Fold {
    fold: LogOverview,
    folded: u64,
    /// What the log knows, and since when.
    written: Option<(u64, Overview, Instant)>,
}

impl Recent {
    fn push(&mut self, first: u64, lines: &[Bytes]) {
        let next = self.first + self.lines.len() as u64;
        let known = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        if self.lines.is_empty() || first > next {
            *self = Self { first, ..Self::default() };
            self.add(lines);
        } else {
            self.add(lines.get(known..).unwrap_or_default());
        }
    }

    fn add(&mut self, lines: &[Bytes]) {
        for line in lines {
            // A piece of a larger buffer would keep all of it.
            self.lines.push_back(Bytes::copy_from_slice(line));
            self.bytes += line.len();
            while self.lines.len() > RECENT.messages || self.bytes > RECENT.bytes {
                let Some(line) = self.lines.pop_front() else { break };
                self.bytes -= line.len();
                self.first += 1;
            }
        }
    }

    fn after(&self, after: u64, limit: ReadLimit) -> Option<Vec<StoredMessage>> {
        let skip = usize::try_from(after.saturating_add(1).checked_sub(self.first)?).ok()?;
        if skip >= self.lines.len() {
            return None;
        }
        let mut bytes = 0;
        let fits = |line: &&Bytes| {
            let fits = bytes < limit.bytes;
            bytes += line.len();
            fits
        };
        let lines = self.lines.iter().skip(skip).take(limit.messages).take_while(fits);
        Some((after + 1..).zip(lines).map(|(seq, line)| StoredMessage { seq, line: line.clone() }).collect())
    }
}

/// A shell that is connected, for as long as this is kept.
pub(crate) struct Connected(Arc<One>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    pub(crate) fn new(store: Store, counts: Arc<Counts>) -> Self {
        Self { store, counts, sessions: Mutex::default(), kept: AtomicUsize::new(0) }
    }

    fn one(&self, session: &SessionId) -> Arc<One> {
        let one = Arc::clone(locked(&self.sessions).entry(session.clone()).or_default());
        *locked(&one.touched) = Some(Instant::now());
        one
    }

    /// A shell is connected.
    pub(crate) fn connect(&self, session: &SessionId) -> Connected {
        let one = self.one(session);
        one.connected.fetch_add(1, Ordering::Relaxed);
        Connected(one)
    }

    /// New messages are in the log.
    pub(crate) fn published(self: &Arc<Self>, session: &SessionId, first: u64, lines: &[Bytes]) {
        let one = self.one(session);
        let mut recent = locked(&one.recent);
        recent.push(first, lines);
        self.count(&one, Part::Recent, recent.bytes);
        drop(recent);
        self.let_go_beyond(ALL);
        self.fold_to(session, one, first + lines.len() as u64 - 1);
    }

    /// Messages after a number, as [`Log::read`] gives them.
    pub(crate) async fn page(&self, session: &SessionId, after: u64, limit: ReadLimit) -> Result<Vec<StoredMessage>, StoreError> {
        let one = locked(&self.sessions).get(session).map(Arc::clone);
        let recent = one.and_then(|one| locked(&one.recent).after(after, limit));
        match recent {
            Some(page) => Ok(page),
            None => {
                self.counts.pages_read.add(1);
                self.store.messages.read(session, after, limit).await
            }
        }
    }

    /// A session as it is now, with what is folded and not in the log yet.
    pub(crate) fn freshen(&self, session: SessionRecord) -> (SessionRecord, bool) {
        let one = locked(&self.sessions).get(&session.id).map(Arc::clone);
        let Some(one) = one else { return (session, false) };
        let connected = one.connected.load(Ordering::Relaxed) > 0;
        let shown = locked(&one.shown).clone().filter(|(folded, _)| *folded >= session.folded);
        match shown {
            Some((folded, overview)) => (SessionRecord { folded, overview, ..session }, connected),
            None => (session, connected),
        }
    }

    /// Counts what is kept of a session now.
    fn count(&self, one: &One, part: Part, bytes: usize) {
        let before = one.counted[part as usize].swap(bytes, Ordering::AcqRel);
        self.kept.fetch_add(bytes, Ordering::AcqRel);
        self.kept.fetch_sub(before, Ordering::AcqRel);
    }

    /// Lets go of what can be read again, of the sessions that were quiet for longest, until no more than so much is kept.
    fn let_go_beyond(&self, limit: usize) {
        if self.kept.load(Ordering::Acquire) <= limit {
            return;
        }
        let mut all: Vec<_> = locked(&self.sessions).values().map(|one| (*locked(&one.touched), Arc::clone(one))).collect();
        all.sort_by_key(|(touched, _)| *touched);
        // Down to less than the limit, so that this is not done at every message.
        for (_, one) in all {
            if self.kept.load(Ordering::Acquire) <= limit / 2 {
                return;
            }
            let mut recent = locked(&one.recent);
            *recent = Recent::default();
            self.count(&one, Part::Recent, 0);
            drop(recent);
            // One that is folded now is not quiet.
            if one.counted[Part::Event as usize].load(Ordering::Acquire) > 0
                && let Ok(mut fold) = one.fold.try_lock()
            {
                // What is written stays; the rest is folded again from the beginning when more comes.
                *fold = Fold { written: fold.written.take(), ..Fold::default() };
                self.count(&one, Part::Event, 0);
            }
        }
    }

    /// How many sessions are live, and how many shells are connected.
    pub(crate) fn counted(&self) -> (usize, usize) {
        let sessions = locked(&self.sessions);
        (sessions.len(), sessions.values().map(|one| one.connected.load(Ordering::Relaxed)).sum())
    }

    /// Folds what was in the log before.
    pub(crate) async fn catch_up(self: Arc<Self>) {
        let Some(write) = &self.store.write else { return };
        let Ok(behind) = write.overviews.outdated_overviews().await else { return };
        for session in behind {
            let Ok(Some(known)) = self.store.sessions.session(&session).await else { continue };
            let one = self.one(&session);
            one.target.fetch_max(known.last, Ordering::AcqRel);
            if !one.folding.swap(true, Ordering::AcqRel) {
                // One after the other: nobody waits for these.
                self.fold(&session, &one).await;
            }
        }
    }

    fn fold_to(self: &Arc<Self>, session: &SessionId, one: Arc<One>, last: u64) {
        one.target.fetch_max(last, Ordering::AcqRel);
        if !one.folding.swap(true, Ordering::AcqRel) {
            let (live, session) = (Arc::clone(self), session.clone());
            tokio::spawn(async move { live.fold(&session, &one).await });
        }
    }

    async fn fold(&self, session: &SessionId, one: &One) {
        let mut fold = one.fold.lock().await;
        loop {
            let target = one.target.load(Ordering::Acquire);
            // What can't be read now is folded with what comes next, or after a restart.
            let done = self.fold_up_to(session, one, &mut fold, target).await;
            one.folding.store(false, Ordering::Release);
            let more = done.is_ok() && one.target.load(Ordering::Acquire) > fold.folded;
            if !more || one.folding.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    async fn fold_up_to(&self, session: &SessionId, one: &One, fold: &mut Fold, target: u64) -> Result<(), StoreError> {
        while fold.folded < target {
            let page = self.page(session, fold.folded, PAGE).await?;
            let Some(last) = page.last().map(|stored| stored.seq) else { break };
            for stored in page {
                fold.fold.message(&stored.line);
            }
            fold.folded = last;
            self.count(one, Part::Event, fold.fold.held());
            self.let_go_beyond(ALL);
            // A long log is not folded at one stretch.
            tokio::task::yield_now().await;
        }
        let overview = fold.fold.overview();
        *locked(&one.shown) = Some((fold.folded, overview.clone()));
        let due = fold.written.as_ref().is_none_or(|(_, known, at)| news(known, &overview) || at.elapsed() >= WRITE);
        if due {
            if let Some(write) = &self.store.write {
                write.overviews.put_overview(session, fold.folded, overview.clone()).await?;
            }
            fold.written = Some((fold.folded, overview, Instant::now()));
        }
        Ok(())
    }

    /// Writes what is not in the log yet; lets go of what is over.
    pub(crate) async fn sweep(&self, all: bool) {
        let sessions: Vec<_> = locked(&self.sessions).iter().map(|(id, one)| (id.clone(), Arc::clone(one))).collect();
        for (session, one) in sessions {
            let idle = locked(&one.touched).is_none_or(|at| at.elapsed() >= IDLE);
            let is_behind = one.target.load(Ordering::Acquire) > one.fold.lock().await.folded;
            if is_behind && idle && !all && !one.folding.swap(true, Ordering::AcqRel) {
                // It was let go of, or could not be read, and nothing came since.
                self.fold(&session, &one).await;
            }
            let mut fold = one.fold.lock().await;
            let known = fold.written.as_ref().map_or(0, |(folded, ..)| *folded);
            if known < fold.folded && (all || idle || fold.written.as_ref().is_some_and(|(_, _, at)| at.elapsed() >= WRITE)) {
                let overview = fold.fold.overview();
                if let Some(write) = &self.store.write
                    && write.overviews.put_overview(&session, fold.folded, overview.clone()).await.is_ok()
                {
                    fold.written = Some((fold.folded, overview, Instant::now()));
                }
            }
            drop(fold);
            if idle && one.connected.load(Ordering::Relaxed) == 0 {
                // Ours and the map's: nobody else has it, and nobody gets it while the map is locked.
                let mut sessions = locked(&self.sessions);
                if Arc::strong_count(&one) == 2 {
                    sessions.remove(&session);
                    self.count(&one, Part::Recent, 0);
                    self.count(&one, Part::Event, 0);
                }
            }
        }
    }

    /// Sweeps again and again, for as long as the hub runs.
    pub(crate) async fn keep_sweeping(self: Arc<Self>) {
        let mut every = tokio::time::interval(WRITE);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.sweep(false).await;
        }
    }
}

/// Whether something changed that lists are filtered by.
fn news(known: &Overview, now: &Overview) -> bool {
    (known.phase, &known.agent, &known.workspace, &known.title) != (now.phase, &now.agent, &now.workspace, &now.title)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use axum::body::Bytes;
    use sabir_core::time::Timestamp;
    use sabir_protocol::SessionId;

    use super::{ALL as MOST, Live, RECENT, Recent};
    use crate::store::memory::MemoryStore;
    use crate::store::{AppendRequest, MessageWriter as _, ReadLimit, SessionIndex as _, SessionRecord};

    const ALL: ReadLimit = ReadLimit { messages: 9_999, bytes: usize::MAX };

    #[test]
    fn a_few_messages_are_kept_and_never_the_wrong_ones() {
        let lines = |from: u64, to: u64| (from..=to).map(|seq| Bytes::from(seq.to_string())).collect::<Vec<_>>();
        let mut recent = Recent::default();
        recent.push(5, &lines(5, 7));
        recent.push(6, &lines(6, 9));
        let got = recent.after(6, ALL).expect("known");
        assert!(got.iter().map(|stored| stored.seq).eq(7..=9));
        assert!(got.iter().all(|stored| stored.line == stored.seq.to_string()));
        assert!(recent.after(3, ALL).is_none() && recent.after(9, ALL).is_none());
        recent.push(20, &lines(20, 20));
        assert!(recent.after(8, ALL).is_none() && recent.after(19, ALL).is_some());
        recent.push(21, &lines(21, 21 + 2 * RECENT.messages as u64));
        assert_eq!(recent.lines.len(), RECENT.messages);
        assert!(recent.after(20, ALL).is_none());
    }

    /// Sends messages of a session, as a shell does.
    async fn send(log: &MemoryStore, live: &Arc<Live>, session: &SessionId, first: u64, messages: Vec<Bytes>) {
        let append =
            AppendRequest { session: session.clone(), writer: "w".to_owned(), epoch: 1, first, messages: messages.clone() };
        log.append(append).await.expect("kept");
        live.published(session, first, &messages);
    }

    fn id(number: usize) -> SessionId {
        format!("s{number}").parse().expect("an id")
    }

    async fn shown(log: &MemoryStore, live: &Live, session: &SessionId) -> SessionRecord {
        live.freshen(log.session(session).await.expect("asked").expect("a session")).0
    }

    #[tokio::test]
    async fn what_is_kept_of_all_sessions_has_a_limit() {
        let log = Arc::new(MemoryStore::default());
        let live = Arc::new(Live::new(Arc::clone(&log).into(), Arc::default()));
        for number in 0..400 {
            send(&log, &live, &id(number), 1, vec![Bytes::from(vec![b'x'; 100 << 10])]).await;
            assert!(live.kept.load(Ordering::Relaxed) <= MOST);
        }
        assert!(live.kept.load(Ordering::Relaxed) > MOST / 4);
        assert_eq!(live.page(&id(0), 0, ALL).await.expect("read").len(), 1, "what was let go of is read from the log");
    }

    #[tokio::test]
    async fn an_event_of_which_a_part_was_let_go_of_is_counted() {
        let log = Arc::new(MemoryStore::default());
        let live = Arc::new(Live::new(Arc::clone(&log).into(), Arc::default()));
        let input = "y".repeat(9 << 20);
        let head = r#"{"runId":"r","seq":1,"kind":"toolStart","toolCallId":"c","name":"n","toolKind":"other""#;
        let event = format!("{head},\"input\":\"{input}\"}}");
        let total = event.len().div_ceil(1_000_000);
        let pieces = |session: &SessionId| {
            let piece = |(index, piece): (usize, &[u8])| {
                let json = serde_json::json!({
                    "sessionId": session, "seq": index + 1, "ts": Timestamp::EPOCH, "type": "event",
                    "payload": { "json": String::from_utf8_lossy(piece), "partial": { "id": "p", "index": index, "total": total } },
                });
                Bytes::from(json.to_string())
            };
            event.as_bytes().chunks(1_000_000).enumerate().map(piece).collect::<Vec<_>>()
        };
        for number in 0..4 {
            let mut pieces = pieces(&id(number));
            pieces.pop();
            send(&log, &live, &id(number), 1, pieces).await;
            while shown(&log, &live, &id(number)).await.folded < total as u64 - 1 {
                tokio::task::yield_now().await;
            }
            assert!(live.kept.load(Ordering::Relaxed) <= MOST);
        }
        for number in 0..4 {
            let last = pieces(&id(number)).pop().into_iter().collect();
            send(&log, &live, &id(number), total as u64, last).await;
            while shown(&log, &live, &id(number)).await.overview.tool_calls != 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}
