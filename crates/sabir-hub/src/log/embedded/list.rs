//! Sessions, one and many.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};
use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;

use super::super::{Filter, Page, Session};
use super::checksum::{self, COLUMNS};
use super::damage::{Damage, is_damage};
use super::write::number;
use super::{index, read, words};

/// A page of sessions has no further one once there are so many bytes.
const PAGE_BYTES: usize = 1 << 20;
/// What a session takes in a list beside its texts.
const SESSION_BYTES: usize = 1 << 10;
/// What is said of a session whose derived columns are damaged.
const OVERVIEW: &str = "its overview is damaged; it is made anew when the hub starts";

pub(super) fn session(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<Session>> {
    let mut find = database.prepare_cached(&format!("SELECT {COLUMNS} FROM session WHERE name = ?1"))?;
    match find.query_row([session.as_str()], |row| of(row, damage).map(|(_, session)| session)).optional() {
        Err(error) if is_damage(&error) => Ok(Some(unreadable(session.clone(), damage))),
        found => found,
    }
}

pub(super) fn sessions(database: &Connection, filter: &Filter, damage: &Damage, broken: &AtomicBool) -> rusqlite::Result<Page> {
    let page = listed(database, filter, damage, true);
    if filter.text.is_some() && page.as_ref().is_err_and(is_damage) {
        // The messages themselves are looked at. Where those can be read it is the index that can't, which is made anew.
        let page = listed(database, filter, damage, false);
        broken.fetch_or(page.is_ok(), Ordering::Relaxed);
        return page;
    }
    page
}

fn listed(database: &Connection, filter: &Filter, damage: &Damage, indexed: bool) -> rusqlite::Result<Page> {
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    let mut only = |condition: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value);
        }
    };
    only("agent = ?", filter.agent.clone().map(Into::into));
    only("phase = ?", filter.phase.map(|phase| phase.as_str().to_owned().into()));
    only("workspace = ?", filter.workspace.clone().map(Into::into));
    only("updated >= ?", filter.since.map(|since| since.as_millis().into()));
    only("instr(name, ?) = 1", filter.prefix.clone().map(Into::into));
    only("id < ?", filter.cursor.map(|cursor| number(cursor).into()));
    let pattern = filter.text.as_deref().and_then(Pattern::parse);
    if let Some(pattern) = &pattern {
        let found = serde_json::to_string(&matching(database, pattern, indexed)?).unwrap_or_default();
        only("id IN (SELECT value FROM json_each(?))", Some(found.into()));
    }
    let all = conditions.iter().map(|condition| format!("({condition})")).collect::<Vec<_>>().join(" AND ");
    let mut found = Found { sessions: Vec::new(), bytes: 0, limit: filter.limit, more: false };
    let select = format!("SELECT {COLUMNS} FROM session WHERE {all} ORDER BY id DESC");
    let listed = (|| -> rusqlite::Result<()> {
        let mut select = database.prepare_cached(&select)?;
        let mut rows = select.query(params_from_iter(&values))?;
        while let Some(row) = rows.next()? {
            if !found.add(of(row, damage)?, row.get_ref(16)?.as_bytes().map_or(0, <[u8]>::len)) {
                break;
            }
        }
        Ok(())
    })();
    match listed {
        Err(error) if is_damage(&error) && pattern.is_none() => one_by_one(database, filter, &all, &values, damage, &mut found)?,
        listed => listed?,
    }
    let next = found.sessions.last().map(|(id, _)| *id).filter(|_| found.more);
    Ok(Page { sessions: found.sessions.into_iter().map(|(_, session)| session).collect(), next })
}

/// A page of sessions as it is filled.
struct Found {
    sessions: Vec<(u64, Session)>,
    bytes: usize,
    limit: usize,
    /// Another one would not fit.
    more: bool,
}

impl Found {
    /// Adds a session, if it fits.
    fn add(&mut self, session: (u64, Session), overview: usize) -> bool {
        self.more = self.sessions.len() >= self.limit || self.bytes >= PAGE_BYTES;
        if !self.more {
            self.bytes += overview + SESSION_BYTES;
            self.sessions.push(session);
        }
        !self.more
    }
}

/// The same where a page of the table is damaged: what can't be read is listed by its name in the index.
fn one_by_one(
    database: &Connection,
    filter: &Filter,
    conditions: &str,
    values: &[Value],
    damage: &Damage,
    found: &mut Found,
) -> rusqlite::Result<()> {
    (found.sessions, found.bytes) = (Vec::new(), 0);
    let mut names = database.prepare("SELECT id, name FROM session INDEXED BY sqlite_autoindex_session_1")?;
    let mut names: Vec<(i64, String)> =
        names.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    names.retain(|(id, _)| filter.cursor.is_none_or(|cursor| *id < number(cursor)));
    names.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    let mut select = database.prepare(&format!("SELECT {COLUMNS} FROM session WHERE {conditions} AND id = ?"))?;
    for (id, name) in names {
        let values = values.iter().cloned().chain([id.into()]);
        let one = select.query_row(params_from_iter(values), |row| {
            Ok((of(row, damage)?, row.get_ref(16)?.as_bytes().map_or(0, <[u8]>::len)))
        });
        let (session, bytes) = match one.optional() {
            Ok(Some(one)) => one,
            Ok(None) => continue,
            Err(error) if is_damage(&error) => {
                let Ok(name) = SessionId::try_from(name) else { continue };
                ((u64::try_from(id).unwrap_or_default(), unreadable(name, damage)), 0)
            }
            Err(error) => return Err(error),
        };
        if !found.add(session, bytes) {
            break;
        }
    }
    Ok(())
}

/// A session of which no more than its name can be read.
fn unreadable(session: SessionId, damage: &Damage) -> Session {
    damage.of_session(&session, read::ROW);
    let (last, folded, overview, shell, takes) = Default::default();
    let (created, updated) = (Timestamp::EPOCH, Timestamp::EPOCH);
    Session { session, last, folded, overview, shell, takes, created, updated, damaged: Some(read::ROW.to_owned()) }
}

/// Sessions with a message that matches. The index narrows down which messages are looked at; those that are not in it yet
/// are looked at too.
fn matching(database: &Connection, pattern: &Pattern, indexed: bool) -> rusqlite::Result<BTreeSet<i64>> {
    const AFTER: &str = "SELECT session, line FROM message WHERE id > ?1";
    let mut found = BTreeSet::new();
    let mut look = |select: &str, value: Value| {
        let mut select = database.prepare_cached(select)?;
        let mut rows = select.query([value])?;
        while let Some(row) = rows.next()? {
            let session = row.get(0)?;
            if !found.contains(&session) && words::matches(row.get_ref(1)?.as_blob()?, pattern) {
                found.insert(session);
            }
        }
        Ok::<(), rusqlite::Error>(())
    };
    match words::index_query(pattern).filter(|_| indexed) {
        Some(query) => {
            // How far the index goes is asked first: it may go further meanwhile, never less far.
            let indexed = index::progress(database)?;
            let may = "SELECT session, line FROM message WHERE id IN (SELECT rowid FROM words.found WHERE found MATCH ?1)";
            look(may, query.into())?;
            look(AFTER, indexed.into())?;
        }
        None => look(AFTER, 0.into())?,
    }
    Ok(found)
}

pub(super) fn agents(database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut select = database.prepare_cached("SELECT DISTINCT agent FROM session WHERE agent IS NOT NULL ORDER BY agent")?;
    select.query_map([], |row| row.get(0))?.collect()
}

pub(super) fn behind(database: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut select = database.prepare_cached("SELECT name FROM session WHERE folded < last")?;
    let names: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(names.into_iter().filter_map(|name| name.try_into().ok()).collect())
}

/// A session as its row has it. One that is damaged is marked, and harms no other.
fn of(row: &Row<'_>, damage: &Damage) -> rusqlite::Result<(u64, Session)> {
    let id: u64 = row.get(0)?;
    let intact = checksum::check(row)?;
    let time = |column| row.get(column).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH);
    let name = row.get::<_, String>(1).ok().and_then(|name| SessionId::try_from(name).ok());
    let is_named = name.is_some();
    let overview = if intact.derived { read::json(row, 16).ok() } else { None };
    let damaged =
        if !intact.own || !is_named { Some(read::ROW.to_owned()) } else { overview.is_none().then(|| OVERVIEW.to_owned()) };
    let nameless = || SessionId::try_from(format!("damaged-{id}"));
    let session = match name {
        Some(name) => name,
        None => {
            nameless().map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into()))?
        }
    };
    if let Some(what) = &damaged {
        damage.of_session(&session, what);
    }
    let folded = if overview.is_some() { row.get(12).unwrap_or_default() } else { 0 };
    let damaged = damaged.or_else(|| damage.known(&session));
    let overview = overview.unwrap_or_default();
    let (last, shell) = (row.get(5).unwrap_or_default(), row.get(7).unwrap_or_default());
    let takes = read::json(row, 8).unwrap_or_default();
    let (created, updated) = (time(9), time(10));
    Ok((id, Session { session, last, folded, overview, shell, takes, created, updated, damaged }))
}
