//! Databases of sessions: their rows as the lines that the agent's dialect reads.
//!
//! A database may be in use. It is opened for reading only, all of it is read at one moment, and nothing waits long for it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::blob::Blob;
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
        rows(snapshot, None, Long::Head(history.enough), |session, line| {
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
            rows(&snapshot, Some(&session.id), Long::Whole, |_, line| take(line))?;
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

/// What of long rows is read.
#[derive(Clone, Copy)]
enum Long {
    Whole,
    /// No more than their beginning, where that tells enough.
    Head(fn(&[u8]) -> bool),
}

/// Rows are long from here on, in bytes: they do not fit on one page of the database.
const LONG: i64 = 4_096;

/// How much of a long row is read first.
const HEAD: usize = 512;

/// Gives the messages, each with its parts behind it, of one session or of all, with the session of each.
fn rows(
    snapshot: &Transaction<'_>,
    session: Option<&str>,
    long: Long,
    mut take: impl FnMut(&str, &[u8]),
) -> rusqlite::Result<()> {
    let of_session = if session.is_some() { "WHERE session_id = ?1" } else { "" };
    let mut messages = snapshot.prepare(&format!(
        "SELECT id, time_created, data, session_id FROM message {of_session} ORDER BY session_id, time_created, id"
    ))?;
    // The length of a row is known before it is read.
    let mut parts = snapshot.prepare(
        "SELECT id, time_created, CASE WHEN octet_length(data) < ?2 THEN data END, rowid FROM part WHERE message_id = ?1 ORDER BY id",
    )?;
    let mut whole = snapshot.prepare("SELECT data FROM part WHERE rowid = ?1")?;
    let mut heads = Heads { snapshot, blob: None, head: [0; HEAD] };
    let limit = if matches!(long, Long::Whole) { i64::MAX } else { LONG };
    let mut line = Vec::new();
    let mut found = messages.query(params_from_iter(session))?;
    while let Some(row) = found.next()? {
        let session: String = row.get(3)?;
        write_line(&mut line, "message", &[("session", row.get_ref(3)?)], row, row.get_ref(2)?)?;
        take(&session, &line);
        let message = row.get_ref(0)?;
        let mut of_message = parts.query(params![ToSqlOutput::Borrowed(message), limit])?;
        while let Some(part) = of_message.next()? {
            let of = [("session", row.get_ref(3)?), ("message", message)];
            let data = part.get_ref(2)?;
            if let (ValueRef::Null, Long::Head(enough)) = (data, long) {
                if let Some(head) = heads.of(part.get(3)?) {
                    write_line(&mut line, "part", &of, part, ValueRef::Text(head))?;
                    if enough(&line) {
                        take(&session, &line);
                        continue;
                    }
                }
                let mut whole = whole.query(params![part.get_ref(3)?.as_i64()?])?;
                let data = whole.next()?.map_or(Ok(ValueRef::Null), |row| row.get_ref(0))?;
                write_line(&mut line, "part", &of, part, data)?;
            } else {
                write_line(&mut line, "part", &of, part, data)?;
            }
            take(&session, &line);
        }
    }
    Ok(())
}

/// Reads how the data of parts begins.
struct Heads<'s> {
    snapshot: &'s Transaction<'s>,
    /// The last part that was looked at. It is cheaper to go on to the next one than to begin anew.
    blob: Option<Blob<'s>>,
    head: [u8; HEAD],
}

impl Heads<'_> {
    /// `None` when it can't be read so: what is no text and no bytes.
    fn of(&mut self, row: i64) -> Option<&[u8]> {
        let blob = match self.blob.take() {
            Some(mut blob) => blob.reopen(row).map(|()| blob),
            None => self.snapshot.blob_open(c"main", c"part", c"data", row, true),
        };
        let blob = self.blob.insert(blob.ok()?);
        let count = blob.read_at(&mut self.head, 0).ok()?;
        Some(&self.head[..count])
    }
}

/// Makes a line of a row: its id, its time, what it belongs to, and data, which is JSON already. Whatever it is, it stays
/// on the line.
fn write_line(
    line: &mut Vec<u8>,
    table: &str,
    of: &[(&str, ValueRef<'_>)],
    row: &Row<'_>,
    data: ValueRef<'_>,
) -> rusqlite::Result<()> {
    line.clear();
    // None of these words has anything to escape.
    [b"{\"table\":\"", table.as_bytes(), b"\""].into_iter().for_each(|word| line.extend_from_slice(word));
    for (key, value) in of.iter().copied().chain([("id", row.get_ref(0)?), ("created", row.get_ref(1)?)]) {
        [b",\"", key.as_bytes(), b"\":"].into_iter().for_each(|word| line.extend_from_slice(word));
        match value {
            ValueRef::Text(text) => write_json(line, &text_of(text)),
            ValueRef::Integer(number) => write_json(line, &number),
            _ => line.extend_from_slice(b"null"),
        }
    }
    line.extend_from_slice(b",\"data\":");
    let start = line.len();
    line.extend_from_slice(data.as_bytes_or_null()?.unwrap_or(b"null"));
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
