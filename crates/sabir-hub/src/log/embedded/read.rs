//! Connections that read, and what is read of one session.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sabir_core::time::Timestamp;
use sabir_protocol::{Order, SessionId};
use tokio::sync::Semaphore;

use super::super::{Answer, Artifact, Head, Limit, Placed, Stored, Trouble};
use super::damage::{Damage, is_damage};
use super::write::number;
use super::{checksum, index, schema, trouble};
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
    damage: Arc<Damage>,
    broken: Arc<AtomicBool>,
}

impl Readers {
    pub(super) fn new(database: PathBuf, words: PathBuf, damage: Arc<Damage>, broken: Arc<AtomicBool>) -> Self {
        let (idle, turns) = (Mutex::default(), Arc::new(Semaphore::new(READERS)));
        Self { database, words, idle, turns, damage, broken }
    }

    /// Where it is said that the index of words is damaged.
    pub(super) fn broken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.broken)
    }

    /// Asks something of the database, on a thread that may wait for the disk.
    pub(super) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&Connection, &Damage) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let readers = Arc::clone(self);
        Box::pin(async move {
            let broken = |what: String| Trouble::Internal(what);
            let turn = Arc::clone(&readers.turns).acquire_owned().await.map_err(|error| broken(error.to_string()))?;
            let read = move || {
                let _turn = turn;
                let idle = locked(&readers.idle).pop();
                let connection = idle.map_or_else(|| readers.open(), Ok);
                let result = connection.and_then(|connection| {
                    let result = ask(&connection, &readers.damage);
                    if result.is_ok() {
                        locked(&readers.idle).push(connection);
                    }
                    result
                });
                readers.damage.read(&result);
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

/// What is known of a session before its messages are read.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: i64,
    /// The number of the last message: of a damaged row, that of the last message that is there.
    pub(super) last: u64,
    epoch: u32,
    orders: u64,
    pub(super) created: Timestamp,
}

pub(super) fn known(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<Known>> {
    let mut find = database.prepare_cached(&format!("SELECT {} FROM session WHERE name = ?1", checksum::OWN))?;
    let found = find.query_row([session.as_str()], |row| {
        let intact = checksum::is_own_intact(row)?;
        let created = row.get(9).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH);
        let (last, epoch, orders) = if intact { (row.get(5)?, row.get(3)?, row.get(6)?) } else { (0, 0, 0) };
        Ok((Known { id: row.get(0)?, last, epoch, orders, created }, intact))
    });
    let Some((known, intact)) = found.optional()? else { return Ok(None) };
    if intact {
        return Ok(Some(known));
    }
    damage.of_session(session, ROW);
    let mut last = database.prepare_cached("SELECT coalesce(max(seq), 0) FROM message WHERE session = ?1")?;
    Ok(Some(Known { last: last.query_row([known.id], |row| row.get(0))?, ..known }))
}

/// What is said of a session whose row is damaged.
pub(super) const ROW: &str = "its row in the database is damaged";
/// And of one whose messages are.
pub(super) const MESSAGES: &str = "some of its messages are damaged";

/// A message as it is in the database.
#[derive(Debug)]
pub(super) enum Found<'r> {
    /// It is what was written, as far as that is known: messages of earlier versions have no checksum.
    Intact { line: &'r [u8], checked: bool },
    /// It is not there, or not what was written.
    Damaged,
}

/// Hands over every message after a number up to the last one, in order, until there is enough: also those that can't be
/// read, each as damaged, so that no gap is passed over.
pub(super) fn scan(
    database: &Connection,
    id: i64,
    after: u64,
    last: u64,
    found: &mut dyn FnMut(u64, Found<'_>) -> bool,
) -> rusqlite::Result<()> {
    let mut select =
        database.prepare_cached("SELECT seq, line, checksum FROM message WHERE session = ?1 AND seq > ?2 ORDER BY seq")?;
    let mut at = after;
    loop {
        let mut rows = select.query(params![id, number(at)])?;
        let found_all = loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let (seq, line, sum) = match (row.get::<_, u64>(0), row.get_ref(1)?.as_blob(), row.get::<_, Option<i64>>(2)) {
                        (Ok(seq), Ok(line), Ok(sum)) if seq > at => (seq, line, sum),
                        // It is of no known place, which will be missing.
                        _ => continue,
                    };
                    let is_intact = sum.map_or_else(|| says(line, seq), |sum| sum == checksum::message(id, number(seq), line));
                    if !is_intact && seq > at + 1 {
                        // Its number may be what is damaged.
                        continue;
                    }
                    while at + 1 < seq {
                        at += 1;
                        if !found(at, Found::Damaged) {
                            return Ok(());
                        }
                    }
                    at = seq;
                    let message = if is_intact { Found::Intact { line, checked: sum.is_some() } } else { Found::Damaged };
                    if !found(seq, message) {
                        return Ok(());
                    }
                }
                Ok(None) => break true,
                // The page that the next message is on is damaged; those after it may be on others.
                Err(error) if is_damage(&error) => break false,
                Err(error) => return Err(error),
            }
        };
        while at < last {
            at += 1;
            if !found(at, Found::Damaged) {
                return Ok(());
            }
            if !found_all {
                break;
            }
        }
        if at >= last {
            return Ok(());
        }
    }
}

/// Whether a message without a checksum says itself that it has this number.
fn says(line: &[u8], seq: u64) -> bool {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    serde_json::from_slice::<Numbered>(line).is_ok_and(|message| message.seq == seq)
}

pub(super) fn messages(
    database: &Connection,
    session: &SessionId,
    after: u64,
    limit: Limit,
    damage: &Damage,
) -> rusqlite::Result<Vec<Stored>> {
    let mut stored = Vec::new();
    let Some(known) = known(database, session, damage)? else { return Ok(stored) };
    let mut bytes = 0;
    let mut is_damaged = false;
    scan(database, known.id, after, known.last, &mut |seq, found| {
        let line = match found {
            Found::Intact { line, .. } => Bytes::copy_from_slice(line),
            Found::Damaged => {
                is_damaged = true;
                Stored::gap(session, seq, known.created)
            }
        };
        bytes += line.len();
        stored.push(Stored { seq, line });
        bytes < limit.bytes && stored.len() < limit.messages
    })?;
    if is_damaged {
        damage.of_session(session, MESSAGES);
    }
    Ok(stored)
}

pub(super) fn head(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<Head>> {
    let known = known(database, session, damage)?;
    Ok(known.map(|Known { last, epoch, orders, .. }| Head { last, epoch, connection: 0, orders, whole: true }))
}

/// Reads a little, to know whether that is possible.
pub(super) fn probe(database: &Connection) -> rusqlite::Result<()> {
    database.query_row("SELECT count(*) FROM (SELECT id FROM session ORDER BY id DESC LIMIT 1)", [], |_| Ok(()))?;
    database.query_row("SELECT coalesce(max(id), 0) FROM message", [], |_| Ok(()))
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

/// All tokens that can be read: one that is damaged is nobody's, and turns nobody else away.
pub(super) fn tokens(database: &Connection, damage: &Damage) -> rusqlite::Result<Vec<Token>> {
    let mut select = database.prepare_cached("SELECT token FROM token ORDER BY id")?;
    let all: Vec<Option<Token>> = select.query_map([], |row| Ok(json(row, 0).ok()))?.collect::<rusqlite::Result<_>>()?;
    if all.iter().any(Option::is_none) {
        damage.of_database("a token is damaged");
    }
    Ok(all.into_iter().flatten().collect())
}
