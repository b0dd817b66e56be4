//! Cache of active sessions: their latest messages and current overviews.
//!
//! ```text
//!   ingest ──► recent messages ──► subscriptions, which otherwise read the store
//!          └─► overview task: reads like a subscription, and writes the overview to the store now and then
//! ```
//!
//! Everything in it can be rebuilt from the store. Memory per session is bounded, and so is the total: beyond the limit, the least
//! recently active sessions lose their messages, and the fragments of incomplete events.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use sabir_core::fold::Overview;
use sabir_protocol::SessionId;
use sabir_protocol::envelope::overview::LogOverview;

use crate::error::StoreError;
use crate::lock;
use crate::metrics::Metrics;
use crate::store::{ReadLimit, SessionRecord, Store, StoredMessage};

/// Limit of the recent messages of a session.
const RECENT: ReadLimit = ReadLimit { messages: 256, bytes: 128 << 10 };
/// Size of one read of an overview task.
const PAGE: ReadLimit = ReadLimit { messages: 1_024, bytes: 1 << 20 };
/// Interval at which overviews are written, unless something that listings filter by has changed.
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Limit of the memory of all sessions.
const MAX_BYTES: usize = 24 << 20;
/// Time without activity after which a session is dropped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Active sessions.
pub(crate) struct LiveCache {
    store: Store,
    metrics: Arc<Metrics>,
    sessions: Mutex<HashMap<SessionId, Arc<LiveSession>>>,
    /// Bytes of all sessions: recent messages, and fragments of events.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct LiveSession {
    recent: Mutex<RecentMessages>,
    /// Number of connected runners.
    connected: AtomicUsize,
    /// Number of the last message that the overview should cover.
    target: AtomicU64,
    /// Whether a task updates the overview.
    updating: AtomicBool,
    builder: tokio::sync::Mutex<OverviewBuilder>,
    /// Current overview and the last message that it covers.
    overview: Mutex<Option<(u64, Overview)>>,
    touched: Mutex<Option<Instant>>,
    /// Bytes that are included in the total: of recent messages, and of fragments.
    bytes: [AtomicUsize; 2],
}

/// Index into [`LiveSession::bytes`].
#[derive(Debug, Clone, Copy)]
enum Part {
    Recent,
    Fragments,
}

#[derive(Debug, Default)]
struct RecentMessages {
    /// Number of the first message.
    first: u64,
    lines: VecDeque<Bytes>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct OverviewBuilder {
    log: LogOverview,
    /// Number of the last message in `log`.
    last: u64,
    /// The overview in the store, the last message that it covers, and the time of the write.
    written: Option<(u64, Overview, Instant)>,
}

impl RecentMessages {
    fn push(&mut self, first: u64, lines: &[Bytes]) {
        let next = self.first + self.lines.len() as u64;
        let known = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        if self.lines.is_empty() || first > next {
            *self = Self { first, ..Self::default() };
            self.append(lines);
        } else {
            self.append(lines.get(known..).unwrap_or_default());
        }
    }

    fn append(&mut self, lines: &[Bytes]) {
        for line in lines {
            // Copied, because a slice would keep the whole batch alive.
            self.lines.push_back(Bytes::copy_from_slice(line));
            self.bytes += line.len();
            while self.lines.len() > RECENT.messages || self.bytes > RECENT.bytes {
                let Some(line) = self.lines.pop_front() else { break };
                self.bytes -= line.len();
                self.first += 1;
            }
        }
    }

    /// Messages numbered above `after`; `None` if the next one is not cached.
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

/// A connected runner, until it is dropped.
pub(crate) struct Connected(Arc<LiveSession>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LiveCache {
    pub(crate) fn new(store: Store, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics, sessions: Mutex::default(), bytes: AtomicUsize::new(0) }
    }

    fn entry(&self, id: &SessionId) -> Arc<LiveSession> {
        let session = Arc::clone(lock(&self.sessions).entry(id.clone()).or_default());
        *lock(&session.touched) = Some(Instant::now());
        session
    }

    /// Counts a runner as connected until the result is dropped.
    pub(crate) fn connect(&self, id: &SessionId) -> Connected {
        let session = self.entry(id);
        session.connected.fetch_add(1, Ordering::Relaxed);
        Connected(session)
    }

    /// Caches messages that were stored, and updates the overview.
    pub(crate) fn publish(self: &Arc<Self>, id: &SessionId, first: u64, lines: &[Bytes]) {
        let session = self.entry(id);
        let mut recent = lock(&session.recent);
        recent.push(first, lines);
        self.set_bytes(&session, Part::Recent, recent.bytes);
        drop(recent);
        self.evict();
        session.target.fetch_max(first + lines.len() as u64 - 1, Ordering::AcqRel);
        if !session.updating.swap(true, Ordering::AcqRel) {
            let (cache, id) = (Arc::clone(self), id.clone());
            tokio::spawn(async move { cache.update_overview(&id, &session).await });
        }
    }

    /// Messages numbered above `after`, up to `limit`, from the cache or the store.
    pub(crate) async fn read(&self, id: &SessionId, after: u64, limit: ReadLimit) -> Result<Vec<StoredMessage>, StoreError> {
        let session = lock(&self.sessions).get(id).map(Arc::clone);
        let recent = session.and_then(|session| lock(&session.recent).after(after, limit));
        match recent {
            Some(page) => Ok(page),
            None => {
                self.metrics.pages_read.add(1);
                self.store.messages.read(id, after, limit).await
            }
        }
    }

    /// Replaces the overview of a record by the current one, and returns whether the runner is connected.
    pub(crate) fn refresh(&self, record: SessionRecord) -> (SessionRecord, bool) {
        let session = lock(&self.sessions).get(&record.id).map(Arc::clone);
        let Some(session) = session else { return (record, false) };
        let connected = session.connected.load(Ordering::Relaxed) > 0;
        let current = lock(&session.overview).clone().filter(|(folded, _)| *folded >= record.folded);
        match current {
            Some((folded, overview)) => (SessionRecord { folded, overview, ..record }, connected),
            None => (record, connected),
        }
    }

    fn set_bytes(&self, session: &LiveSession, part: Part, bytes: usize) {
        let before = session.bytes[part as usize].swap(bytes, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.bytes.fetch_sub(before, Ordering::AcqRel);
    }

    /// Frees memory of the least recently active sessions if the limit is exceeded.
    fn evict(&self) {
        if self.bytes.load(Ordering::Acquire) <= MAX_BYTES {
            return;
        }
        let mut sessions: Vec<_> =
            lock(&self.sessions).values().map(|session| (*lock(&session.touched), Arc::clone(session))).collect();
        sessions.sort_by_key(|(touched, _)| *touched);
        // Free more than necessary, so that this does not run for every message.
        for (_, session) in sessions {
            if self.bytes.load(Ordering::Acquire) <= MAX_BYTES / 2 {
                return;
            }
            let mut recent = lock(&session.recent);
            *recent = RecentMessages::default();
            self.set_bytes(&session, Part::Recent, 0);
            drop(recent);
            // A locked builder is in use, so its session is active.
            if session.bytes[Part::Fragments as usize].load(Ordering::Acquire) > 0
                && let Ok(mut builder) = session.builder.try_lock()
            {
                // It starts again from the first message when more arrive.
                *builder = OverviewBuilder { written: builder.written.take(), ..OverviewBuilder::default() };
                self.set_bytes(&session, Part::Fragments, 0);
            }
        }
    }

    /// Number of active sessions, and of connected runners.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sessions = lock(&self.sessions);
        (sessions.len(), sessions.values().map(|session| session.connected.load(Ordering::Relaxed)).sum())
    }

    /// Updates the overviews that an earlier process left outdated.
    pub(crate) async fn catch_up(self: Arc<Self>) {
        let Some(store) = &self.store.write else { return };
        let Ok(outdated) = store.overviews.outdated_overviews().await else { return };
        for id in outdated {
            let Ok(Some(record)) = self.store.sessions.session(&id).await else { continue };
            let session = self.entry(&id);
            session.target.fetch_max(record.last, Ordering::AcqRel);
            if !session.updating.swap(true, Ordering::AcqRel) {
                // Sequentially, because no client waits for them.
                self.update_overview(&id, &session).await;
            }
        }
    }

    /// Updates the overview until it covers `target`. The caller has set `updating`.
    async fn update_overview(&self, id: &SessionId, session: &LiveSession) {
        let mut builder = session.builder.lock().await;
        loop {
            let target = session.target.load(Ordering::Acquire);
            // After an error, the update is repeated with the next message, or after a restart.
            let updated = self.update_to(id, session, &mut builder, target).await;
            session.updating.store(false, Ordering::Release);
            let more = updated.is_ok() && session.target.load(Ordering::Acquire) > builder.last;
            if !more || session.updating.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    async fn update_to(
        &self,
        id: &SessionId,
        session: &LiveSession,
        builder: &mut OverviewBuilder,
        target: u64,
    ) -> Result<(), StoreError> {
        while builder.last < target {
            let page = self.read(id, builder.last, PAGE).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            for message in page {
                builder.log.message(&message.line);
            }
            builder.last = last;
            self.set_bytes(session, Part::Fragments, builder.log.held());
            self.evict();
            // A long log must not block the thread.
            tokio::task::yield_now().await;
        }
        let overview = builder.log.overview();
        *lock(&session.overview) = Some((builder.last, overview.clone()));
        let due = builder
            .written
            .as_ref()
            .is_none_or(|(_, stored, at)| is_filtered_field_changed(stored, &overview) || at.elapsed() >= WRITE_INTERVAL);
        if due { self.write_overview(id, builder, overview).await } else { Ok(()) }
    }

    async fn write_overview(&self, id: &SessionId, builder: &mut OverviewBuilder, overview: Overview) -> Result<(), StoreError> {
        if let Some(store) = &self.store.write {
            store.overviews.put_overview(id, builder.last, overview.clone()).await?;
        }
        builder.written = Some((builder.last, overview, Instant::now()));
        Ok(())
    }

    /// Writes overviews that are not in the store yet, and drops idle sessions. With `all`, every overview is written.
    pub(crate) async fn sweep(&self, all: bool) {
        let sessions: Vec<_> = lock(&self.sessions).iter().map(|(id, session)| (id.clone(), Arc::clone(session))).collect();
        for (id, session) in sessions {
            let idle = lock(&session.touched).is_none_or(|at| at.elapsed() >= IDLE_TIMEOUT);
            let outdated = session.target.load(Ordering::Acquire) > session.builder.lock().await.last;
            if outdated && idle && !all && !session.updating.swap(true, Ordering::AcqRel) {
                // Its builder was evicted, or a read failed, and no message has arrived since.
                self.update_overview(&id, &session).await;
            }
            let mut builder = session.builder.lock().await;
            let written = builder.written.as_ref().map_or(0, |(last, ..)| *last);
            let due = all || idle || builder.written.as_ref().is_some_and(|(_, _, at)| at.elapsed() >= WRITE_INTERVAL);
            if written < builder.last && due {
                let overview = builder.log.overview();
                // After an error, the next sweep tries again.
                let _ = self.write_overview(&id, &mut builder, overview).await;
            }
            drop(builder);
            if idle && session.connected.load(Ordering::Relaxed) == 0 {
                // Two references, ours and the map's: no one else has it, or can get it while the map is locked.
                let mut sessions = lock(&self.sessions);
                if Arc::strong_count(&session) == 2 {
                    sessions.remove(&id);
                    self.set_bytes(&session, Part::Recent, 0);
                    self.set_bytes(&session, Part::Fragments, 0);
                }
            }
        }
    }
}

/// Returns whether a field that listings filter by, or display as the name, has changed.
fn is_filtered_field_changed(stored: &Overview, now: &Overview) -> bool {
    (stored.phase, &stored.agent, &stored.workspace, &stored.title) != (now.phase, &now.agent, &now.workspace, &now.title)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use axum::body::Bytes;
    use sabir_core::time::Timestamp;
    use sabir_protocol::SessionId;

    use super::{LiveCache, MAX_BYTES, RECENT, RecentMessages};
    use crate::store::memory::MemoryStore;
    use crate::store::{AppendRequest, MessageWriter as _, ReadLimit, SessionIndex as _, SessionRecord};

    const UNLIMITED: ReadLimit = ReadLimit { messages: 9_999, bytes: usize::MAX };

    #[test]
    fn recent_messages_are_the_latest_without_gaps() {
        let lines = |from: u64, to: u64| (from..=to).map(|seq| Bytes::from(seq.to_string())).collect::<Vec<_>>();
        let mut recent = RecentMessages::default();
        recent.push(5, &lines(5, 7));
        recent.push(6, &lines(6, 9));
        let page = recent.after(6, UNLIMITED).expect("cached");
        assert!(page.iter().map(|stored| stored.seq).eq(7..=9));
        assert!(page.iter().all(|stored| stored.line == stored.seq.to_string()));
        assert!(recent.after(3, UNLIMITED).is_none() && recent.after(9, UNLIMITED).is_none());
        recent.push(20, &lines(20, 20));
        assert!(recent.after(8, UNLIMITED).is_none() && recent.after(19, UNLIMITED).is_some());
        recent.push(21, &lines(21, 21 + 2 * RECENT.messages as u64));
        assert_eq!(recent.lines.len(), RECENT.messages);
        assert!(recent.after(20, UNLIMITED).is_none());
    }

    /// Stores messages of a session, as ingest does.
    async fn send(store: &MemoryStore, live: &Arc<LiveCache>, session: &SessionId, first: u64, messages: Vec<Bytes>) {
        let append =
            AppendRequest { session: session.clone(), writer: "w".to_owned(), epoch: 1, first, messages: messages.clone() };
        store.append(append).await.expect("stored");
        live.publish(session, first, &messages);
    }

    fn id(number: usize) -> SessionId {
        format!("s{number}").parse().expect("an id")
    }

    async fn current(store: &MemoryStore, live: &LiveCache, session: &SessionId) -> SessionRecord {
        live.refresh(store.session(session).await.expect("read").expect("a session")).0
    }

    #[tokio::test]
    async fn live_cache_bounds_the_memory_of_all_sessions() {
        let store = Arc::new(MemoryStore::default());
        let live = Arc::new(LiveCache::new(Arc::clone(&store).into(), Arc::default()));
        for number in 0..400 {
            send(&store, &live, &id(number), 1, vec![Bytes::from(vec![b'x'; 100 << 10])]).await;
            assert!(live.bytes.load(Ordering::Relaxed) <= MAX_BYTES);
        }
        assert!(live.bytes.load(Ordering::Relaxed) > MAX_BYTES / 4);
        assert_eq!(live.read(&id(0), 0, UNLIMITED).await.expect("read").len(), 1, "evicted messages are read from the store");
    }

    #[tokio::test]
    async fn live_cache_counts_events_whose_fragments_were_evicted() {
        let store = Arc::new(MemoryStore::default());
        let live = Arc::new(LiveCache::new(Arc::clone(&store).into(), Arc::default()));
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
            send(&store, &live, &id(number), 1, pieces).await;
            while current(&store, &live, &id(number)).await.folded < total as u64 - 1 {
                tokio::task::yield_now().await;
            }
            assert!(live.bytes.load(Ordering::Relaxed) <= MAX_BYTES);
        }
        for number in 0..4 {
            let last = pieces(&id(number)).pop().into_iter().collect();
            send(&store, &live, &id(number), total as u64, last).await;
            while current(&store, &live, &id(number)).await.overview.tool_calls != 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}
