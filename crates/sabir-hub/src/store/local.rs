//! Read-only backend over the sessions of this machine: the logs that agents keep, and Sabir's journal.
//!
//! ```text
//!   files ──► scan ──► SessionList ──► listings              refreshed when files change
//!   one session, on request ──► MaterializedLog ──► read, watch
//!                                    ▲
//!   background thread: waits for file changes, refreshes the list, extends the logs of live sessions
//! ```
//!
//! Without requests and subscribers, the thread is idle. The backend is in this crate, not in the CLI, so that subscriptions,
//! timelines and the web UI work the same over every backend.

mod cache;
mod list;
mod materialized;
mod query;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;
use sabir_store::Home;
use sabir_store::history::Places;
use sabir_store::usage::TimeZone;
use sabir_store::whole;
use tokio::sync::{broadcast, watch};

use super::{
    MessageReader, RawLineLookup, ReadLimit, SessionFilter, SessionHead, SessionIndex, SessionPage, SessionRecord, Store,
    StoreFuture, StoredMessage, TokenStore,
};
use crate::auth::token::Token;
use crate::error::StoreError;
use crate::lock;
use crate::usage::{Period, UsageRollup};
use cache::LocalCache;

/// Time that a read waits for messages that are being derived.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Location of the sessions.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Folders of the agents' logs.
    pub places: Places,
    /// Folder of the journal and the scan index.
    pub home: Option<Home>,
    /// Time zone of the days in usage reports.
    pub zone: TimeZone,
}

/// The sessions of this machine.
#[derive(Debug)]
pub struct LocalStore {
    cache: Arc<LocalCache>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LocalStore {
    /// Scans all sessions. `progress` is called with the number of scanned files and the number of files to scan.
    pub fn open(sources: Sources, progress: &mut dyn FnMut(usize, usize)) -> std::io::Result<Self> {
        let cache = Arc::new(LocalCache::new(sources, progress));
        let updater = Arc::clone(&cache);
        let thread = std::thread::Builder::new().name("local store".to_owned()).spawn(move || updater.run())?;
        Ok(Self { cache, thread: Some(thread) })
    }

    /// Files that could not be read, with their errors.
    pub fn failures(&self) -> Vec<(PathBuf, String)> {
        let list = self.cache.list();
        list.past.failures.iter().map(|(path, error)| (path.clone(), error.to_string())).collect()
    }

    /// Number of sessions.
    pub fn count(&self) -> usize {
        self.cache.list().all.len()
    }

    /// Runs a query on a blocking thread.
    fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Arc<LocalCache>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let cache = Arc::clone(&self.cache);
        Box::pin(async move {
            let result = tokio::task::spawn_blocking(move || {
                cache.touch();
                query(&cache)
            });
            result.await.map_err(|error| StoreError::Internal(error.to_string()))?
        })
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.cache.stop();
        // Fails if the thread panicked.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl From<Arc<LocalStore>> for Store {
    fn from(backend: Arc<LocalStore>) -> Self {
        Self::read_only(backend)
    }
}

impl MessageReader for LocalStore {
    fn read(&self, session: &SessionId, after: u64, limit: ReadLimit) -> StoreFuture<Vec<StoredMessage>> {
        let id = session.clone();
        self.run(move |cache| match cache.messages(&id)? {
            Some(log) => {
                log.wait(Some(after), READ_TIMEOUT);
                log.read(after, limit).map_err(|error| StoreError::Unavailable(error.to_string()))
            }
            None => Ok(Vec::new()),
        })
    }

    fn last_seq(&self, session: &SessionId) -> StoreFuture<Option<u64>> {
        let id = session.clone();
        self.run(move |cache| {
            let log = cache.messages(&id)?;
            Ok(log.map(|log| {
                log.wait(None, Duration::MAX);
                log.head().last
            }))
        })
    }

    fn watch(&self, session: &SessionId) -> StoreFuture<Option<watch::Receiver<SessionHead>>> {
        let id = session.clone();
        self.run(move |cache| {
            let receiver = cache.watch.subscribe(&id);
            let Some(log) = cache.messages(&id)? else { return Ok(None) };
            cache.watch.raise(&id, log.head());
            Ok(Some(receiver))
        })
    }

    fn raw_line(&self, session: &SessionId, number: u64) -> StoreFuture<RawLineLookup> {
        let id = session.clone();
        self.run(move |cache| {
            let list = cache.list();
            let Some(logged) = list.logged(&id) else { return Ok(RawLineLookup::Missing) };
            let line = whole::line(logged, &list.past.logs, number);
            let line = line.map_err(|error| StoreError::Unavailable(format!("cannot read session {id}: {error}")))?;
            Ok(line.map_or(RawLineLookup::Missing, |line| RawLineLookup::Found(line.into())))
        })
    }
}

impl SessionIndex for LocalStore {
    fn session(&self, session: &SessionId) -> StoreFuture<Option<SessionRecord>> {
        let id = session.clone();
        self.run(move |cache| Ok(cache.session(&id)))
    }

    fn sessions(&self, filter: SessionFilter) -> StoreFuture<SessionPage> {
        self.run(move |cache| Ok(cache.sessions(&filter)))
    }

    fn agents(&self) -> StoreFuture<Vec<String>> {
        self.run(|cache| Ok(cache.agents()))
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.cache.watch.changes()
    }

    fn usage(&self, period: Period) -> StoreFuture<Option<UsageRollup>> {
        self.run(move |cache| Ok(Some(cache.usage(period))))
    }
}

impl TokenStore for LocalStore {
    fn add_token(&self, token: Token) -> StoreFuture<()> {
        lock(&self.cache.tokens).push(token);
        ready(())
    }

    fn tokens(&self) -> StoreFuture<Vec<Token>> {
        ready(lock(&self.cache.tokens).clone())
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> StoreFuture<bool> {
        let mut tokens = lock(&self.cache.tokens);
        let token = tokens.iter_mut().find(|token| token.id == id).map(|token| token.revoked.get_or_insert(at));
        ready(token.is_some())
    }
}
