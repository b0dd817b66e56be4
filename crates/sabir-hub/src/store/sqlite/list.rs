//! Queries for one session and for listings.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};
use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;

use super::super::{SessionFilter, SessionPage, SessionRecord};
use super::checksum::{self, COLUMNS};
use super::damage::{Damage, is_damage};
use super::write::to_sql;
use super::{read, tokenize, word_index};

/// A page of sessions is full at this size.
const PAGE_BYTES: usize = 1 << 20;
/// Estimated size of a session without its overview.
const SESSION_BYTES: usize = 1 << 10;
/// Position of the overview in [`COLUMNS`].
const OVERVIEW: usize = 16;
/// Damage of a session whose derived columns do not match their checksum.
const OVERVIEW_DAMAGED: &str = "its overview is damaged and is rebuilt when the hub starts";

pub(super) fn session(database: &Connection, id: &SessionId, damage: &Damage) -> rusqlite::Result<Option<SessionRecord>> {
    let mut select = database.prepare_cached(&format!("SELECT {COLUMNS} FROM session WHERE name = ?1"))?;
    match select.query_row([id.as_str()], |row| record(row, damage).map(|(_, session)| session)).optional() {
        Err(error) if is_damage(&error) => Ok(Some(unreadable(id.clone(), damage))),
        session => session,
    }
}

pub(super) fn sessions(
    database: &Connection,
    filter: &SessionFilter,
    damage: &Damage,
    index_damaged: &AtomicBool,
) -> rusqlite::Result<SessionPage> {
    let page = list(database, filter, damage, true);
    if filter.text.is_some() && page.as_ref().is_err_and(is_damage) {
        // If the query succeeds without the full-text index, then the index is damaged.
        let page = list(database, filter, damage, false);
        index_damaged.fetch_or(page.is_ok(), Ordering::Relaxed);
        return page;
    }
    page
}

fn list(database: &Connection, filter: &SessionFilter, damage: &Damage, use_index: bool) -> rusqlite::Result<SessionPage> {
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    let mut add = |condition: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value);
        }
    };
    add("agent = ?", filter.agent.clone().map(Into::into));
    add("phase = ?", filter.phase.map(|phase| phase.as_str().to_owned().into()));
    add("workspace = ?", filter.workspace.clone().map(Into::into));
    add("updated >= ?", filter.since.map(|since| since.as_millis().into()));
    add("instr(name, ?) = 1", filter.prefix.clone().map(Into::into));
    add("id < ?", filter.cursor.map(|cursor| to_sql(cursor).into()));
    let pattern = filter.text.as_deref().and_then(Pattern::parse);
    if let Some(pattern) = &pattern {
        let ids = serde_json::to_string(&search(database, pattern, use_index)?).unwrap_or_default();
        add("id IN (SELECT value FROM json_each(?))", Some(ids.into()));
    }
    let conditions = conditions.iter().map(|condition| format!("({condition})")).collect::<Vec<_>>().join(" AND ");
    let mut page = PageBuilder { sessions: Vec::new(), bytes: 0, limit: filter.limit, more: false };
    let select = format!("SELECT {COLUMNS} FROM session WHERE {conditions} ORDER BY id DESC");
    let listed = (|| -> rusqlite::Result<()> {
        let mut select = database.prepare_cached(&select)?;
        let mut rows = select.query(params_from_iter(&values))?;
        while let Some(row) = rows.next()? {
            if !page.add(record(row, damage)?, overview_bytes(row)?) {
                break;
            }
        }
        Ok(())
    })();
    match listed {
        Err(error) if is_damage(&error) && pattern.is_none() => {
            list_one_by_one(database, filter, &conditions, &values, damage, &mut page)?;
        }
        listed => listed?,
    }
    let next = page.sessions.last().map(|(id, _)| *id).filter(|_| page.more);
    Ok(SessionPage { sessions: page.sessions.into_iter().map(|(_, session)| session).collect(), next })
}

/// A page that is being filled.
struct PageBuilder {
    sessions: Vec<(u64, SessionRecord)>,
    bytes: usize,
    limit: usize,
    /// There is a session that did not fit.
    more: bool,
}

impl PageBuilder {
    /// Adds a session; `false` if it does not fit.
    fn add(&mut self, session: (u64, SessionRecord), overview_bytes: usize) -> bool {
        self.more = self.sessions.len() >= self.limit || self.bytes >= PAGE_BYTES;
        if !self.more {
            self.bytes += overview_bytes + SESSION_BYTES;
            self.sessions.push(session);
        }
        !self.more
    }
}

fn overview_bytes(row: &Row<'_>) -> rusqlite::Result<usize> {
    Ok(row.get_ref(OVERVIEW)?.as_bytes().map_or(0, <[u8]>::len))
}

/// Lists sessions of a table with a damaged page: ids and names come from the index on names, and each row is read alone. An
/// unreadable row is listed by its name.
fn list_one_by_one(
    database: &Connection,
    filter: &SessionFilter,
    conditions: &str,
    values: &[Value],
    damage: &Damage,
    page: &mut PageBuilder,
) -> rusqlite::Result<()> {
    (page.sessions, page.bytes) = (Vec::new(), 0);
    let mut names = database.prepare("SELECT id, name FROM session INDEXED BY sqlite_autoindex_session_1")?;
    let mut names: Vec<(i64, String)> =
        names.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    names.retain(|(id, _)| filter.cursor.is_none_or(|cursor| *id < to_sql(cursor)));
    names.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    let mut select = database.prepare(&format!("SELECT {COLUMNS} FROM session WHERE {conditions} AND id = ?"))?;
    for (id, name) in names {
        let values = values.iter().cloned().chain([id.into()]);
        let row = select.query_row(params_from_iter(values), |row| Ok((record(row, damage)?, overview_bytes(row)?)));
        let (session, bytes) = match row.optional() {
            Ok(Some(row)) => row,
            Ok(None) => continue,
            Err(error) if is_damage(&error) => {
                let Ok(name) = SessionId::try_from(name) else { continue };
                ((u64::try_from(id).unwrap_or_default(), unreadable(name, damage)), 0)
            }
            Err(error) => return Err(error),
        };
        if !page.add(session, bytes) {
            break;
        }
    }
    Ok(())
}

/// A session of which only the name can be read.
fn unreadable(id: SessionId, damage: &Damage) -> SessionRecord {
    damage.add_session(&id, read::ROW_DAMAGED);
    let (last, folded, overview, runner, accepts) = Default::default();
    let (created, updated) = (Timestamp::EPOCH, Timestamp::EPOCH);
    SessionRecord { id, last, folded, overview, runner, accepts, created, updated, damage: Some(read::ROW_DAMAGED.to_owned()) }
}

/// Sessions with a matching message. The full-text index narrows down which messages are read; those that are not indexed yet
/// are read too.
fn search(database: &Connection, pattern: &Pattern, use_index: bool) -> rusqlite::Result<BTreeSet<i64>> {
    const AFTER: &str = "SELECT session, line FROM message WHERE id > ?1";
    const INDEXED: &str = "SELECT session, line FROM message WHERE id IN (SELECT rowid FROM words.found WHERE found MATCH ?1)";
    let mut sessions = BTreeSet::new();
    let mut scan = |select: &str, value: Value| {
        let mut select = database.prepare_cached(select)?;
        let mut rows = select.query([value])?;
        while let Some(row) = rows.next()? {
            let session = row.get(0)?;
            if !sessions.contains(&session) && tokenize::matches(row.get_ref(1)?.as_blob()?, pattern) {
                sessions.insert(session);
            }
        }
        Ok::<(), rusqlite::Error>(())
    };
    match tokenize::index_query(pattern).filter(|_| use_index) {
        Some(query) => {
            // Read the progress first: the index may grow meanwhile, but never shrink.
            let indexed = word_index::progress(database)?;
            scan(INDEXED, query.into())?;
            scan(AFTER, indexed.into())?;
        }
        None => scan(AFTER, 0.into())?,
    }
    Ok(sessions)
}

pub(super) fn agents(database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut select = database.prepare_cached("SELECT DISTINCT agent FROM session WHERE agent IS NOT NULL ORDER BY agent")?;
    select.query_map([], |row| row.get(0))?.collect()
}

pub(super) fn outdated_overviews(database: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut select = database.prepare_cached("SELECT name FROM session WHERE folded < last")?;
    let names: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(names.into_iter().filter_map(|name| name.try_into().ok()).collect())
}

/// Reads a row of [`COLUMNS`]. A damaged row is marked and does not fail the query.
fn record(row: &Row<'_>, damage: &Damage) -> rusqlite::Result<(u64, SessionRecord)> {
    let id: u64 = row.get(0)?;
    let intact = checksum::check(row)?;
    let time = |column| row.get(column).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH);
    let name = row.get::<_, String>(1).ok().and_then(|name| SessionId::try_from(name).ok());
    let has_name = name.is_some();
    let overview = if intact.derived { read::json(row, OVERVIEW).ok() } else { None };
    let found = if !intact.own || !has_name {
        Some(read::ROW_DAMAGED.to_owned())
    } else {
        overview.is_none().then(|| OVERVIEW_DAMAGED.to_owned())
    };
    let placeholder = || SessionId::try_from(format!("damaged-{id}"));
    let session = match name {
        Some(name) => name,
        None => placeholder()
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into()))?,
    };
    if let Some(description) = &found {
        damage.add_session(&session, description);
    }
    let folded = if overview.is_some() { row.get(12).unwrap_or_default() } else { 0 };
    let record = SessionRecord {
        damage: found.or_else(|| damage.of_session(&session)),
        id: session,
        last: row.get(5).unwrap_or_default(),
        folded,
        overview: overview.unwrap_or_default(),
        runner: row.get(7).unwrap_or_default(),
        accepts: read::json(row, 8).unwrap_or_default(),
        created: time(9),
        updated: time(10),
    };
    Ok((id, record))
}
