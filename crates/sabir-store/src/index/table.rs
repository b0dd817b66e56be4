//! The index on disk: one `SQLite` table, a row for each file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params};
use sabir_core::history::{self, Ledger};
use serde::{Deserialize, Serialize};

use super::Reading;
use crate::history::{Progress, Role};

/// Another number is another table.
const VERSION: u32 = 3;

/// The size of a page of the database.
const PAGE: u32 = 32 << 10;

/// What is kept of a file.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) identity: (u64, u64),
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) ledger: Box<Ledger>,
    pub(super) sessions: Vec<(Role, Ledger)>,
    pub(super) progress: Progress,
}

/// The part of a row that only this program reads.
#[derive(Serialize, Deserialize)]
struct Kept<L, S> {
    identity: (u64, u64),
    size: u64,
    modified: i64,
    progress: Progress,
    ledger: L,
    /// Of a database. They are one entry: without one of them, the others would be half an answer.
    sessions: S,
}

#[derive(Debug)]
pub(super) struct Table {
    connection: Connection,
}

impl Table {
    /// Opens the index, or begins a new one where there is none that can be used. `None` when that can't be done: the
    /// logs are read without an index.
    pub(super) fn open(path: &Path) -> Option<Self> {
        Self::try_open(path)
            .or_else(|error| {
                // Somebody else makes it at this moment: it is theirs.
                if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) {
                    return Err(error);
                }
                // Whatever is there is not an index of this version.
                for ending in ["", "-wal", "-shm"] {
                    let mut name = path.as_os_str().to_owned();
                    name.push(ending);
                    let _ = fs::remove_file(name);
                }
                Self::try_open(path)
            })
            .ok()
    }

    fn try_open(path: &Path) -> rusqlite::Result<Self> {
        if let Some(folder) = path.parent() {
            let _ = fs::create_dir_all(folder);
        }
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        // Rows are a few kilobytes and all of them are read each time. Only a new database takes it.
        connection.pragma_update(None, "page_size", PAGE)?;
        // Losing the index in a crash costs a reading, so nothing waits for the disk.
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "off")?;
        let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let current = VERSION * 1000 + history::REVISION;
        if version != current {
            connection.execute_batch(&format!(
                "BEGIN IMMEDIATE;
                 DROP TABLE IF EXISTS log;
                 CREATE TABLE log (path TEXT PRIMARY KEY, digest INTEGER NOT NULL, kept BLOB NOT NULL);
                 PRAGMA user_version = {current};
                 COMMIT;"
            ))?;
        }
        Ok(Self { connection })
    }

    /// Every row that is sound.
    pub(super) fn rows(&mut self) -> HashMap<String, Row> {
        self.try_rows().unwrap_or_default()
    }

    fn try_rows(&self) -> rusqlite::Result<HashMap<String, Row>> {
        let mut statement = self.connection.prepare("SELECT path, digest, kept FROM log")?;
        let mut rows = statement.query([])?;
        let mut known = HashMap::new();
        while let Some(row) = rows.next()? {
            let path = row.get_ref(0)?.as_str()?.to_owned();
            let kept = row.get_ref(2)?.as_blob()?;
            if i64::from(crc32c::crc32c(kept)) != row.get::<_, i64>(1)? {
                continue;
            }
            let kept = postcard::from_bytes::<Kept<Box<Ledger>, Vec<(Role, Ledger)>>>(kept);
            if let Ok(Kept { identity, size, modified, progress, ledger, sessions }) = kept {
                known.insert(path, Row { identity, size, modified, ledger, sessions, progress });
            }
        }
        Ok(known)
    }

    /// Writes what changed and forgets what is gone.
    pub(super) fn save<'l>(&mut self, changed: impl Iterator<Item = &'l Reading>, gone: &[String]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare("INSERT OR REPLACE INTO log (path, digest, kept) VALUES (?1, ?2, ?3)")?;
            for Reading { file, ledger, sessions, progress } in changed {
                // A path that is no text has no row and is read each time.
                let Some(path) = file.path.to_str() else { continue };
                let (identity, size, modified) = (file.identity, file.size, file.modified);
                let kept = Kept { identity, size, modified, progress: *progress, ledger, sessions };
                let Ok(kept) = postcard::to_stdvec(&kept) else { continue };
                insert.execute(params![path, i64::from(crc32c::crc32c(&kept)), kept])?;
            }
            let mut forget = transaction.prepare("DELETE FROM log WHERE path = ?1")?;
            for path in gone {
                forget.execute(params![path])?;
            }
        }
        transaction.commit()
    }
}
