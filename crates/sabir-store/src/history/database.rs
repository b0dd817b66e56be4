//! Databases of sessions: their rows as the lines that the agent's dialect reads.
//!
//! A database may be in use. It is opened for reading only, all of it is read at one moment, and nothing waits long for it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, Transaction, params, params_from_iter};
use sabir_core::history::Ledger;
use sabir_core::line::text_of;
use serde::Serialize;

use super::{LogFile, Role};

/// How long a writer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads a database in short: one ledger for each session. Sub-agents' sessions belong to the one that nobody started.
pub fn note_database(log: &LogFile) -> io::Result<Vec<(Role, Ledger)>> {
    let Some(history) = &log.agent.history else { return Ok(Vec::new()) };
    let read = |snapshot: &Transaction<'_>| {
        let mut ledgers: HashMap<String, Ledger> = HashMap::new();
        let list = sessions(snapshot)?;
        for session in &list {
            let ledger = ledgers.entry(session.id.clone()).or_default();
            session.line().iter().for_each(|line| (history.note)(ledger, line.as_bytes()));
        }
        rows(snapshot, None, |session, line| {
            if let Some(ledger) = ledgers.get_mut(session) {
                (history.note)(ledger, line);
            }
        })?;
        let mut of_session = |(session, root): (&Session, usize)| {
            let id = list[root].id.clone();
            let role = if id == session.id { Role::Session(id) } else { Role::Of(id) };
            (role, ledgers.remove(&session.id).unwrap_or_default())
        };
        Ok(list.iter().zip(roots(&list)).map(&mut of_session).collect())
    };
    at_one_moment(&log.path, read)
}

/// A database that sessions are read from, one after another.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Connection,
    /// What the list was read at: another number says that somebody has written.
    version: Option<i64>,
    list: Vec<Session>,
    roots: Vec<usize>,
}

impl Database {
    /// Opens the database at that path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let connection = open(path).map_err(unreadable)?;
        Ok(Self { path: path.to_path_buf(), connection, version: None, list: Vec::new(), roots: Vec::new() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the lines of a session, those of its sub-agents' sessions after its own.
    pub fn session_lines(&mut self, id: &str, take: impl FnMut(&[u8])) -> io::Result<()> {
        self.try_session_lines(id, take).map_err(unreadable)
    }

    fn try_session_lines(&mut self, id: &str, mut take: impl FnMut(&[u8])) -> rusqlite::Result<()> {
        let snapshot = self.connection.transaction()?;
        let version = Some(snapshot.pragma_query_value(None, "data_version", |row| row.get(0))?);
        if self.version != version {
            self.list = sessions(&snapshot)?;
            self.roots = roots(&self.list);
            self.version = version;
        }
        let list = &self.list;
        let of_it = list.iter().zip(&self.roots).filter(|(session, root)| session.id == id || list[**root].id == id);
        let mut of_it: Vec<&Session> = of_it.map(|(session, _)| session).collect();
        of_it.sort_by_key(|session| session.id != id);
        for session in of_it {
            session.line().iter().for_each(|line| take(line.as_bytes()));
            rows(&snapshot, Some(&session.id), |_, line| take(line))?;
        }
        Ok(())
    }
}

fn at_one_moment<T>(path: &Path, read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> io::Result<T> {
    let open = || read(&open(path)?.transaction()?);
    open().map_err(unreadable)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: rusqlite::Error) -> io::Error {
    io::Error::other(format!("the database cannot be read: {error}"))
}

/// A row of the table of sessions.
#[derive(Debug)]
struct Session {
    id: String,
    parent: Option<String>,
    directory: Option<String>,
    title: Option<String>,
    version: Option<String>,
    created: Option<i64>,
    updated: Option<i64>,
}

impl Session {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            parent: row.get(1)?,
            directory: row.get(2)?,
            title: row.get(3)?,
            version: row.get(4)?,
            created: row.get(5)?,
            updated: row.get(6)?,
        })
    }

    fn line(&self) -> Option<String> {
        #[derive(Serialize)]
        struct Line<'s> {
            table: &'static str,
            id: &'s str,
            parent: Option<&'s str>,
            directory: Option<&'s str>,
            title: Option<&'s str>,
            version: Option<&'s str>,
            created: Option<i64>,
            updated: Option<i64>,
        }
        let line = Line {
            table: "session",
            id: &self.id,
            parent: self.parent.as_deref(),
            directory: self.directory.as_deref(),
            title: self.title.as_deref(),
            version: self.version.as_deref(),
            created: self.created,
            updated: self.updated,
        };
        serde_json::to_string(&line).ok()
    }
}

fn sessions(snapshot: &Transaction<'_>) -> rusqlite::Result<Vec<Session>> {
    let mut statement = snapshot.prepare(
        "SELECT id, parent_id, directory, title, version, time_created, time_updated FROM session ORDER BY time_created, id",
    )?;
    statement.query_map([], Session::of)?.collect()
}

/// The sessions that each session was started for in the end, as places in the list. One whose parent is gone stands alone.
fn roots(list: &[Session]) -> Vec<usize> {
    let places: HashMap<&str, usize> = list.iter().enumerate().map(|(place, session)| (session.id.as_str(), place)).collect();
    let parent = |place: usize| list[place].parent.as_deref().and_then(|parent| places.get(parent).copied());
    let root = |place: usize| {
        let mut root = place;
        for _ in list {
            match parent(root) {
                Some(parent) => root = parent,
                None => return root,
            }
        }
        // Who is an ancestor of itself has none.
        place
    };
    (0..list.len()).map(root).collect()
}

/// Gives the messages, each with its parts behind it, of one session or of all, with the session of each.
fn rows(snapshot: &Transaction<'_>, session: Option<&str>, mut take: impl FnMut(&str, &[u8])) -> rusqlite::Result<()> {
    let of_session = if session.is_some() { "WHERE session_id = ?1" } else { "" };
    let mut messages = snapshot.prepare(&format!(
        "SELECT id, time_created, data, session_id FROM message {of_session} ORDER BY session_id, time_created, id"
    ))?;
    let mut parts = snapshot.prepare("SELECT id, time_created, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut line = Vec::new();
    let mut found = messages.query(params_from_iter(session))?;
    while let Some(row) = found.next()? {
        let session: String = row.get(3)?;
        write_line(&mut line, "message", &[("session", row.get_ref(3)?)], row)?;
        take(&session, &line);
        let message = row.get_ref(0)?;
        let mut of_message = parts.query(params![ToSqlOutput::Borrowed(message)])?;
        while let Some(part) = of_message.next()? {
            write_line(&mut line, "part", &[("session", row.get_ref(3)?), ("message", message)], part)?;
            take(&session, &line);
        }
    }
    Ok(())
}

/// Makes a line of a row: id, time and data, and what the row belongs to. Its data is JSON already, and whatever it is, it
/// stays on the line.
fn write_line(line: &mut Vec<u8>, table: &str, of: &[(&str, ValueRef<'_>)], row: &Row<'_>) -> rusqlite::Result<()> {
    line.clear();
    line.extend_from_slice(b"{\"table\":");
    write_json(line, table);
    for (key, value) in of.iter().copied().chain([("id", row.get_ref(0)?), ("created", row.get_ref(1)?)]) {
        line.push(b',');
        write_json(line, key);
        line.push(b':');
        match value {
            ValueRef::Text(text) => write_json(line, &text_of(text)),
            ValueRef::Integer(number) => write_json(line, &number),
            _ => line.extend_from_slice(b"null"),
        }
    }
    line.extend_from_slice(b",\"data\":");
    let start = line.len();
    line.extend_from_slice(row.get_ref(2)?.as_bytes_or_null()?.unwrap_or(b"null"));
    while let Some(end_of_line) = memchr::memchr2(b'\n', b'\r', &line[start..]) {
        line[start + end_of_line] = b' ';
    }
    line.push(b'}');
    Ok(())
}

fn write_json(line: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // What is written is a text or a number, and memory takes them.
    let _ = serde_json::to_writer(line, value);
}
