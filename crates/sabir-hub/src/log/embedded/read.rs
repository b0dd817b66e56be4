//! Connections that read, and what is read of one session.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sabir_protocol::{Order, SessionId};
use tokio::sync::Semaphore;

use super::super::{Answer, Artifact, Head, Limit, Placed, Stored, Trouble};
use super::write::{id, number};
use super::{index, schema, trouble};
use crate::auth::token::Token;
use crate::lock::locked;

/// So many read at the same time; the others wait for one of them.
const READERS: usize = 8;

#[derive(Debug)]
pub(super) struct Readers {
    database: PathBuf,
    words: PathBuf,
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(database: PathBuf, words: PathBuf) -> Self {
        Self { database, words, idle: Mutex::default(), turns: Arc::new(Semaphore::new(READERS)) }
    }

    /// Asks something of the database, on a thread that may wait for the disk.
    pub(super) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let readers = Arc::clone(self);
        Box::pin(async move {
            let broken = |what: String| Trouble::Internal(what);
            let turn = Arc::clone(&readers.turns).acquire_owned().await.map_err(|error| broken(error.to_string()))?;
            let read = move || {
                let _turn = turn;
                let idle = locked(&readers.idle).pop();
                let connection = idle.map_or_else(|| readers.open(), Ok)?;
                let result = ask(&connection);
                if result.is_ok() {
                    locked(&readers.idle).push(connection);
                }
                result
            };
            let result = tokio::task::spawn_blocking(read).await.map_err(|error| broken(error.to_string()))?;
            result.map_err(|error| trouble(&error))
        })
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let connection = schema::reader(&self.database)?;
        index::attach(&connection, &self.words)?;
        Ok(connection)
    }
}

/// A column with a value in JSON.
pub(super) fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let broken = |error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error));
    serde_json::from_str(text).map_err(broken)
}

pub(super) fn messages(database: &Connection, session: &SessionId, after: u64, limit: Limit) -> rusqlite::Result<Vec<Stored>> {
    let mut found = Vec::new();
    let Some(id) = id(database, session)? else { return Ok(found) };
    let mut select =
        database.prepare_cached("SELECT seq, line FROM message WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?;
    let mut rows = select.query(params![id, number(after), number(limit.messages as u64)])?;
    let mut bytes = 0;
    while let Some(row) = (bytes < limit.bytes).then(|| rows.next()).transpose()?.flatten() {
        let line = Bytes::copy_from_slice(row.get_ref(1)?.as_blob()?);
        bytes += line.len();
        found.push(Stored { seq: row.get(0)?, line });
    }
    Ok(found)
}

pub(super) fn head(database: &Connection, session: &SessionId) -> rusqlite::Result<Option<Head>> {
    let mut find = database.prepare_cached("SELECT last, epoch, orders FROM session WHERE name = ?1")?;
    let head =
        |row: &Row<'_>| Ok(Head { last: row.get(0)?, epoch: row.get(1)?, connection: 0, orders: row.get(2)?, whole: true });
    find.query_row([session.as_str()], head).optional()
}

/// The orders that are not dealt with yet.
pub(super) fn open_orders(database: &Connection, id: i64) -> rusqlite::Result<Vec<Order>> {
    let mut select = database.prepare_cached("SELECT placed FROM placed WHERE session = ?1 AND open ORDER BY number")?;
    select.query_map([id], |row| json::<Placed>(row, 0).map(|placed| placed.order))?.collect()
}

pub(super) fn orders(database: &Connection, session: &SessionId, after: u64) -> rusqlite::Result<Vec<Placed>> {
    let mut select = database.prepare_cached(
        "SELECT placed FROM placed WHERE session = (SELECT id FROM session WHERE name = ?1) AND number > ?2 ORDER BY number",
    )?;
    select.query_map(params![session.as_str(), number(after)], |row| json(row, 0))?.collect()
}

pub(super) fn artifacts(database: &Connection, session: &SessionId) -> rusqlite::Result<Vec<Artifact>> {
    let mut select = database.prepare_cached(
        "SELECT artifact FROM artifact WHERE session = (SELECT id FROM session WHERE name = ?1) ORDER BY digest",
    )?;
    select.query_map([session.as_str()], |row| json(row, 0))?.collect()
}

pub(super) fn tokens(database: &Connection) -> rusqlite::Result<Vec<Token>> {
    let mut select = database.prepare_cached("SELECT token FROM token ORDER BY id")?;
    select.query_map([], |row| json(row, 0))?.collect()
}
