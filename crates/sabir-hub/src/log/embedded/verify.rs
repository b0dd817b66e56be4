//! Looking for damage: at what is small when the log is opened, and at everything when somebody asks.

use std::io;
use std::path::Path;

use rusqlite::{Connection, params};
use sabir_protocol::SessionId;
use serde::Serialize;

use super::super::{Artifact, Placed};
use super::damage::Damage;
use super::read::{self, Found};
use super::{DATABASE, Embedded, WORDS, checksum, index, remove, schema};
use crate::auth::token::Token;

/// More problems than this are only counted.
const MOST: usize = 1_000;
/// The tables that are small beside the messages, and whose indexes can be made anew.
const SMALL: [&str; 4] = ["session", "placed", "artifact", "token"];

/// What a check of a hub's folder found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// `sabir.hub-verify/1`.
    pub schema: &'static str,
    /// Sessions that were checked.
    pub sessions: u64,
    /// Messages that were checked.
    pub messages: u64,
    /// How many of those were written by a version that wrote no checksums: they are there and can be read.
    pub without_checksum: u64,
    /// Messages that are damaged or missing.
    pub damaged_messages: u64,
    /// What is damaged.
    pub problems: Vec<Problem>,
    /// How many more problems there are than are listed.
    pub more_problems: u64,
    /// What was made anew, where that was asked for.
    pub repaired: Vec<String>,
}

/// Something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The session, where it is of one.
    pub session: Option<SessionId>,
    /// The numbers of the first and the last of the messages, where it is messages.
    pub messages: Option<[u64; 2]>,
    /// What is wrong.
    pub what: String,
}

impl Verification {
    /// Whether nothing is damaged.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, session: Option<&SessionId>, messages: Option<[u64; 2]>, what: impl Into<String>) {
        if self.problems.len() < MOST {
            self.problems.push(Problem { session: session.cloned(), messages, what: what.into() });
        } else {
            self.more_problems += 1;
        }
    }
}

/// A row of a session as a check sees it.
struct Row {
    id: i64,
    name: Option<SessionId>,
    last: u64,
    own: bool,
    derived: bool,
}

/// Looks at everything that is small, and makes anew what can be made of the rest.
pub(super) fn examine(connection: &Connection, damage: &Damage) {
    for table in SMALL {
        let broken = || {
            let found = integrity(connection, &format!("({table})"));
            found.map_or_else(|error| Some(error.to_string()), |all| all.into_iter().next())
        };
        if broken().is_some() {
            // An index says nothing that its table does not.
            let _ = connection.execute_batch(&format!("REINDEX {table}"));
            if let Some(what) = broken() {
                damage.of_database(&what);
            }
        }
    }
    let Ok(rows) = rows(connection) else { return };
    for row in rows {
        if let Some(name) = row.name.as_ref().filter(|_| !row.own) {
            damage.of_session(name, read::ROW);
        }
        if !row.derived && derive(connection, row.id).is_err() {
            damage.of_database("an overview is damaged");
        }
    }
    // What was found before is known from the beginning.
    let gaps = "SELECT name FROM session WHERE json_valid(overview) AND json_extract(overview, '$.gaps') > 0";
    let names = connection.prepare(gaps).and_then(|mut select| select.query_map([], |row| row.get(0))?.collect());
    let names: Vec<String> = names.unwrap_or_default();
    names.into_iter().filter_map(|name| name.try_into().ok()).for_each(|name| damage.of_session(&name, read::MESSAGES));
}

/// Forgets what is derived of a session, so that it is made anew.
fn derive(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.execute(schema::FORGET, [id])?;
    checksum::seal_derived(connection, id)
}

/// What `SQLite` finds wrong with a table and its indexes, or with everything.
fn integrity(connection: &Connection, of: &str) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check{of}"))?;
    let found: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// The rows of all sessions that can be read.
fn rows(connection: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut select = connection.prepare(&format!("SELECT {} FROM session ORDER BY id", checksum::COLUMNS))?;
    let row = |row: &rusqlite::Row<'_>| {
        let intact = checksum::check(row)?;
        let name = row.get::<_, String>(1).ok().and_then(|name| name.try_into().ok());
        let is_json = read::json::<sabir_core::fold::Overview>(row, 16).is_ok();
        Ok(Row {
            id: row.get(0)?,
            own: intact.own && name.is_some(),
            name,
            last: row.get(5).unwrap_or_default(),
            derived: intact.derived && is_json,
        })
    };
    select.query_map([], row)?.collect()
}

/// Checks everything in the folder of a hub, and makes anew what can be, where that is asked for. A hub may run meanwhile, but
/// not while it is repaired. `progress` hears how many messages were checked, and of how many.
pub fn verify(folder: &Path, repair: bool, progress: &mut dyn FnMut(u64, u64)) -> io::Result<Verification> {
    if !folder.join(DATABASE).is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no database of a hub"));
    }
    let lock = repair.then(|| Embedded::lock(folder)).transpose()?;
    let mut found = Verification { schema: "sabir.hub-verify/1", ..Verification::default() };
    let checked = schema::open(&folder.join(DATABASE))
        .and_then(|connection| check(&connection, &folder.join(WORDS), repair, &mut found, progress).map_err(io::Error::other));
    if let Err(error) = checked {
        if error.kind() == io::ErrorKind::Unsupported {
            return Err(error);
        }
        found.problem(None, None, format!("the database can't be read: {error}"));
    }
    drop(lock);
    Ok(found)
}

fn check(
    connection: &Connection,
    words: &Path,
    repair: bool,
    found: &mut Verification,
    progress: &mut dyn FnMut(u64, u64),
) -> rusqlite::Result<()> {
    for what in integrity(connection, "").unwrap_or_else(|error| vec![error.to_string()]) {
        found.problem(None, None, what);
    }
    if repair && !found.is_intact() {
        connection.execute_batch("REINDEX")?;
        found.repaired.push("indexes".to_owned());
    }
    let rows = rows(connection)?;
    let total = rows.iter().map(|row| row.last).fold(0, u64::saturating_add);
    for row in rows {
        session(connection, &row, repair, found)?;
        progress(found.messages, total);
    }
    let orphans: u64 = connection.query_row(
        "SELECT count(*) FROM message INDEXED BY message_seq WHERE session NOT IN (SELECT id FROM session)",
        [],
        |row| row.get(0),
    )?;
    if orphans > 0 {
        found.problem(None, None, format!("{orphans} messages are of no session that can be read"));
    }
    texts::<Placed>(connection, "placed", found)?;
    texts::<Artifact>(connection, "artifact", found)?;
    texts::<Token>(connection, "token", found)?;
    if words.is_file() {
        let is_broken = index::check(connection, words);
        if let Err(error) = is_broken {
            found.problem(None, None, format!("the index of words: {error}"));
            if repair {
                remove(words);
                found.repaired.push("the index of words".to_owned());
            }
        }
    }
    Ok(())
}

fn session(connection: &Connection, row: &Row, repair: bool, found: &mut Verification) -> rusqlite::Result<()> {
    let name = row.name.as_ref();
    let shown = name.map_or_else(|| format!("row {}", row.id), |name| name.as_str().to_owned());
    found.sessions += 1;
    let there: u64 =
        connection.query_row("SELECT coalesce(max(seq), 0) FROM message WHERE session = ?1", [row.id], |row| row.get(0))?;
    let last = if row.own { row.last } else { there };
    if !row.own {
        found.problem(name, None, read::ROW);
        if repair {
            connection.execute("UPDATE session SET last = ?2 WHERE id = ?1", params![row.id, there])?;
            checksum::seal_own(connection, row.id)?;
            found.repaired.push(format!("the row of {shown}, whose writer and times may be wrong"));
        }
    }
    let mut damaged: Option<[u64; 2]> = None;
    let mut ranges = Vec::new();
    let (mut messages, mut unchecked, mut broken) = (0, 0, 0);
    read::scan(connection, row.id, 0, last.max(there), &mut |seq, message| {
        messages += 1;
        match message {
            Found::Intact { checked, .. } => unchecked += u64::from(!checked),
            Found::Damaged => {
                broken += 1;
                match &mut damaged {
                    Some([_, end]) if *end + 1 == seq => *end = seq,
                    range => ranges.extend(range.replace([seq, seq])),
                }
            }
        }
        true
    })?;
    found.messages += messages;
    found.without_checksum += unchecked;
    found.damaged_messages += broken;
    for range in ranges.into_iter().chain(damaged) {
        found.problem(name, Some(range), "messages are damaged or missing");
    }
    if !row.derived {
        found.problem(name, None, "its overview is damaged");
    }
    if repair && (!row.derived || broken > 0 || !row.own) {
        derive(connection, row.id)?;
        found.repaired.push(format!("the overview of {shown}, when the hub starts"));
    }
    Ok(())
}

/// Whether rows that hold JSON can be read.
fn texts<T: serde::de::DeserializeOwned>(connection: &Connection, table: &str, found: &mut Verification) -> rusqlite::Result<()> {
    let mut select = connection.prepare(&format!("SELECT {table} FROM {table}"))?;
    let mut rows = select.query([])?;
    let mut broken = 0;
    while let Some(row) = rows.next()? {
        broken += u64::from(read::json::<T>(row, 0).is_err());
    }
    if broken > 0 {
        found.problem(None, None, format!("{broken} rows of the table {table} are damaged"));
    }
    Ok(())
}
