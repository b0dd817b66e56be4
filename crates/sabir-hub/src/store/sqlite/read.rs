//! Pool of reading connections, and queries for the messages and other data of one session.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sabir_core::time::Timestamp;
use sabir_protocol::{Order, SessionId};
use tokio::sync::Semaphore;

use super::super::{Artifact, ReadLimit, SessionHead, StoreFuture, StoredCommand, StoredMessage};
use super::damage::{Damage, is_damage};
use super::write::to_sql;
use super::{checksum, schema, store_error, word_index};
use crate::auth::token::Token;
use crate::error::StoreError;
use crate::lock;

/// Maximum number of concurrent reads.
const MAX_CONCURRENT: usize = 8;

/// A pool of reading connections.
#[derive(Debug)]
pub(super) struct ReadPool {
    database: PathBuf,
    words: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    damage: Arc<Damage>,
    index_damaged: Arc<AtomicBool>,
}

impl ReadPool {
    pub(super) fn new(database: PathBuf, words: PathBuf, damage: Arc<Damage>, index_damaged: Arc<AtomicBool>) -> Self {
        let (idle, permits) = (Mutex::default(), Arc::new(Semaphore::new(MAX_CONCURRENT)));
        Self { database, words, idle, permits, damage, index_damaged }
    }

    /// Flag that a damaged full-text index sets.
    pub(super) fn index_damaged(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.index_damaged)
    }

    /// Runs a query on a blocking thread.
    pub(super) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection, &Damage) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let pool = Arc::clone(self);
        Box::pin(async move {
            let permit = Arc::clone(&pool.permits).acquire_owned().await;
            let permit = permit.map_err(|error| StoreError::Internal(error.to_string()))?;
            let read = move || {
                let _permit = permit;
                let idle = lock(&pool.idle).pop();
                let connection = idle.map_or_else(|| pool.open(), Ok);
                let result = connection.and_then(|connection| {
                    let result = query(&connection, &pool.damage);
                    if result.is_ok() {
                        lock(&pool.idle).push(connection);
                    }
                    result
                });
                pool.damage.record_read(&result);
                result
            };
            let result = tokio::task::spawn_blocking(read).await;
            result.map_err(|error| StoreError::Internal(error.to_string()))?.map_err(|error| store_error(&error))
        })
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let connection = schema::reader(&self.database)?;
        word_index::attach(&connection, &self.words)?;
        Ok(connection)
    }
}

/// Deserializes a column of JSON.
pub(super) fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let invalid = |error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error));
    serde_json::from_str(text).map_err(invalid)
}

/// The columns of a session that reading its messages needs.
#[derive(Debug)]
pub(super) struct SessionRow {
    pub(super) id: i64,
    /// Number of the last message; if the row is damaged, of the last message that exists.
    pub(super) last: u64,
    epoch: u32,
    last_command: u64,
    pub(super) created: Timestamp,
}

fn session_row(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<SessionRow>> {
    let mut select = database.prepare_cached(&format!("SELECT {} FROM session WHERE name = ?1", checksum::OWN))?;
    let row = select.query_row([session.as_str()], |row| {
        let intact = checksum::is_own_intact(row)?;
        let created = row.get(9).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH);
        let (last, epoch, last_command) = if intact { (row.get(5)?, row.get(3)?, row.get(6)?) } else { (0, 0, 0) };
        Ok((SessionRow { id: row.get(0)?, last, epoch, last_command, created }, intact))
    });
    let Some((session_row, intact)) = row.optional()? else { return Ok(None) };
    if intact {
        return Ok(Some(session_row));
    }
    damage.add_session(session, ROW_DAMAGED);
    let mut last = database.prepare_cached("SELECT coalesce(max(seq), 0) FROM message WHERE session = ?1")?;
    Ok(Some(SessionRow { last: last.query_row([session_row.id], |row| row.get(0))?, ..session_row }))
}

/// Damage of a session whose row does not match its checksum.
pub(super) const ROW_DAMAGED: &str = "its row in the database is damaged";
/// Damage of a session with unreadable messages.
pub(super) const MESSAGES_DAMAGED: &str = "some of its messages are damaged";

/// A message in the database.
#[derive(Debug)]
pub(super) enum ScannedMessage<'r> {
    /// The message as written. Those of earlier versions have no checksum (`checked` is false).
    Intact { line: &'r [u8], checked: bool },
    /// The message is missing or does not match its checksum.
    Damaged,
}

/// Calls `visit` for every message from `after + 1` to `last`, in order, until it returns false. Unreadable messages are visited
/// as damaged, so that none is skipped.
pub(super) fn scan(
    database: &Connection,
    id: i64,
    after: u64,
    last: u64,
    visit: &mut dyn FnMut(u64, ScannedMessage<'_>) -> bool,
) -> rusqlite::Result<()> {
    let mut select =
        database.prepare_cached("SELECT seq, line, checksum FROM message WHERE session = ?1 AND seq > ?2 ORDER BY seq")?;
    let mut at = after;
    loop {
        let mut rows = select.query(params![id, to_sql(at)])?;
        let reached_end = loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let (seq, line, sum) = match (row.get::<_, u64>(0), row.get_ref(1)?.as_blob(), row.get::<_, Option<i64>>(2)) {
                        (Ok(seq), Ok(line), Ok(sum)) if seq > at => (seq, line, sum),
                        // Its number is unreadable, so that number is visited as missing.
                        _ => continue,
                    };
                    let is_intact = sum.map_or_else(|| has_seq(line, seq), |sum| sum == checksum::message(id, to_sql(seq), line));
                    if !is_intact && seq > at + 1 {
                        // The damaged part may be its number.
                        continue;
                    }
                    while at + 1 < seq {
                        at += 1;
                        if !visit(at, ScannedMessage::Damaged) {
                            return Ok(());
                        }
                    }
                    at = seq;
                    let checked = sum.is_some();
                    let message = if is_intact { ScannedMessage::Intact { line, checked } } else { ScannedMessage::Damaged };
                    if !visit(seq, message) {
                        return Ok(());
                    }
                }
                Ok(None) => break true,
                // The page of the next message is damaged; later messages may be on other pages.
                Err(error) if is_damage(&error) => break false,
                Err(error) => return Err(error),
            }
        };
        while at < last {
            at += 1;
            if !visit(at, ScannedMessage::Damaged) {
                return Ok(());
            }
            if !reached_end {
                break;
            }
        }
        if at >= last {
            return Ok(());
        }
    }
}

/// Returns whether a message without a checksum contains its own number.
fn has_seq(line: &[u8], seq: u64) -> bool {
    #[derive(serde::Deserialize)]
    struct Header {
        seq: u64,
    }
    serde_json::from_slice::<Header>(line).is_ok_and(|message| message.seq == seq)
}

pub(super) fn messages(
    database: &Connection,
    session: &SessionId,
    after: u64,
    limit: ReadLimit,
    damage: &Damage,
) -> rusqlite::Result<Vec<StoredMessage>> {
    let mut messages = Vec::new();
    let Some(row) = session_row(database, session, damage)? else { return Ok(messages) };
    let mut bytes = 0;
    let mut is_damaged = false;
    scan(database, row.id, after, row.last, &mut |seq, message| {
        let line = match message {
            ScannedMessage::Intact { line, .. } => Bytes::copy_from_slice(line),
            ScannedMessage::Damaged => {
                is_damaged = true;
                StoredMessage::gap(session, seq, row.created)
            }
        };
        bytes += line.len();
        messages.push(StoredMessage { seq, line });
        bytes < limit.bytes && messages.len() < limit.messages
    })?;
    if is_damaged {
        damage.add_session(session, MESSAGES_DAMAGED);
    }
    Ok(messages)
}

pub(super) fn head(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<SessionHead>> {
    let row = session_row(database, session, damage)?;
    let head = |SessionRow { last, epoch, last_command, .. }: SessionRow| SessionHead {
        last,
        epoch,
        connection: 0,
        last_command,
        caught_up: true,
    };
    Ok(row.map(head))
}

/// Checks that the database can be read.
pub(super) fn probe(database: &Connection) -> rusqlite::Result<()> {
    database.query_row("SELECT count(*) FROM (SELECT id FROM session ORDER BY id DESC LIMIT 1)", [], |_| Ok(()))?;
    database.query_row("SELECT coalesce(max(id), 0) FROM message", [], |_| Ok(()))
}

/// Commands without an outcome.
pub(super) fn pending_commands(database: &Connection, id: i64) -> rusqlite::Result<Vec<Order>> {
    let mut select = database.prepare_cached("SELECT placed FROM placed WHERE session = ?1 AND open ORDER BY number")?;
    select.query_map([id], |row| json::<StoredCommand>(row, 0).map(|stored| stored.command))?.collect()
}

pub(super) fn commands(database: &Connection, session: &SessionId, after: u64) -> rusqlite::Result<Vec<StoredCommand>> {
    let mut select = database.prepare_cached(
        "SELECT placed FROM placed WHERE session = (SELECT id FROM session WHERE name = ?1) AND number > ?2 ORDER BY number",
    )?;
    select.query_map(params![session.as_str(), to_sql(after)], |row| json(row, 0))?.collect()
}

pub(super) fn artifacts(database: &Connection, session: &SessionId) -> rusqlite::Result<Vec<Artifact>> {
    let mut select = database.prepare_cached(
        "SELECT artifact FROM artifact WHERE session = (SELECT id FROM session WHERE name = ?1) ORDER BY digest",
    )?;
    select.query_map([session.as_str()], |row| json(row, 0))?.collect()
}

/// All readable tokens; a damaged one is skipped.
pub(super) fn tokens(database: &Connection, damage: &Damage) -> rusqlite::Result<Vec<Token>> {
    let mut select = database.prepare_cached("SELECT token FROM token ORDER BY id")?;
    let all: Vec<Option<Token>> = select.query_map([], |row| Ok(json(row, 0).ok()))?.collect::<rusqlite::Result<_>>()?;
    if all.iter().any(Option::is_none) {
        damage.add_database("a token is damaged");
    }
    Ok(all.into_iter().flatten().collect())
}
