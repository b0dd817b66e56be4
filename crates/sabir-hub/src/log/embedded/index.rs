//! The index of words, which is filled behind.
//!
//! It has a file of its own, so that filling it never holds up a commit of messages, and it says itself how far it is.
//! Losing its last commits costs a second look at some messages, so it does not wait for the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::damage::is_damage;
use super::{remove, schema, words};

/// Another number is another index.
const VERSION: u32 = 1;
/// So many messages are indexed in one commit.
const TOGETHER: u32 = 2_000;
/// No further message is, once there are so many bytes of words.
const WORDS_BYTES: usize = 1 << 20;
/// How long messages are gathered before the next are indexed.
const GATHER: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Index {
    wake: Option<SyncSender<()>>,
    /// Somebody found that the index is damaged.
    broken: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Index {
    /// Starts the thread that fills it. `None` where no thread can be had: everything is looked at directly then.
    pub(super) fn start(database: PathBuf, words: PathBuf) -> Option<Self> {
        // Made here, before there is anybody else who would make it too. Without room or with a broken disk there is none yet.
        let _ = open(&database, &words);
        // There may be messages from before, so it begins with a look.
        let (wake, woken) = sync_channel(1);
        let _ = wake.try_send(());
        let stop = Arc::new(AtomicBool::new(false));
        let broken = Arc::new(AtomicBool::new(false));
        let (stopped, is_broken) = (Arc::clone(&stop), Arc::clone(&broken));
        let run = move || fill_along(&database, &words, &woken, &stopped, &is_broken);
        let thread = std::thread::Builder::new().name("hub-words".to_owned()).spawn(run).ok()?;
        Some(Self { wake: Some(wake), broken, stop, thread: Some(thread) })
    }

    /// What is to be called after a commit.
    pub(super) fn wake(&self) -> Option<SyncSender<()>> {
        self.wake.clone()
    }

    /// Where who finds that the index is damaged says so. It is made anew after the next commit.
    pub(super) fn broken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.broken)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread ends when the writer has let go of its end as well, which it did before.
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn fill_along(database: &Path, words: &Path, woken: &Receiver<()>, stop: &AtomicBool, broken: &AtomicBool) {
    let mut open = None;
    while woken.recv().is_ok() {
        if broken.swap(false, Ordering::Relaxed) {
            open = None;
            remove(words);
        }
        // Without room or with a broken file nothing is indexed, and the next call tries again.
        if open.is_none() {
            open = self::open(database, words).ok();
        }
        while let Some(connection) = open.as_ref().filter(|_| !stop.load(Ordering::Relaxed)) {
            match fill(connection, broken) {
                Ok(false) => break,
                Ok(true) => {}
                Err(_) => open = None,
            }
        }
        if !stop.load(Ordering::Relaxed) {
            // Under load this makes large commits of many small ones.
            std::thread::sleep(GATHER);
        }
    }
}

fn open(database: &Path, words: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(schema::PATIENCE)?;
    attach(&connection, words).or_else(|error| {
        if schema::is_busy(&error) {
            return Err(error);
        }
        remove(words);
        attach(&connection, words)
    })?;
    Ok(connection)
}

/// Attaches the index, and makes it where there is none that can be used.
pub(super) fn attach(connection: &Connection, words: &Path) -> rusqlite::Result<()> {
    let query_only: bool = connection.pragma_query_value(None, "query_only", |row| row.get(0))?;
    connection.pragma_update(None, "query_only", false)?;
    connection.execute("ATTACH ?1 AS words", params![words.to_string_lossy()])?;
    schema::write_ahead(connection, Some("words"))?;
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

/// Whether the index can be read and is sound.
pub(super) fn check(connection: &Connection, words: &Path) -> rusqlite::Result<()> {
    attach(connection, words)?;
    let found: String = connection.query_row("PRAGMA words.integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(found)))
}

/// Up to which message the index goes.
pub(super) fn progress(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT message FROM words.progress")?.query_row([], |row| row.get(0))
}

/// Indexes the next messages, and says whether there may be more. Says too if the index is damaged.
fn fill(connection: &Connection, broken: &AtomicBool) -> rusqlite::Result<bool> {
    let of_index = |error: rusqlite::Error| {
        broken.fetch_or(is_damage(&error), Ordering::Relaxed);
        error
    };
    let mut last = progress(connection).map_err(of_index)?;
    let mut lines = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    let mut more = false;
    {
        // Read first, then write: a transaction over both files would hold up who writes messages.
        let mut select = connection.prepare_cached("SELECT id, line FROM message WHERE id > ?1 ORDER BY id")?;
        let mut rows = select.query(params![last])?;
        while let Some(row) = if more { None } else { rows.next()? } {
            last = row.get(0)?;
            let words = words::of(row.get_ref(1)?.as_blob()?);
            (count, bytes) = (count + 1, bytes + words.len());
            lines.extend(Some((last, words)).filter(|(_, words)| !words.is_empty()));
            more = count == TOGETHER || bytes >= WORDS_BYTES;
        }
    }
    if count > 0 {
        insert(connection, &lines, last).map_err(of_index)?;
    }
    Ok(more)
}

fn insert(connection: &Connection, lines: &[(i64, String)], last: i64) -> rusqlite::Result<()> {
    // Deferred: only the file that is written to is locked.
    let transaction = connection.unchecked_transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO words.found (rowid, words) VALUES (?1, ?2)")?;
        for (id, words) in lines {
            insert.execute(params![id, words])?;
        }
        transaction.execute("UPDATE words.progress SET message = ?1", [last])?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::{attach, fill, progress};

    #[test]
    fn what_is_kept_is_indexed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = schema::open(&folder.path().join("a.sqlite")).expect("tables");
        attach(&connection, &folder.path().join("w.sqlite")).expect("an index");
        for seq in 1..=3 {
            let line = format!(r#"{{"type":"log","payload":{{"text":"word{seq} same"}}}}"#);
            let values = rusqlite::params![seq, line.as_bytes()];
            connection.execute("INSERT INTO message (session, seq, line) VALUES (1, ?1, ?2)", values).expect("kept");
        }
        let broken = std::sync::atomic::AtomicBool::new(false);
        assert!(!fill(&connection, &broken).expect("filled") && !fill(&connection, &broken).expect("filled"));
        assert_eq!(progress(&connection).expect("a number"), 3);
        let count = |query: &str| -> i64 {
            let select = "SELECT count(*) FROM words.found WHERE found MATCH ?1";
            connection.query_row(select, [query], |row| row.get(0)).expect("a count")
        };
        assert_eq!((count("\"same\"*"), count("\"wor\"* \"word2\"*"), count("\"other\"*")), (3, 1, 0));
    }
}
