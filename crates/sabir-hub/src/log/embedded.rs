//! The log in a folder: one machine, no other service.
//!
//! ```text
//!  begin, append, orders …                              sessions, read …
//!    │ job, answer                                        │
//!    ▼                                                    ▼
//!  queue ──► one thread: BEGIN, many jobs, COMMIT ──►  hub.sqlite ◄── readers, each with a connection
//!                     (a savepoint for each job)          │
//!                                                         ▼
//!                                one thread, behind ──► words.sqlite
//! ```
//!
//! Whoever waits while a commit goes on shares the next one, so a thousand shells cost hardly more syncs than one. An answer
//! is given after the commit, and a commit is synced (`synchronous=FULL`). A job that fails takes back what it did and harms
//! no other; a commit that fails takes back all of its jobs, and they are told that there is no room.
//!
//! `words.sqlite` is an index and nothing else: what is not in it yet is looked at directly, and it may be removed.
//!
//! Rows have checksums. What is damaged is never given out: in the place of a message there is a gap, a session is marked, and
//! what is derived from messages is made anew. When the log is opened all but the messages is looked at; those are when they
//! are read, and by [`verify`].

mod checksum;
mod damage;
mod index;
mod list;
mod read;
mod schema;
mod verify;
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

use super::heads::Heads;
use super::{
    Added, Answer, Append, Appended, Artifact, Begun, Filter, Head, Limit, Log, Page, Placed, Session, Stored, Trouble, words,
};
use crate::auth::token::Token;
use crate::clock::now;
use crate::quota::Quota;
use damage::Damage;
use index::Index;
use read::Readers;
use write::Writer;

pub use verify::{Problem, Verification, verify};

const DATABASE: &str = "hub.sqlite";
const WORDS: &str = "words.sqlite";
const LOCK: &str = "lock";
/// What the names of a hub's files and folders begin with.
const OWN: [&str; 5] = [DATABASE, WORDS, LOCK, "audit.jsonl", "artifacts"];

/// A log in a folder.
#[derive(Debug)]
pub struct Embedded {
    writer: Writer,
    readers: Arc<Readers>,
    heads: Arc<Heads>,
    quota: Arc<Quota>,
    damage: Arc<Damage>,
    /// Let go after the writer, which calls it.
    _index: Option<Index>,
    /// Held as long as the log is open.
    _lock: Option<File>,
}

impl Embedded {
    /// Opens the log in a folder, which is made if it is not there. One process at a time has it open.
    pub fn open(folder: &Path) -> io::Result<Self> {
        make(folder)?;
        let lock = Self::lock(folder)?;
        Self::with(folder, Some(lock))
    }

    /// Takes the folder for this process alone, as long as the file is open.
    fn lock(folder: &Path) -> io::Result<File> {
        let lock = owner_only().create(true).truncate(false).open(folder.join(LOCK))?;
        if lock.try_lock().is_err() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another hub uses this folder"));
        }
        Ok(lock)
    }

    /// Opens it beside a hub that may be running: for tokens.
    pub fn open_beside(folder: &Path) -> io::Result<Self> {
        make(folder)?;
        Self::with(folder, None)
    }

    fn with(folder: &Path, lock: Option<File>) -> io::Result<Self> {
        let (database, words) = (folder.join(DATABASE), folder.join(WORDS));
        // The file is made here, so that it is its owner's alone from the start.
        owner_only().create(true).truncate(false).open(&database)?;
        let connection = schema::open(&database)?;
        let damage = Arc::new(Damage::default());
        if lock.is_some() {
            verify::examine(&connection, &damage);
        }
        let quota = Arc::new(Quota::default());
        // Who has the log alone fills the index, once there are tables to fill it from.
        let index = lock.as_ref().and_then(|_| Index::start(database.clone(), words.clone(), Arc::clone(&quota)));
        let writer = Writer::start(connection, index.as_ref().and_then(Index::wake), Arc::clone(&quota))?;
        let broken = index.as_ref().map(Index::broken).unwrap_or_default();
        let readers = Arc::new(Readers::new(database, words, Arc::clone(&damage), broken));
        Ok(Self { writer, readers, heads: Arc::default(), quota, damage, _index: index, _lock: lock })
    }

    /// Keeps no more than about so many bytes, or as many as the disk has: beyond that nothing is taken.
    pub fn limit(&self, bytes: Option<u64>) -> Answer<()> {
        self.quota.set_limit(bytes);
        // The thread that writes looks at the limit before it does anything.
        self.writer.submit(|_| Ok(()), |()| {})
    }

    /// Does something that changes what is kept, and then tells those who follow the session.
    fn change<T: Send + 'static>(
        &self,
        session: SessionId,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<(T, Option<Head>)> + Send + 'static,
    ) -> Answer<T> {
        let heads = Arc::clone(&self.heads);
        let tell = move |(_, head): &(T, Option<Head>)| {
            if let Some(head) = head {
                heads.changed(&session, *head);
            }
        };
        let answer = self.writer.submit(work, tell);
        Box::pin(async move { answer.await.map(|(value, _)| value) })
    }
}

/// Makes the folder, and removes the access of others to what a hub has in it. A file of somebody else stays as it is.
fn make(folder: &Path) -> io::Result<()> {
    private::create_folder(folder)?;
    private::tighten(folder);
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
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

/// Removes a database with what belongs to it.
fn remove(database: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(ending);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

/// What an error of the database means to who asked.
fn trouble(error: &rusqlite::Error) -> Trouble {
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
        ) => Trouble::Unavailable(error.to_string()),
        _ if damage::is_damage(error) => Trouble::Damaged(error.to_string()),
        _ => Trouble::Internal(error.to_string()),
    }
}

impl Log for Embedded {
    fn begin(&self, hello: Hello, connection: bool) -> Answer<Begun> {
        let connection = if connection { self.heads.connection() } else { 0 };
        let damage = Arc::clone(&self.damage);
        self.change(hello.session.clone(), move |database| {
            let begun = write::begin(database, &hello, connection, now(), &damage)?;
            let head = match &begun {
                Begun::Welcome { epoch, last, .. } => Some(Head { last: *last, epoch: *epoch, connection, ..Head::default() }),
                Begun::Refused(_) => None,
            };
            Ok((begun, head))
        })
    }

    fn append(&self, batch: Append) -> Answer<Appended> {
        if self.damage.is_unreadable() {
            // What can't be read back is not acknowledged. The next batch is taken if this read goes well.
            let probe = self.readers.ask(|database, _| read::probe(database));
            let refused = || Trouble::Unavailable("what is kept can't be read".to_owned());
            return Box::pin(async move { probe.await.and_then(|()| Err(refused())) });
        }
        let damage = Arc::clone(&self.damage);
        self.change(batch.session.clone(), move |database| {
            let appended = write::append(database, &batch, now(), &damage)?;
            let head = match &appended {
                Appended::Kept { last, .. } => Some(Head { last: *last, epoch: batch.epoch, ..Head::default() }),
                Appended::Gap { .. } | Appended::Refused(_) => None,
            };
            Ok((appended, head))
        })
    }

    fn read(&self, session: &SessionId, after: u64, limit: Limit) -> Answer<Vec<Stored>> {
        let session = session.clone();
        self.readers.ask(move |database, damage| read::messages(database, &session, after, limit, damage))
    }

    fn follow(&self, session: &SessionId) -> Answer<Option<watch::Receiver<Head>>> {
        let session = session.clone();
        let heads = Arc::clone(&self.heads);
        // First the place, then the figures: what is committed in between is told in this place.
        let receiver = heads.follow(&session);
        let asked = session.clone();
        let head = self.readers.ask(move |database, damage| read::head(database, &asked, damage));
        Box::pin(async move {
            Ok(head.await?.map(|head| {
                heads.at_least(&session, head);
                receiver
            }))
        })
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.heads.changes()
    }

    fn add_order(&self, session: &SessionId, order: Order, at: Timestamp) -> Answer<Added> {
        let (id, damage) = (session.clone(), Arc::clone(&self.damage));
        self.change(session.clone(), move |database| {
            let added = write::add_order(database, &id, order, at, &damage)?;
            let head = match &added {
                Added::Order(order) => Some(Head { orders: order.order, ..Head::default() }),
                Added::NoSession | Added::Full { .. } => None,
            };
            Ok((added, head))
        })
    }

    fn orders(&self, session: &SessionId, after: u64) -> Answer<Vec<Placed>> {
        let session = session.clone();
        self.readers.ask(move |database, _| read::orders(database, &session, after))
    }

    fn taken(&self, session: &SessionId, taken: Taken, at: Timestamp) -> Answer<bool> {
        let session = session.clone();
        self.writer.submit(move |database| write::taken(database, &session, taken, at), |_| {})
    }

    fn describe(&self, session: &SessionId, folded: u64, overview: Overview) -> Answer<()> {
        let session = session.clone();
        self.writer.submit(move |database| write::describe(database, &session, folded, &overview), |()| {})
    }

    fn session(&self, session: &SessionId) -> Answer<Option<Session>> {
        let session = session.clone();
        self.readers.ask(move |database, damage| list::session(database, &session, damage))
    }

    fn length(&self, session: &SessionId) -> Answer<Option<u64>> {
        let session = session.clone();
        self.readers.ask(move |database, damage| Ok(read::head(database, &session, damage)?.map(|head| head.last)))
    }

    fn sessions(&self, filter: Filter) -> Answer<Page> {
        let broken = self.readers.broken();
        self.readers.ask(move |database, damage| list::sessions(database, &filter, damage, &broken))
    }

    fn health(&self) -> Answer<Vec<String>> {
        let read = self.readers.ask(|database, _| read::probe(database));
        let write = self.writer.submit(write::probe, |()| {});
        let damage = Arc::clone(&self.damage);
        Box::pin(async move {
            read.await?;
            write.await?;
            Ok(damage.reasons())
        })
    }

    fn agents(&self) -> Answer<Vec<String>> {
        self.readers.ask(|database, _| list::agents(database))
    }

    fn behind(&self) -> Answer<Vec<SessionId>> {
        self.readers.ask(|database, _| list::behind(database))
    }

    fn put_artifact(&self, session: &SessionId, artifact: Artifact) -> Answer<bool> {
        let session = session.clone();
        self.writer.submit(move |database| write::put_artifact(database, &session, &artifact), |_| {})
    }

    fn artifacts(&self, session: &SessionId) -> Answer<Vec<Artifact>> {
        let session = session.clone();
        self.readers.ask(move |database, _| read::artifacts(database, &session))
    }

    fn add_token(&self, token: Token) -> Answer<()> {
        self.writer.submit(move |database| write::add_token(database, &token), |()| {})
    }

    fn tokens(&self) -> Answer<Vec<Token>> {
        self.readers.ask(read::tokens)
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> Answer<bool> {
        let id = id.to_owned();
        self.writer.submit(move |database| write::revoke_token(database, &id, at), |_| {})
    }

    fn quota(&self) -> Arc<Quota> {
        Arc::clone(&self.quota)
    }
}
