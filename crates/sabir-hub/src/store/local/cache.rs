//! Cache of the machine's sessions, and the thread that updates it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sabir_core::fold::Overview;
use sabir_protocol::SessionId;
use sabir_store::notice::Notice;
use sabir_store::whole::run_of;
use sabir_store::{Home, past, summary};

use super::Sources;
use super::list::{self, SessionList};
use super::materialized::MaterializedLog;
use crate::auth::token::Token;
use crate::error::StoreError;
use crate::lock;
use crate::store::session_watch::SessionWatch;
use crate::store::{SessionHead, SessionRecord};

/// Minimum time between two refreshes of the list.
const MIN_REFRESH: Duration = Duration::from_secs(2);
/// Refresh interval without a file change; new folders are not watched.
const MAX_REFRESH: Duration = Duration::from_secs(10);
/// Maximum time of one wait for file changes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time without requests after which the thread goes idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of materialized sessions without subscribers.
const MAX_MATERIALIZED: usize = 8;
/// Maximum number of live runs that are followed for the list.
const MAX_LIVE: usize = 16;
/// Time to wait for the events of a live session before its scan is returned.
const OVERVIEW_TIMEOUT: Duration = Duration::from_millis(100);

/// Scanned sessions, and the messages of some of them.
#[derive(Debug)]
pub(super) struct LocalCache {
    pub(super) sources: Sources,
    pub(super) watch: SessionWatch,
    list: Mutex<Arc<SessionList>>,
    materialized: Mutex<HashMap<SessionId, Arc<MaterializedLog>>>,
    pub(super) tokens: Mutex<Vec<Token>>,
    /// Time of the last refresh; locked during a refresh.
    refreshed: Mutex<Instant>,
    /// Time of the last request.
    touched: Mutex<Instant>,
    wake: Condvar,
    stop: AtomicBool,
}

fn scan(sources: &Sources, progress: &mut dyn FnMut(usize, usize)) -> SessionList {
    let index = sources.home.as_ref().map(Home::index);
    SessionList::new(past::load(&sources.places, sources.home.as_ref(), index.as_deref(), |_| true, progress))
}

impl LocalCache {
    /// Scans all sessions.
    pub(super) fn new(sources: Sources, progress: &mut dyn FnMut(usize, usize)) -> Self {
        let list = scan(&sources, progress);
        Self {
            sources,
            watch: SessionWatch::default(),
            list: Mutex::new(Arc::new(list)),
            materialized: Mutex::default(),
            tokens: Mutex::default(),
            refreshed: Mutex::new(Instant::now()),
            touched: Mutex::new(Instant::now()),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
        }
    }

    /// Ends the background thread.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// The sessions as of the last refresh.
    pub(super) fn list(&self) -> Arc<SessionList> {
        Arc::clone(&lock(&self.list))
    }

    /// Records a request, and refreshes the list if the thread was idle.
    pub(super) fn touch(&self) {
        let mut touched = lock(&self.touched);
        let was_idle = touched.elapsed() >= IDLE_TIMEOUT;
        *touched = Instant::now();
        drop(touched);
        if was_idle {
            self.refresh(MIN_REFRESH);
            self.wake.notify_all();
        }
    }

    /// Scans the files again and publishes changes; `false` if the last refresh is more recent than `min_age`.
    fn refresh(&self, min_age: Duration) -> bool {
        let mut refreshed = lock(&self.refreshed);
        if refreshed.elapsed() < min_age {
            return false;
        }
        let before = self.list();
        let list = Arc::new(scan(&self.sources, &mut |_, _| ()));
        *refreshed = Instant::now();
        *lock(&self.list) = Arc::clone(&list);
        drop(refreshed);
        for listed in &list.all {
            let id = &listed.session.id;
            if before.session(id).as_ref() != Some(&listed.session) {
                let head = self.cached(id).map_or_else(SessionHead::default, |log| log.head());
                self.watch.publish(id, head);
            }
        }
        true
    }

    /// Body of the background thread.
    pub(super) fn run(self: &Arc<Self>) {
        let mut notice = Notice::default();
        let mut watched = Arc::default();
        // Whether files have changed since the last refresh.
        let mut changed = false;
        while !self.stop.load(Ordering::Relaxed) {
            let touched = lock(&self.touched);
            if touched.elapsed() >= IDLE_TIMEOUT && !self.watch.is_active() {
                // Until the next request, or to check for `stop`.
                let _ = self.wake.wait_timeout(touched, IDLE_TIMEOUT);
                continue;
            }
            drop(touched);
            let list = self.list();
            self.follow_live_runs(&list);
            if !Arc::ptr_eq(&list, &watched) {
                notice.watch(watched_folders(&list, &self.sources));
                watched = Arc::clone(&list);
            }
            let notified = notice.wait(POLL_INTERVAL);
            self.extend_all(&list, notified);
            changed |= notified;
            if self.refresh(if changed { MIN_REFRESH } else { MAX_REFRESH }) {
                changed = false;
            }
        }
    }

    /// Materializes live runs, so that listings have their current state.
    fn follow_live_runs(self: &Arc<Self>, list: &SessionList) {
        let runs = list
            .all
            .iter()
            .filter(|listed| listed.live)
            .filter(|listed| list.logged_of(listed).is_some_and(|logged| run_of(logged, &list.past.logs).is_some()));
        for listed in runs.take(MAX_LIVE) {
            let id = &listed.session.id;
            if self.cached(id).is_none() {
                // Without its events, a run is listed as scanned.
                let _ = self.messages(id);
            }
        }
    }

    fn extend_all(&self, list: &SessionList, notified: bool) {
        let logs: Vec<_> = lock(&self.materialized).iter().map(|(id, log)| (id.clone(), Arc::clone(log))).collect();
        for (id, log) in logs {
            if notified || log.is_live() {
                self.extend(list, &id, &log);
            }
        }
        self.evict();
    }

    /// Derives the messages of new events, and publishes the change.
    fn extend(&self, list: &SessionList, id: &SessionId, log: &MaterializedLog) {
        let Some(logged) = list.logged(id) else { return };
        let live = list::is_live(&list.past, logged);
        let raise = |head| self.watch.raise(id, head);
        if log.fill(logged, &list.past.logs, live, &raise) {
            self.watch.publish(id, log.head());
        }
    }

    /// Drops the least recently used logs that are neither live nor subscribed to.
    fn evict(&self) {
        let mut logs = lock(&self.materialized);
        let mut idle: Vec<(Instant, SessionId)> = logs
            .iter()
            .filter(|(id, log)| !log.is_live() && !self.watch.has_subscribers(id))
            .map(|(id, log)| (log.touched(), id.clone()))
            .collect();
        idle.sort();
        let excess = logs.len().saturating_sub(MAX_MATERIALIZED);
        for (_, id) in idle.into_iter().take(excess) {
            logs.remove(&id);
        }
    }

    fn cached(&self, id: &SessionId) -> Option<Arc<MaterializedLog>> {
        lock(&self.materialized).get(id).map(Arc::clone)
    }

    /// The messages of a session, which a thread derives; `None` if the session is unknown.
    pub(super) fn messages(self: &Arc<Self>, id: &SessionId) -> Result<Option<Arc<MaterializedLog>>, StoreError> {
        if let Some(log) = self.cached(id) {
            log.touch();
            return Ok(Some(log));
        }
        let list = self.list();
        let Some(logged) = list.logged(id) else { return Ok(None) };
        // The events of a run do not include its prompt.
        let meta = run_of(logged, &list.past.logs).and_then(|folder| summary::summary(folder).ok()?.meta);
        let prompt = meta.map(|meta| meta.prompt).filter(|prompt| !prompt.is_empty());
        let unreadable = |error: std::io::Error| StoreError::Unavailable(format!("cannot read session {id}: {error}"));
        let log = Arc::new(MaterializedLog::new(logged, &list.past.logs, prompt).map_err(unreadable)?);
        let log = Arc::clone(lock(&self.materialized).entry(id.clone()).or_insert(log));
        let (cache, id, filled) = (Arc::clone(self), id.clone(), Arc::clone(&log));
        let fill = move || cache.extend(&list, &id, &filled);
        std::thread::Builder::new().name("session".to_owned()).spawn(fill).map_err(unreadable)?;
        Ok(Some(log))
    }

    /// One session. The current state of a live one is only in its events, which are read unless many sessions are already.
    pub(super) fn session(self: &Arc<Self>, id: &SessionId) -> Option<SessionRecord> {
        let list = self.list();
        let session = list.session(id)?;
        let logs = lock(&self.materialized);
        let has_space = logs.len() < MAX_LIVE || logs.contains_key(id);
        drop(logs);
        // If the events cannot be read, the session is returned as scanned.
        if has_space
            && list.logged(id).is_some_and(|logged| list::is_live(&list.past, logged))
            && let Ok(Some(log)) = self.messages(id)
        {
            log.wait(None, OVERVIEW_TIMEOUT);
        }
        Some(self.updated(session))
    }

    /// Merges the overview of a session's events into its scan.
    pub(super) fn updated(&self, session: SessionRecord) -> SessionRecord {
        let Some(log) = self.cached(&session.id) else { return session };
        let last = log.head().last;
        let scanned = session.overview;
        // Usage comes from the scan, which counts each response once across files. The state of a live session is in its events.
        let overview = match log.overview() {
            Some(live) if log.is_live() && !scanned.phase.is_over() => Overview {
                cwd: live.cwd.clone().or(scanned.cwd),
                title: scanned.title.or(live.title.clone()),
                model: live.model.clone().or(scanned.model),
                tokens: scanned.tokens.or(live.tokens),
                usage: scanned.usage.or(live.usage),
                cost_usd: scanned.cost_usd.or(live.cost_usd),
                cost_source: if scanned.cost_usd.is_some() { scanned.cost_source } else { live.cost_source },
                ..live
            },
            // Scans do not count these.
            Some(full) => Overview { turns: full.turns, file_changes: full.file_changes, errors: full.errors, ..scanned },
            None => scanned,
        };
        SessionRecord { last, folded: last, overview, ..session }
    }
}

/// Folders to watch for changes.
fn watched_folders(list: &SessionList, sources: &Sources) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = sources.home.iter().map(|home| home.path().to_path_buf()).collect();
    for log in &list.past.logs {
        // The parent folder too, which gets a new folder per project or day.
        folders.extend(log.file.path.ancestors().skip(1).take(2).map(PathBuf::from));
    }
    let live = list.all.iter().filter(|listed| listed.live).filter_map(|listed| list.logged_of(listed));
    folders.extend(live.filter_map(|logged| run_of(logged, &list.past.logs)).map(|folder| folder.path().to_path_buf()));
    folders
}
