//! Tables, migrations and connection settings.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use super::checksum;

/// Version of the tables.
const VERSION: u32 = 2;
/// Larger overviews were written by versions without a limit, and are rebuilt.
const MAX_OVERVIEW_BYTES: usize = 64 << 10;

/// Time to wait for a lock of another connection.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// `message` is a rowid table with a separate index: stored in the tree of the index, messages would move with every page split.
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

/// Indexes that early databases lack.
const LATER_INDEXES: &str = "CREATE INDEX IF NOT EXISTS placed_open ON placed (session, number) WHERE open;";
/// Migration from version 1 to 2: checksums. There may be many messages, so old ones get none.
const ADD_CHECKSUMS: &str = "
ALTER TABLE session ADD COLUMN checksum INTEGER;
ALTER TABLE session ADD COLUMN derived INTEGER;
ALTER TABLE message ADD COLUMN checksum INTEGER;
";

/// Resets the columns that are derived from messages, so that they are rebuilt.
pub(super) const RESET_DERIVED: &str = "
UPDATE session SET folded = 0, phase = 'starting', workspace = NULL,
    overview = iif(agent IS NULL, '{}', json_object('agent', agent)) WHERE id = ?1";

/// Opens the writing connection, and creates or migrates the tables.
pub(super) fn open(path: &Path) -> io::Result<Connection> {
    let (connection, version) = prepare(path).map_err(io::Error::other)?;
    if version > VERSION {
        let message = format!("written by a newer version (schema {version}; this version supports {VERSION})");
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok(connection)
}

/// Opens the database and returns the version that its tables had.
fn prepare(path: &Path) -> rusqlite::Result<(Connection, u32)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    enable_wal(&connection, None)?;
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
        connection.execute_batch(ADD_CHECKSUMS)?;
        for (id, bytes) in derived_sizes(&connection)? {
            if bytes > MAX_OVERVIEW_BYTES {
                connection.execute("UPDATE session SET agent = NULL WHERE id = ?1", [id])?;
                connection.execute(RESET_DERIVED, [id])?;
            }
            checksum::update_own(&connection, id)?;
            checksum::update_derived(&connection, id)?;
        }
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    if version <= VERSION {
        connection.execute_batch(LATER_INDEXES)?;
    }
    connection.execute_batch("COMMIT")?;
    Ok((connection, version))
}

/// Rewrites the version: a write that changes nothing.
pub(super) fn rewrite_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION)
}

/// Sizes of the derived columns of all sessions.
fn derived_sizes(connection: &Connection) -> rusqlite::Result<Vec<(i64, usize)>> {
    let mut select = connection.prepare(
        "SELECT id, length(overview) + coalesce(length(agent), 0) + coalesce(length(workspace), 0) FROM session ORDER BY id",
    )?;
    select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Switches to a write-ahead log, so that readers and the writer do not block each other.
///
/// While another connection is active, SQLite answers this with "busy" at once and ignores the busy timeout.
pub(super) fn enable_wal(connection: &Connection, database: Option<&str>) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(database, "journal_mode", "wal") {
            Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            result => return result,
        }
    }
}

/// Returns whether another connection holds the lock.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Opens a read-only connection.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -2_000)?;
    Ok(connection)
}

/// Size of a database in bytes.
pub(super) fn size(connection: &Connection, database: &str) -> rusqlite::Result<u64> {
    let value = |name| connection.pragma_query_value(Some(database), name, |row| row.get::<_, u64>(0));
    Ok(value("page_count")? * value("page_size")?)
}

/// Limits the size of the database.
pub(super) fn set_limit(connection: &Connection, bytes: Option<u64>) -> rusqlite::Result<()> {
    let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    // The default is the largest number of pages.
    let pages = bytes.map_or(4_294_967_294, |bytes| (bytes / page).max(1));
    connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}
