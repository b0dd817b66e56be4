//! Integrity checks: a fast one when the store is opened, and a complete one for `sabir hub verify`.

use std::io;
use std::path::Path;

use rusqlite::{Connection, params};
use sabir_protocol::SessionId;
use serde::Serialize;

use super::super::{Artifact, StoredCommand};
use super::damage::Damage;
use super::read::{self, ScannedMessage};
use super::{DATABASE, SqliteStore, WORDS, checksum, remove_database, schema, word_index};
use crate::auth::token::Token;

/// Maximum number of listed problems; more are counted.
const MAX_PROBLEMS: usize = 1_000;
/// Tables that are checked on open: all but `message`, which is large.
const SMALL_TABLES: [&str; 4] = ["session", "placed", "artifact", "token"];

/// Result of [`verify`].
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// `sabir.hub-verify/1`.
    pub schema: &'static str,
    /// Number of checked sessions.
    pub sessions: u64,
    /// Number of checked messages.
    pub messages: u64,
    /// Number of readable messages without a checksum, which earlier versions wrote.
    pub without_checksum: u64,
    /// Number of damaged or missing messages.
    pub damaged_messages: u64,
    /// The damage.
    pub problems: Vec<Problem>,
    /// Number of problems that are not listed.
    pub more_problems: u64,
    /// Rebuilt data.
    pub repaired: Vec<String>,
}

/// Damage at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The session, if it concerns one.
    pub session: Option<SessionId>,
    /// Numbers of the first and the last damaged message, if it concerns messages.
    pub messages: Option<[u64; 2]>,
    /// Description.
    pub what: String,
}

impl Verification {
    /// Returns whether all data is intact.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, session: Option<&SessionId>, messages: Option<[u64; 2]>, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { session: session.cloned(), messages, what: what.into() });
        } else {
            self.more_problems += 1;
        }
    }
}

/// The checked columns of a session.
struct SessionRow {
    id: i64,
    name: Option<SessionId>,
    last: u64,
    own: bool,
    derived: bool,
}

/// Checks everything but messages, and rebuilds damaged indexes and overviews.
pub(super) fn check_on_open(connection: &Connection, damage: &Damage) {
    for table in SMALL_TABLES {
        let first_problem = || {
            let problems = integrity_check(connection, &format!("({table})"));
            problems.map_or_else(|error| Some(error.to_string()), |all| all.into_iter().next())
        };
        if first_problem().is_some() {
            // The damage may be in an index, which can be rebuilt from its table.
            let _ = connection.execute_batch(&format!("REINDEX {table}"));
            if let Some(problem) = first_problem() {
                damage.add_database(&problem);
            }
        }
    }
    let Ok(rows) = session_rows(connection) else { return };
    for row in rows {
        if let Some(name) = row.name.as_ref().filter(|_| !row.own) {
            damage.add_session(name, read::ROW_DAMAGED);
        }
        if !row.derived && reset_derived(connection, row.id).is_err() {
            damage.add_database("an overview is damaged");
        }
    }
    // Gaps that were found in earlier runs.
    let gaps = "SELECT name FROM session WHERE json_valid(overview) AND json_extract(overview, '$.gaps') > 0";
    let names = connection.prepare(gaps).and_then(|mut select| select.query_map([], |row| row.get(0))?.collect());
    let names: Vec<String> = names.unwrap_or_default();
    names.into_iter().filter_map(|name| name.try_into().ok()).for_each(|name| damage.add_session(&name, read::MESSAGES_DAMAGED));
}

/// Resets the derived columns of a session, so that they are rebuilt.
fn reset_derived(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.execute(schema::RESET_DERIVED, [id])?;
    checksum::update_derived(connection, id)
}

/// Runs `PRAGMA integrity_check`; `scope` is a table in parentheses, or empty.
fn integrity_check(connection: &Connection, scope: &str) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check{scope}"))?;
    let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Checks the rows of all sessions.
fn session_rows(connection: &Connection) -> rusqlite::Result<Vec<SessionRow>> {
    let mut select = connection.prepare(&format!("SELECT {} FROM session ORDER BY id", checksum::COLUMNS))?;
    let row = |row: &rusqlite::Row<'_>| {
        let intact = checksum::check(row)?;
        let name = row.get::<_, String>(1).ok().and_then(|name| name.try_into().ok());
        let is_json = read::json::<sabir_core::fold::Overview>(row, 16).is_ok();
        Ok(SessionRow {
            id: row.get(0)?,
            own: intact.own && name.is_some(),
            name,
            last: row.get(5).unwrap_or_default(),
            derived: intact.derived && is_json,
        })
    };
    select.query_map([], row)?.collect()
}

/// Checks all data in the folder of a hub, and with `repair` rebuilds derived data. A hub may be running, except with `repair`.
/// `progress` is called with the number of checked messages and their total.
pub fn verify(folder: &Path, repair: bool, progress: &mut dyn FnMut(u64, u64)) -> io::Result<Verification> {
    if !folder.join(DATABASE).is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the folder has no hub database"));
    }
    let lock = repair.then(|| SqliteStore::lock(folder)).transpose()?;
    let mut verification = Verification { schema: "sabir.hub-verify/1", ..Verification::default() };
    let checked = schema::open(&folder.join(DATABASE)).and_then(|connection| {
        check(&connection, &folder.join(WORDS), repair, &mut verification, progress).map_err(io::Error::other)
    });
    if let Err(error) = checked {
        if error.kind() == io::ErrorKind::Unsupported {
            return Err(error);
        }
        verification.add(None, None, format!("the database cannot be read: {error}"));
    }
    drop(lock);
    Ok(verification)
}

fn check(
    connection: &Connection,
    words: &Path,
    repair: bool,
    verification: &mut Verification,
    progress: &mut dyn FnMut(u64, u64),
) -> rusqlite::Result<()> {
    for problem in integrity_check(connection, "").unwrap_or_else(|error| vec![error.to_string()]) {
        verification.add(None, None, problem);
    }
    if repair && !verification.is_intact() {
        connection.execute_batch("REINDEX")?;
        verification.repaired.push("indexes".to_owned());
    }
    let rows = session_rows(connection)?;
    let total = rows.iter().map(|row| row.last).fold(0, u64::saturating_add);
    for row in rows {
        check_session(connection, &row, repair, verification)?;
        progress(verification.messages, total);
    }
    let orphans: u64 = connection.query_row(
        "SELECT count(*) FROM message INDEXED BY message_seq WHERE session NOT IN (SELECT id FROM session)",
        [],
        |row| row.get(0),
    )?;
    if orphans > 0 {
        verification.add(None, None, format!("{orphans} messages belong to no readable session"));
    }
    check_json::<StoredCommand>(connection, "placed", verification)?;
    check_json::<Artifact>(connection, "artifact", verification)?;
    check_json::<Token>(connection, "token", verification)?;
    if words.is_file()
        && let Err(error) = word_index::check(connection, words)
    {
        verification.add(None, None, format!("the full-text index: {error}"));
        if repair {
            remove_database(words);
            verification.repaired.push("the full-text index".to_owned());
        }
    }
    Ok(())
}

fn check_session(
    connection: &Connection,
    row: &SessionRow,
    repair: bool,
    verification: &mut Verification,
) -> rusqlite::Result<()> {
    let name = row.name.as_ref();
    let label = name.map_or_else(|| format!("row {}", row.id), |name| name.as_str().to_owned());
    verification.sessions += 1;
    let stored: u64 =
        connection.query_row("SELECT coalesce(max(seq), 0) FROM message WHERE session = ?1", [row.id], |row| row.get(0))?;
    let last = if row.own { row.last } else { stored };
    if !row.own {
        verification.add(name, None, read::ROW_DAMAGED);
        if repair {
            connection.execute("UPDATE session SET last = ?2 WHERE id = ?1", params![row.id, stored])?;
            checksum::update_own(connection, row.id)?;
            verification.repaired.push(format!("the row of {label}, whose writer and times may be wrong"));
        }
    }
    let mut range: Option<[u64; 2]> = None;
    let mut ranges = Vec::new();
    let (mut messages, mut unchecked, mut damaged) = (0, 0, 0);
    read::scan(connection, row.id, 0, last.max(stored), &mut |seq, message| {
        messages += 1;
        match message {
            ScannedMessage::Intact { checked, .. } => unchecked += u64::from(!checked),
            ScannedMessage::Damaged => {
                damaged += 1;
                match &mut range {
                    Some([_, end]) if *end + 1 == seq => *end = seq,
                    range => ranges.extend(range.replace([seq, seq])),
                }
            }
        }
        true
    })?;
    verification.messages += messages;
    verification.without_checksum += unchecked;
    verification.damaged_messages += damaged;
    for range in ranges.into_iter().chain(range) {
        verification.add(name, Some(range), "messages are damaged or missing");
    }
    if !row.derived {
        verification.add(name, None, "its overview is damaged");
    }
    if repair && (!row.derived || damaged > 0 || !row.own) {
        reset_derived(connection, row.id)?;
        verification.repaired.push(format!("the overview of {label}, when the hub starts"));
    }
    Ok(())
}

/// Checks a table of JSON values.
fn check_json<T: serde::de::DeserializeOwned>(
    connection: &Connection,
    table: &str,
    verification: &mut Verification,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(&format!("SELECT {table} FROM {table}"))?;
    let mut rows = select.query([])?;
    let mut damaged = 0;
    while let Some(row) = rows.next()? {
        damaged += u64::from(read::json::<T>(row, 0).is_err());
    }
    if damaged > 0 {
        verification.add(None, None, format!("{damaged} rows of the table {table} are damaged"));
    }
    Ok(())
}
