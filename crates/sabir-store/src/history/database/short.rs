//! All sessions of a database in short.
//!
//! The rows are read as they lie in the file, one page after another, and not message by message: that would be a search for
//! each of them, and pages that are read again. Messages are read until the one has come that a part belongs to:
//!
//! ```text
//! messages, as they lie     a b d c e           of ses_1: a b c, of ses_2: d e
//! parts, as they lie        a1 a2 b1 d1 b2 c1 d2 e1
//! noted                     a a1 a2 b b1 d d1 b2 c c1 d2 e e1
//! ```
//!
//! Within a session that is nearly always their order. Where it is not (who types while the model is at work has the parts of a
//! message among those of the one before), the session is read once more, message by message.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows, Transaction, params};
use sabir_core::history::{Ledger, LogSpec};

use super::{LONG, Long, LongParts, Session, rows, write_line};

/// So many pages are kept. What is read once need not be, and memory that was in use a moment ago is faster than more of it.
const PAGES: i64 = 64;

/// The ledgers of these sessions, which are all that there are.
pub(super) fn ledgers(snapshot: &Transaction<'_>, list: &[Session], history: &LogSpec) -> rusqlite::Result<Vec<Ledger>> {
    let mut all = All {
        history,
        sessions: list.iter().enumerate().map(|(place, session)| (session.id.as_str(), place)).collect(),
        notes: list.iter().map(|session| Notes::of(session, history)).collect(),
        messages: HashMap::default(),
        line: Vec::new(),
    };
    snapshot.pragma_update(None, "cache_size", PAGES)?;
    all.read(snapshot)?;
    for (session, notes) in list.iter().zip(&mut all.notes).filter(|(_, notes)| notes.is_disordered) {
        *notes = Notes::of(session, history);
        rows(snapshot, &session.id, Long::Head(history), |line| history.scan(&mut notes.ledger, line))?;
    }
    Ok(all.notes.into_iter().map(|notes| notes.ledger).collect())
}

/// What is known so far.
struct All<'s> {
    history: &'s LogSpec,
    /// The places of the sessions, by their ids.
    sessions: HashMap<&'s str, usize>,
    notes: Vec<Notes>,
    /// The sessions that messages belong to, by the ids of the messages. Some belong to one that there is not.
    messages: HashMap<Box<[u8]>, Option<usize>, FixedState>,
    line: Vec<u8>,
}

impl All<'_> {
    fn read(&mut self, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut messages = snapshot.prepare("SELECT id, session_id, time_created, data FROM message ORDER BY rowid")?;
        let mut messages = messages.query([])?;
        // The length of a row is known before it is read.
        let mut parts = snapshot.prepare(
            "SELECT message_id, id, time_created, CASE WHEN octet_length(data) < ?1 THEN data END, rowid FROM part ORDER BY rowid",
        )?;
        let mut parts = parts.query(params![LONG])?;
        let mut long_parts = LongParts::new(snapshot)?;
        // The message of the part before is nearly always that of the next one, too.
        let (mut message, mut session) = (Vec::new(), None);
        while let Some(part) = parts.next()? {
            let of = bytes(part, 0)?;
            if message != of {
                of.clone_into(&mut message);
                session = self.session_of(&message, &mut messages)?;
            }
            let Some(notes) = session.map(|session| &mut self.notes[session]) else { continue };
            if !notes.goes_on_with(&message, bytes(part, 1)?) {
                continue;
            }
            let created = [("created", part.get_ref(2)?)];
            match part.get_ref(3)? {
                ValueRef::Null => long_parts.write_line(&mut self.line, &created, part.get(4)?, self.history)?,
                data => write_line(&mut self.line, "part", &created, data)?,
            }
            self.history.scan(&mut notes.ledger, &self.line);
        }
        while let Some(message) = messages.next()? {
            self.note_message(message)?;
        }
        Ok(())
    }

    /// The session of a message; reads messages until it comes.
    fn session_of(&mut self, id: &[u8], messages: &mut Rows<'_>) -> rusqlite::Result<Option<usize>> {
        loop {
            if let Some(session) = self.messages.get(id) {
                return Ok(*session);
            }
            match messages.next()? {
                Some(message) => self.note_message(message)?,
                None => return Ok(None),
            }
        }
    }

    fn note_message(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let (id, session) = (bytes(row, 0)?, self.sessions.get(row.get_ref(1)?.as_str()?).copied());
        self.messages.insert(id.into(), session);
        let Some(notes) = session.map(|session| &mut self.notes[session]) else { return Ok(()) };
        let created = row.get_ref(2)?;
        if notes.begins(id, created.as_i64_or_null()?) {
            write_line(&mut self.line, "message", &[("created", created)], row.get_ref(3)?)?;
            self.history.scan(&mut notes.ledger, &self.line);
        }
        Ok(())
    }
}

fn bytes<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r [u8]> {
    Ok(row.get_ref(column)?.as_bytes_or_null()?.unwrap_or_default())
}

/// What is noted of a session.
struct Notes {
    ledger: Ledger,
    /// The message that was noted last: when it was, and its id.
    message: (Option<i64>, Vec<u8>),
    /// The id of its part that was.
    part: Vec<u8>,
    /// Its rows do not lie in their order.
    is_disordered: bool,
}

impl Notes {
    fn of(session: &Session, history: &LogSpec) -> Self {
        let mut ledger = Ledger::default();
        session.line().iter().for_each(|line| history.scan(&mut ledger, line.as_bytes()));
        Self { ledger, message: (None, Vec::new()), part: Vec::new(), is_disordered: false }
    }

    /// Whether that message comes behind the last one.
    fn begins(&mut self, id: &[u8], created: Option<i64>) -> bool {
        self.is_disordered |= (created, id) <= (self.message.0, &self.message.1);
        self.message.0 = created;
        id.clone_into(&mut self.message.1);
        self.part.clear();
        !self.is_disordered
    }

    /// Whether that part is of the last message, and comes behind the last part.
    fn goes_on_with(&mut self, message: &[u8], part: &[u8]) -> bool {
        self.is_disordered |= message != self.message.1 || part <= self.part.as_slice();
        part.clone_into(&mut self.part);
        !self.is_disordered
    }
}
