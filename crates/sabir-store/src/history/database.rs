//! Databases of sessions: their rows as the lines that the agent's dialect reads.
//!
//! A database may be in use. It is opened for reading only, all of it is read at one moment, and nothing waits long for it.

mod open;
mod short;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::blob::Blob;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, Statement, Transaction, params};
use sabir_core::history::{Ledger, LogSpec};
use sabir_core::line::text_of;
use serde::Serialize;

use super::{LogFile, Look, Role};
use open::open;

/// Reads a database in short: one ledger for each session. Sub-agents' sessions belong to the one that nobody started.
pub fn note_database(log: &LogFile) -> io::Result<Vec<(Role, Ledger)>> {
    let Some(history) = &log.agent.log else { return Ok(Vec::new()) };
    let read = |snapshot: &Transaction<'_>| {
        let list = sessions(snapshot)?;
        let of_session = |((session, root), ledger): ((&Session, usize), Ledger)| {
            let id = list[root].id.clone();
            let role = if id == session.id { Role::Session(id) } else { Role::Of(id) };
            (role, ledger)
        };
        let ledgers = short::ledgers(snapshot, &list, history)?;
        Ok(list.iter().zip(roots(&list)).zip(ledgers).map(of_session).collect())
    };
    at_one_moment(&log.path, read)
}

/// A database that sessions are read from, one after another.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Connection,
    /// What the file was, where it was opened as one that nobody writes to.
    at_rest: Option<Look>,
    /// What the list was read at: another number says that somebody has written.
    version: Option<i64>,
    list: Vec<Session>,
    roots: Vec<usize>,
}

impl Database {
    /// Opens the database at that path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (connection, at_rest) = open(path).map_err(unreadable)?;
        Ok(Self { path: path.to_path_buf(), connection, at_rest, version: None, list: Vec::new(), roots: Vec::new() })
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
        if self.at_rest.is_some() && self.at_rest != open::at_rest(&self.path) {
            (self.connection, self.at_rest) = open(&self.path)?;
            self.version = None;
        }
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
            rows(&snapshot, &session.id, Long::Whole, &mut take)?;
        }
        Ok(())
    }
}

fn at_one_moment<T>(path: &Path, read: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>) -> io::Result<T> {
    let by_now = || {
        let (mut connection, at_rest) = open(path)?;
        let outcome = read(&connection.transaction()?);
        if at_rest.is_none() || at_rest == open::at_rest(path) {
            return outcome;
        }
        // Somebody has begun to write meanwhile.
        read(&open::in_use(path)?.transaction()?)
    };
    by_now().map_err(unreadable)
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

/// What of long rows is read.
#[derive(Clone, Copy)]
enum Long<'l> {
    Whole,
    /// No more than their beginning, where that tells enough.
    Head(&'l LogSpec),
}

/// Rows are long whose data has so many bytes: with what else is in them they do not fit on one page of the database.
const LONG: i64 = 3_800;

/// How much of a long row is read first: no more than what is always on the page of its beginning.
const HEAD: usize = 352;

/// Gives the messages of a session, each with its parts behind it.
fn rows(snapshot: &Transaction<'_>, session: &str, long: Long<'_>, mut take: impl FnMut(&[u8])) -> rusqlite::Result<()> {
    let mut messages = snapshot
        .prepare("SELECT id, time_created, data, session_id FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    // The length of a row is known before it is read.
    let mut parts = snapshot.prepare(
        "SELECT id, time_created, CASE WHEN octet_length(data) < ?2 THEN data END, rowid FROM part WHERE message_id = ?1 ORDER BY id",
    )?;
    let mut long_parts = LongParts::new(snapshot)?;
    let limit = if matches!(long, Long::Whole) { i64::MAX } else { LONG };
    let mut line = Vec::new();
    let mut take = |line: &mut Vec<u8>| {
        // Whatever the data is, it stays on the line.
        if let Some(first) = memchr::memchr2(b'\n', b'\r', line) {
            line[first..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        }
        take(line);
    };
    let mut found = messages.query(params![session])?;
    while let Some(row) = found.next()? {
        let (message, session) = (row.get_ref(0)?, row.get_ref(3)?);
        let fields = [("session", session), ("id", message), ("created", row.get_ref(1)?)];
        write_line(&mut line, "message", &fields, row.get_ref(2)?)?;
        take(&mut line);
        let mut of_message = parts.query(params![ToSqlOutput::Borrowed(message), limit])?;
        while let Some(part) = of_message.next()? {
            let fields = [("session", session), ("message", message), ("id", part.get_ref(0)?), ("created", part.get_ref(1)?)];
            match (part.get_ref(2)?, long) {
                (ValueRef::Null, Long::Head(log)) => long_parts.write_line(&mut line, &fields, part.get(3)?, log)?,
                (data, _) => write_line(&mut line, "part", &fields, data)?,
            }
            take(&mut line);
        }
    }
    Ok(())
}

/// Reads the data of long parts, no more than how it begins where that tells enough.
struct LongParts<'s> {
    snapshot: &'s Transaction<'s>,
    /// The last part that was looked at. It is cheaper to go on to the next one than to begin anew.
    blob: Option<Blob<'s>>,
    whole: Statement<'s>,
}

impl<'s> LongParts<'s> {
    fn new(snapshot: &'s Transaction<'s>) -> rusqlite::Result<Self> {
        Ok(Self { snapshot, blob: None, whole: snapshot.prepare("SELECT data FROM part WHERE rowid = ?1")? })
    }

    /// Makes a line of the part in that row.
    fn write_line(
        &mut self,
        line: &mut Vec<u8>,
        fields: &[(&str, ValueRef<'_>)],
        row: i64,
        log: &LogSpec,
    ) -> rusqlite::Result<()> {
        let mut head = [0; HEAD];
        if let Some(count) = self.head(row, &mut head) {
            write_line(line, "part", fields, ValueRef::Text(&head[..count]))?;
            if log.is_prefix_sufficient(line) {
                return Ok(());
            }
        }
        let mut found = self.whole.query(params![row])?;
        let data = found.next()?.map_or(Ok(ValueRef::Null), |row| row.get_ref(0))?;
        write_line(line, "part", fields, data)
    }

    /// How many bytes of its beginning there are. `None` when it can't be read so: what is no text and no bytes.
    fn head(&mut self, row: i64, head: &mut [u8]) -> Option<usize> {
        let blob = match self.blob.take() {
            Some(mut blob) => blob.reopen(row).map(|()| blob),
            None => self.snapshot.blob_open(c"main", c"part", c"data", row, true),
        };
        self.blob.insert(blob.ok()?).read_at(head, 0).ok()
    }
}

/// Makes a line of a row: fields of ours, and data, which is JSON already.
fn write_line(line: &mut Vec<u8>, table: &str, fields: &[(&str, ValueRef<'_>)], data: ValueRef<'_>) -> rusqlite::Result<()> {
    line.clear();
    // None of these words has anything to escape.
    [b"{\"table\":\"", table.as_bytes(), b"\""].into_iter().for_each(|word| line.extend_from_slice(word));
    for (key, value) in fields {
        [b",\"", key.as_bytes(), b"\":"].into_iter().for_each(|word| line.extend_from_slice(word));
        match value {
            ValueRef::Text(text) => write_json(line, &text_of(text)),
            ValueRef::Integer(number) => write_json(line, number),
            _ => line.extend_from_slice(b"null"),
        }
    }
    line.extend_from_slice(b",\"data\":");
    line.extend_from_slice(data.as_bytes_or_null()?.unwrap_or(b"null"));
    line.push(b'}');
    Ok(())
}

fn write_json(line: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // What is written is a text or a number, and memory takes them.
    let _ = serde_json::to_writer(line, value);
}
