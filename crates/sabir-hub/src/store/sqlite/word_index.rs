//! Full-text index of messages, filled by a background thread.
//!
//! The index has a file of its own, so that filling it never delays a commit of messages, and it stores its own progress. If its
//! last commits are lost, some messages are indexed again, so it is not synced.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, params};
use sabir_store::private;

use super::damage::is_damage;
use super::{remove_database, schema, tokenize};
use crate::quota::{Part, Quota};

/// Version of the index format; another version is rebuilt.
const VERSION: u32 = 1;
/// Maximum number of messages per commit.
const BATCH_MESSAGES: u32 = 2_000;
/// A commit is full at this many bytes of text.
const BATCH_BYTES: usize = 1 << 20;
/// Pause between two rounds, so that small commits of messages are indexed together.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Handle of the indexer thread.
#[derive(Debug)]
pub(super) struct WordIndex {
    wake: Option<SyncSender<()>>,
    /// Set by readers that find the index damaged.
    damaged: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WordIndex {
    /// Starts the indexer thread. `None` if it cannot be started; all messages are searched directly then.
    pub(super) fn start(database: PathBuf, words: PathBuf, quota: Arc<Quota>) -> Option<Self> {
        // Created before readers exist, which would create it too. A full or broken disk is retried by the thread.
        let created = open(&database, &words);
        quota.set(Part::Words, created.and_then(|index| schema::size(&index, "words")).unwrap_or_default());
        // Start with a round for messages of earlier runs.
        let (wake, woken) = sync_channel(1);
        let _ = wake.try_send(());
        let stop = Arc::new(AtomicBool::new(false));
        let damaged = Arc::new(AtomicBool::new(false));
        let (stopped, is_damaged) = (Arc::clone(&stop), Arc::clone(&damaged));
        let run = move || run(&database, &words, &woken, &stopped, &is_damaged, &quota);
        let thread = std::thread::Builder::new().name("hub-words".to_owned()).spawn(run).ok()?;
        Some(Self { wake: Some(wake), damaged, stop, thread: Some(thread) })
    }

    /// Channel that wakes the thread after a commit.
    pub(super) fn wake(&self) -> Option<SyncSender<()>> {
        self.wake.clone()
    }

    /// Flag for readers that find the index damaged; it is rebuilt after the next commit.
    pub(super) fn damaged(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.damaged)
    }
}

impl Drop for WordIndex {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread ends once all senders are gone; the writer has dropped its own before.
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(database: &Path, words: &Path, woken: &Receiver<()>, stop: &AtomicBool, damaged: &AtomicBool, quota: &Quota) {
    let mut connection = None;
    while woken.recv().is_ok() {
        if damaged.swap(false, Ordering::Relaxed) {
            connection = None;
            remove_database(words);
        }
        // After a failure, such as a full disk, the next round tries again.
        if connection.is_none() {
            connection = open(database, words).ok();
        }
        // Beyond the size limit nothing is indexed; those messages are searched directly.
        while let Some(index) = connection.as_ref().filter(|_| !stop.load(Ordering::Relaxed) && !quota.is_full(Part::Words)) {
            let more = index_batch(index, damaged);
            quota.set(Part::Words, schema::size(index, "words").unwrap_or_default());
            match more {
                Ok(false) => break,
                Ok(true) => {}
                Err(_) => connection = None,
            }
        }
        if !stop.load(Ordering::Relaxed) {
            std::thread::sleep(DEBOUNCE);
        }
    }
}

fn open(database: &Path, words: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(schema::BUSY_TIMEOUT)?;
    attach(&connection, words).or_else(|error| {
        if schema::is_busy(&error) {
            return Err(error);
        }
        remove_database(words);
        attach(&connection, words)
    })?;
    Ok(connection)
}

/// Attaches the index as `words`, and creates it if it is missing or has another version.
pub(super) fn attach(connection: &Connection, words: &Path) -> rusqlite::Result<()> {
    let query_only: bool = connection.pragma_query_value(None, "query_only", |row| row.get(0))?;
    connection.pragma_update(None, "query_only", false)?;
    // SQLite would make the file readable for everybody.
    if let Err(error) = private::options(OpenOptions::new().write(true).create(true).truncate(false)).open(words) {
        return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
    }
    connection.execute("ATTACH ?1 AS words", params![words.to_string_lossy()])?;
    schema::enable_wal(connection, Some("words"))?;
    connection.pragma_update(Some("words"), "synchronous", "normal")?;
    let version: u32 = connection.pragma_query_value(Some("words"), "user_version", |row| row.get(0))?;
    if version != VERSION {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             DROP TABLE IF EXISTS words.found;
             DROP TABLE IF EXISTS words.progress;
             CREATE VIRTUAL TABLE words.found USING fts5(words, content='', detail=none, tokenize='unicode61 remove_diacritics 0');
             CREATE TABLE words.progress (message INTEGER NOT NULL) STRICT;
             INSERT INTO words.progress VALUES (0);
             PRAGMA words.user_version = {VERSION};
             COMMIT;"
        ))?;
    }
    connection.pragma_update(None, "query_only", query_only)
}

/// Checks the integrity of the index.
pub(super) fn check(connection: &Connection, words: &Path) -> rusqlite::Result<()> {
    attach(connection, words)?;
    let result: String = connection.query_row("PRAGMA words.integrity_check(1)", [], |row| row.get(0))?;
    if result == "ok" {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(result)))
}

/// Row id of the last indexed message.
pub(super) fn progress(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT message FROM words.progress")?.query_row([], |row| row.get(0))
}

/// Indexes the next messages; `true` if there may be more. Sets `damaged` if the index is.
fn index_batch(connection: &Connection, damaged: &AtomicBool) -> rusqlite::Result<bool> {
    let index_error = |error: rusqlite::Error| {
        damaged.fetch_or(is_damage(&error), Ordering::Relaxed);
        error
    };
    let mut last = progress(connection).map_err(index_error)?;
    let mut texts = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    let mut more = false;
    {
        // Read, then write: a transaction over both files would block the writer of messages.
        let mut select = connection.prepare_cached("SELECT id, line FROM message WHERE id > ?1 ORDER BY id")?;
        let mut rows = select.query(params![last])?;
        while let Some(row) = if more { None } else { rows.next()? } {
            last = row.get(0)?;
            let text = tokenize::index_text(row.get_ref(1)?.as_blob()?);
            (count, bytes) = (count + 1, bytes + text.len());
            texts.extend(Some((last, text)).filter(|(_, text)| !text.is_empty()));
            more = count == BATCH_MESSAGES || bytes >= BATCH_BYTES;
        }
    }
    if count > 0 {
        insert(connection, &texts, last).map_err(index_error)?;
    }
    Ok(more)
}

fn insert(connection: &Connection, texts: &[(i64, String)], last: i64) -> rusqlite::Result<()> {
    // Deferred, so that only `words.sqlite` is locked.
    let transaction = connection.unchecked_transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO words.found (rowid, words) VALUES (?1, ?2)")?;
        for (id, text) in texts {
            insert.execute(params![id, text])?;
        }
        transaction.execute("UPDATE words.progress SET message = ?1", [last])?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::{attach, index_batch, progress};

    #[test]
    fn indexes_each_message_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = schema::open(&folder.path().join("a.sqlite")).expect("tables");
        attach(&connection, &folder.path().join("w.sqlite")).expect("an index");
        for seq in 1..=3 {
            let line = format!(r#"{{"type":"log","payload":{{"text":"word{seq} same"}}}}"#);
            let values = rusqlite::params![seq, line.as_bytes()];
            connection.execute("INSERT INTO message (session, seq, line) VALUES (1, ?1, ?2)", values).expect("inserted");
        }
        let damaged = std::sync::atomic::AtomicBool::new(false);
        assert!(!index_batch(&connection, &damaged).expect("indexed") && !index_batch(&connection, &damaged).expect("indexed"));
        assert_eq!(progress(&connection).expect("a number"), 3);
        let count = |query: &str| -> i64 {
            let select = "SELECT count(*) FROM words.found WHERE found MATCH ?1";
            connection.query_row(select, [query], |row| row.get(0)).expect("a count")
        };
        assert_eq!((count("\"same\"*"), count("\"wor\"* \"word2\"*"), count("\"other\"*")), (3, 1, 0));
    }
}
