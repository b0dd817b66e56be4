//! Sessions, one and many.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};
use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;

use super::super::{Filter, Page, Session};
use super::write::number;
use super::{index, read, words};

const COLUMNS: &str = "id, name, last, folded, overview, shell, takes, created, updated";

pub(super) fn session(database: &Connection, session: &SessionId) -> rusqlite::Result<Option<Session>> {
    let mut find = database.prepare_cached(&format!("SELECT {COLUMNS} FROM session WHERE name = ?1"))?;
    find.query_row([session.as_str()], |row| of(row).map(|(_, session)| session)).optional()
}

pub(super) fn sessions(database: &Connection, filter: &Filter) -> rusqlite::Result<Page> {
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
    only("id < ?", filter.cursor.map(|cursor| number(cursor).into()));
    if let Some(pattern) = filter.text.as_deref().and_then(Pattern::parse) {
        let found = serde_json::to_string(&matching(database, &pattern)?).unwrap_or_default();
        only("id IN (SELECT value FROM json_each(?))", Some(found.into()));
    }
    let all = conditions.iter().map(|condition| format!("({condition})")).collect::<Vec<_>>().join(" AND ");
    values.push(number(filter.limit as u64 + 1).into());
    let mut select = database.prepare_cached(&format!("SELECT {COLUMNS} FROM session WHERE {all} ORDER BY id DESC LIMIT ?"))?;
    let mut found: Vec<(u64, Session)> = select.query_map(params_from_iter(values), of)?.collect::<rusqlite::Result<_>>()?;
    let more = found.len() > filter.limit;
    found.truncate(filter.limit);
    let next = found.last().map(|(id, _)| *id).filter(|_| more);
    Ok(Page { sessions: found.into_iter().map(|(_, session)| session).collect(), next })
}

/// Sessions with a message that matches. The index narrows down which messages are looked at; those that are not in it yet
/// are looked at too.
fn matching(database: &Connection, pattern: &Pattern) -> rusqlite::Result<BTreeSet<i64>> {
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
    match words::index_query(pattern) {
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

fn of(row: &Row<'_>) -> rusqlite::Result<(u64, Session)> {
    let time = |column| row.get(column).map(|millis| Timestamp::from_millis(millis).unwrap_or(Timestamp::EPOCH));
    let broken = |error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(error));
    let session = Session {
        session: row.get::<_, String>(1)?.try_into().map_err(broken)?,
        last: row.get(2)?,
        folded: row.get(3)?,
        overview: read::json(row, 4)?,
        shell: row.get(5)?,
        takes: read::json(row, 6)?,
        created: time(7)?,
        updated: time(8)?,
    };
    Ok((row.get(0)?, session))
}
