//! SQLite backend: a folder, for one hub process at a time.
//!
//! ```text
//!  open_session, append, add_command …                  sessions, read …
//!    │ job, reply                                         │
//!    ▼                                                    ▼
//!  queue ──► writer thread: BEGIN, many jobs, COMMIT ──►  hub.sqlite ◄── pool of reading connections
//!                     (a savepoint for each job)          │
//!                                                         ▼
//!                                     indexer thread ──► words.sqlite
//! ```
//!
//! Jobs that arrive during a commit share the next one (group commit), so a thousand runners cost hardly more syncs than one.
//! A job is answered after its commit, and commits are synced (`synchronous=FULL`). A failed job rolls back to its savepoint and
//! does not affect others; a failed commit rolls back all of its jobs, which are answered `Unavailable`.
//!
//! `words.sqlite` is a full-text index. Messages that are not indexed yet are searched directly, so the file may be deleted.
//!
//! Rows have checksums. Damaged data is never returned as if it were intact: a gap replaces a message, a session is marked, and
//! data that is derived from messages is rebuilt. Opening the store checks everything except messages, which are checked when
//! they are read and by [`verify`].

mod checksum;
mod damage;
mod list;
mod read;
mod schema;
mod verify;
mod word_index;
mod write;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sabir_core::fold::Overview;
use sabir_core::time::Timestamp;
use sabir_protocol::{Hello, Order, SessionId, Taken};
use sabir_store::private;
use tokio::sync::{broadcast, watch};

use super::session_watch::SessionWatch;
use super::{
    AddCommandResult, AppendRequest, AppendResult, Artifact, ArtifactStore, CommandStore, MessageReader, MessageWriter,
    OpenResult, OverviewStore, ReadLimit, SessionFilter, SessionHead, SessionIndex, SessionPage, SessionRecord, Store,
    StoreFuture, StoredCommand, StoredMessage, TokenStore, tokenize,
};
use crate::auth::token::Token;
use crate::error::StoreError;
use crate::now;
use crate::quota::Quota;
use damage::Damage;
use read::ReadPool;
use word_index::WordIndex;
use write::Writer;

pub use verify::{Problem, Verification, verify};

const DATABASE: &str = "hub.sqlite";
const WORDS: &str = "words.sqlite";
const LOCK: &str = "lock";
/// Prefixes of all names in the folder of a hub.
const FILE_PREFIXES: [&str; 5] = [DATABASE, WORDS, LOCK, "audit.jsonl", "artifacts"];

/// A store in a folder.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    readers: Arc<ReadPool>,
    watch: Arc<SessionWatch>,
    quota: Arc<Quota>,
    damage: Arc<Damage>,
    /// Dropped after the writer, which wakes it.
    _index: Option<WordIndex>,
    /// Locked while the store is open.
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens the store in a folder, which is created if necessary. Fails with `ResourceBusy` if another process has it open.
    pub fn open(folder: &Path) -> io::Result<Self> {
        create_folder(folder)?;
        let lock = Self::lock(folder)?;
        Self::with_lock(folder, Some(lock))
    }

    /// Locks the folder until the file is dropped.
    fn lock(folder: &Path) -> io::Result<File> {
        let lock = owner_only().create(true).truncate(false).open(folder.join(LOCK))?;
        if lock.try_lock().is_err() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another hub uses this folder"));
        }
        Ok(lock)
    }

    /// Opens the store without the lock, next to a running hub: for managing tokens.
    pub fn open_unlocked(folder: &Path) -> io::Result<Self> {
        create_folder(folder)?;
        Self::with_lock(folder, None)
    }

    fn with_lock(folder: &Path, lock: Option<File>) -> io::Result<Self> {
        let (database, words) = (folder.join(DATABASE), folder.join(WORDS));
        // Created here because SQLite would make it readable for everybody.
        owner_only().create(true).truncate(false).open(&database)?;
        let connection = schema::open(&database)?;
        let damage = Arc::new(Damage::default());
        if lock.is_some() {
            verify::check_on_open(&connection, &damage);
        }
        let quota = Arc::new(Quota::default());
        // Only the owner of the lock fills the index, and only after the tables exist.
        let index = lock.as_ref().and_then(|_| WordIndex::start(database.clone(), words.clone(), Arc::clone(&quota)));
        let writer = Writer::start(connection, index.as_ref().and_then(WordIndex::wake), Arc::clone(&quota))?;
        let index_damaged = index.as_ref().map(WordIndex::damaged).unwrap_or_default();
        let readers = Arc::new(ReadPool::new(database, words, Arc::clone(&damage), index_damaged));
        Ok(Self { writer, readers, watch: Arc::default(), quota, damage, _index: index, _lock: lock })
    }

    /// Sets the size limit; `None` removes it. Writes beyond it fail with [`StoreError::Unavailable`].
    pub fn set_limit(&self, bytes: Option<u64>) -> StoreFuture<()> {
        self.quota.set_limit(bytes);
        // The writer applies a changed limit before its next job.
        self.writer.submit(|_| Ok(()), |()| {})
    }

    /// Runs a job that changes a session, and publishes its new head after the commit.
    fn change<T: Send + 'static>(
        &self,
        session: SessionId,
        job: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<(T, Option<SessionHead>)> + Send + 'static,
    ) -> StoreFuture<T> {
        let watch = Arc::clone(&self.watch);
        let publish = move |(_, head): &(T, Option<SessionHead>)| {
            if let Some(head) = head {
                watch.publish(&session, *head);
            }
        };
        let reply = self.writer.submit(job, publish);
        Box::pin(async move { reply.await.map(|(value, _)| value) })
    }
}

/// Creates the folder, and removes other users' access to the files of a hub. Other files are left alone.
fn create_folder(folder: &Path) -> io::Result<()> {
    private::create_folder(folder)?;
    private::tighten(folder);
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        if FILE_PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            private::tighten(&entry.path());
        }
    }
    Ok(())
}

fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    private::options(options.read(true).write(true));
    options
}

/// Removes a database and its `-wal` and `-shm` files.
fn remove_database(database: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

fn store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, OutOfMemory, PermissionDenied, ReadOnly,
        SystemIoFailure,
    };
    match error.sqlite_error_code() {
        Some(
            DiskFull
            | SystemIoFailure
            | DatabaseBusy
            | DatabaseLocked
            | CannotOpen
            | ReadOnly
            | PermissionDenied
            | OutOfMemory
            | FileLockingProtocolFailed,
        ) => StoreError::Unavailable(error.to_string()),
        _ if damage::is_damage(error) => StoreError::Damaged(error.to_string()),
        _ => StoreError::Internal(error.to_string()),
    }
}

impl From<Arc<SqliteStore>> for Store {
    fn from(backend: Arc<SqliteStore>) -> Self {
        let quota = Arc::clone(&backend.quota);
        Self::writable(backend, quota)
    }
}

impl MessageReader for SqliteStore {
    fn read(&self, session: &SessionId, after: u64, limit: ReadLimit) -> StoreFuture<Vec<StoredMessage>> {
        let session = session.clone();
        self.readers.run(move |database, damage| read::messages(database, &session, after, limit, damage))
    }

    fn last_seq(&self, session: &SessionId) -> StoreFuture<Option<u64>> {
        let session = session.clone();
        self.readers.run(move |database, damage| Ok(read::head(database, &session, damage)?.map(|head| head.last)))
    }

    fn watch(&self, session: &SessionId) -> StoreFuture<Option<watch::Receiver<SessionHead>>> {
        let session = session.clone();
        let watch = Arc::clone(&self.watch);
        // Subscribe before reading the head, so that a commit in between is not missed.
        let receiver = watch.subscribe(&session);
        let id = session.clone();
        let head = self.readers.run(move |database, damage| read::head(database, &id, damage));
        Box::pin(async move {
            Ok(head.await?.map(|head| {
                watch.raise(&session, head);
                receiver
            }))
        })
    }
}

impl SessionIndex for SqliteStore {
    fn session(&self, session: &SessionId) -> StoreFuture<Option<SessionRecord>> {
        let session = session.clone();
        self.readers.run(move |database, damage| list::session(database, &session, damage))
    }

    fn sessions(&self, filter: SessionFilter) -> StoreFuture<SessionPage> {
        let index_damaged = self.readers.index_damaged();
        self.readers.run(move |database, damage| list::sessions(database, &filter, damage, &index_damaged))
    }

    fn agents(&self) -> StoreFuture<Vec<String>> {
        self.readers.run(|database, _| list::agents(database))
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.watch.changes()
    }

    fn health(&self) -> StoreFuture<Vec<String>> {
        let read = self.readers.run(|database, _| read::probe(database));
        let write = self.writer.submit(write::probe, |()| {});
        let damage = Arc::clone(&self.damage);
        Box::pin(async move {
            read.await?;
            write.await?;
            Ok(damage.summary())
        })
    }
}

impl TokenStore for SqliteStore {
    fn add_token(&self, token: Token) -> StoreFuture<()> {
        self.writer.submit(move |database| write::add_token(database, &token), |()| {})
    }

    fn tokens(&self) -> StoreFuture<Vec<Token>> {
        self.readers.run(read::tokens)
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> StoreFuture<bool> {
        let id = id.to_owned();
        self.writer.submit(move |database| write::revoke_token(database, &id, at), |_| {})
    }
}

impl MessageWriter for SqliteStore {
    fn open_session(&self, hello: Hello, connection: bool) -> StoreFuture<OpenResult> {
        let connection = if connection { self.watch.next_connection() } else { 0 };
        let damage = Arc::clone(&self.damage);
        self.change(hello.session.clone(), move |database| {
            let opened = write::open(database, &hello, connection, now(), &damage)?;
            let head = match &opened {
                OpenResult::Welcome { epoch, last, .. } => {
                    Some(SessionHead { last: *last, epoch: *epoch, connection, ..SessionHead::default() })
                }
                OpenResult::Refused(_) => None,
            };
            Ok((opened, head))
        })
    }

    fn append(&self, request: AppendRequest) -> StoreFuture<AppendResult> {
        if self.damage.is_unreadable() {
            // Messages that cannot be read back are not acknowledged. The next batch is accepted if this probe succeeds.
            let probe = self.readers.run(|database, _| read::probe(database));
            let unreadable = || StoreError::Unavailable("the database cannot be read".to_owned());
            return Box::pin(async move { probe.await.and_then(|()| Err(unreadable())) });
        }
        let damage = Arc::clone(&self.damage);
        self.change(request.session.clone(), move |database| {
            let appended = write::append(database, &request, now(), &damage)?;
            let head = match &appended {
                AppendResult::Stored { last, .. } => {
                    Some(SessionHead { last: *last, epoch: request.epoch, ..SessionHead::default() })
                }
                AppendResult::Gap { .. } | AppendResult::Refused(_) => None,
            };
            Ok((appended, head))
        })
    }
}

impl OverviewStore for SqliteStore {
    fn put_overview(&self, session: &SessionId, seq: u64, overview: Overview) -> StoreFuture<()> {
        let session = session.clone();
        self.writer.submit(move |database| write::put_overview(database, &session, seq, &overview), |()| {})
    }

    fn outdated_overviews(&self) -> StoreFuture<Vec<SessionId>> {
        self.readers.run(|database, _| list::outdated_overviews(database))
    }
}

impl CommandStore for SqliteStore {
    fn add_command(&self, session: &SessionId, command: Order, at: Timestamp) -> StoreFuture<AddCommandResult> {
        let (id, damage) = (session.clone(), Arc::clone(&self.damage));
        self.change(session.clone(), move |database| {
            let added = write::add_command(database, &id, command, at, &damage)?;
            let head = match &added {
                AddCommandResult::Added(command) => Some(SessionHead { last_command: command.order, ..SessionHead::default() }),
                AddCommandResult::UnknownSession | AddCommandResult::Full { .. } => None,
            };
            Ok((added, head))
        })
    }

    fn commands(&self, session: &SessionId, after: u64) -> StoreFuture<Vec<StoredCommand>> {
        let session = session.clone();
        self.readers.run(move |database, _| read::commands(database, &session, after))
    }

    fn resolve_command(&self, session: &SessionId, taken: Taken, at: Timestamp) -> StoreFuture<bool> {
        let session = session.clone();
        self.writer.submit(move |database| write::resolve_command(database, &session, taken, at), |_| {})
    }
}

impl ArtifactStore for SqliteStore {
    fn put_artifact(&self, session: &SessionId, artifact: Artifact) -> StoreFuture<bool> {
        let session = session.clone();
        self.writer.submit(move |database| write::put_artifact(database, &session, &artifact), |_| {})
    }

    fn artifacts(&self, session: &SessionId) -> StoreFuture<Vec<Artifact>> {
        let session = session.clone();
        self.readers.run(move |database, _| read::artifacts(database, &session))
    }
}
