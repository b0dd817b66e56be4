//! The tables.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use super::checksum;

/// Another number is another set of tables.
const VERSION: u32 = 2;
/// An overview that takes more bytes than this was written before there was a limit, and is made anew.
const OVERVIEW_BYTES: usize = 64 << 10;

/// How long somebody waits for another process that writes.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A rowid table with an index beside it: with the messages in the tree of the index, every split of a page would move them.
const TABLES: &str = "
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    writer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    start INTEGER NOT NULL,
    last INTEGER NOT NULL,
    orders INTEGER NOT NULL DEFAULT 0,
    shell TEXT,
    takes TEXT NOT NULL DEFAULT '[]',
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    folded INTEGER NOT NULL DEFAULT 0,
    agent TEXT,
    phase TEXT NOT NULL DEFAULT 'starting',
    workspace TEXT,
    overview TEXT NOT NULL DEFAULT '{}',
    checksum INTEGER,
    derived INTEGER
) STRICT;
CREATE INDEX session_agent ON session (agent);
CREATE INDEX session_behind ON session (id) WHERE folded < last;
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    line BLOB NOT NULL,
    checksum INTEGER
) STRICT;
CREATE UNIQUE INDEX message_seq ON message (session, seq);
CREATE TABLE placed (
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    placed TEXT NOT NULL,
    open INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT;
CREATE TABLE artifact (
    session INTEGER NOT NULL,
    digest TEXT NOT NULL,
    artifact TEXT NOT NULL,
    PRIMARY KEY (session, digest)
) STRICT;
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    token TEXT NOT NULL
) STRICT;
";

/// From version 1 to 2: rows have checksums. Those of messages come with new messages alone, since there may be many old ones.
const CHECKSUMS: &str = "
ALTER TABLE session ADD COLUMN checksum INTEGER;
ALTER TABLE session ADD COLUMN derived INTEGER;
ALTER TABLE message ADD COLUMN checksum INTEGER;
";

/// Makes what is derived from the messages of a session anew.
pub(super) const FORGET: &str = "
UPDATE session SET folded = 0, phase = 'starting', workspace = NULL,
    overview = iif(agent IS NULL, '{}', json_object('agent', agent)) WHERE id = ?1";

/// The connection that writes. Makes the tables where there are none.
pub(super) fn open(path: &Path) -> io::Result<Connection> {
    let (connection, version) = prepare(path).map_err(io::Error::other)?;
    if version > VERSION {
        let what = format!("a newer version wrote it (tables {version}; this one knows {VERSION})");
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(connection)
}

/// Opens the database, and says which version of the tables it had.
fn prepare(path: &Path) -> rusqlite::Result<(Connection, u32)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    write_ahead(&connection, None)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.pragma_update(None, "cache_size", -8_000)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    } else if version == 1 {
        connection.execute_batch(CHECKSUMS)?;
        for (id, bytes) in sizes(&connection)? {
            if bytes > OVERVIEW_BYTES {
                connection.execute("UPDATE session SET agent = NULL WHERE id = ?1", [id])?;
                connection.execute(FORGET, [id])?;
            }
            checksum::seal_own(&connection, id)?;
            checksum::seal_derived(&connection, id)?;
        }
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    connection.execute_batch("COMMIT")?;
    Ok((connection, version))
}

/// Writes the version again, which changes nothing and needs the disk.
pub(super) fn rewrite_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION)
}

/// The sessions, and how many bytes their overviews and the like take.
fn sizes(connection: &Connection) -> rusqlite::Result<Vec<(i64, usize)>> {
    let mut select = connection.prepare(
        "SELECT id, length(overview) + coalesce(length(agent), 0) + coalesce(length(workspace), 0) FROM session ORDER BY id",
    )?;
    select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Makes readers and the writer not wait for each other.
///
/// A database in which another connection is at the same moment says "busy" to this at once, without the patience that it
/// has for everything else.
pub(super) fn write_ahead(connection: &Connection, database: Option<&str>) -> rusqlite::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match connection.pragma_update(database, "journal_mode", "wal") {
            Err(error) if is_busy(&error) && Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

/// Whether somebody else is at it.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// A connection that reads.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -2_000)?;
    Ok(connection)
}

/// Makes the database take no more than so many bytes.
pub(super) fn limit(connection: &Connection, bytes: Option<u64>) -> rusqlite::Result<()> {
    let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    // The largest number of pages that there may be.
    let pages = bytes.map_or(4_294_967_294, |bytes| (bytes / page).max(1));
    connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}
