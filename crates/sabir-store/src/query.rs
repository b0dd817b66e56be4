//! SQL over what ran.
//!
//! The tables are made for one question, and only those that it asks: `sessions` and `usage` come from what is read in
//! short, the others take a whole reading. They are in memory as far as they are small, and in a file that is gone
//! afterwards. The question can read and do nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement, params};
use sabir_core::event::{Event, EventKind, FileChange, ToolEnd, ToolStart, ToolUpdate};
use sabir_core::history::Response;
use sabir_core::price::{Price, Table};
use sabir_core::time::Timestamp;

use crate::account::{Session, each_portion};
use crate::index::Log;
use crate::reader::Damage;
use crate::usage::{by_session, cost_of};
use crate::whole;

/// The tables, as they are made.
pub const TABLES: &str = "\
CREATE TABLE sessions (id TEXT, agent TEXT, version TEXT, project TEXT, prompt TEXT, first TEXT, last TEXT, outcome TEXT,
    models TEXT, input INTEGER, cache_read INTEGER, cache_write INTEGER, output INTEGER, reasoning INTEGER, total INTEGER,
    tool_calls INTEGER, cost REAL);
CREATE TABLE usage (session TEXT, agent TEXT, project TEXT, at TEXT, model TEXT, input INTEGER, cache_read INTEGER,
    cache_write INTEGER, output INTEGER, reasoning INTEGER, total INTEGER, cost REAL, tool_calls INTEGER);
CREATE TABLE events (session TEXT, agent TEXT, seq INTEGER, at TEXT, kind TEXT, parent TEXT, event TEXT);
CREATE TABLE tool_calls (session TEXT, agent TEXT, id TEXT, name TEXT, kind TEXT, at TEXT, input TEXT, output TEXT, status TEXT,
    exit_code INTEGER, duration_ms INTEGER, parent TEXT);
CREATE TABLE file_changes (session TEXT, agent TEXT, at TEXT, path TEXT, change TEXT, added INTEGER, removed INTEGER, diff TEXT,
    tool_call TEXT, source TEXT);";

/// Nothing of it is worth a journal. So much of it is in memory, in KiB.
const SETTINGS: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;";

/// What the question is about.
pub struct Subject<'s> {
    /// The sessions.
    pub sessions: &'s [Session],
    /// Their files.
    pub logs: &'s [Log],
    /// What they cost.
    pub prices: &'s Table,
    /// Which sessions are meant.
    pub chosen: &'s dyn Fn(&Session) -> bool,
}

/// A value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
}

/// What there is to say beside the rows.
#[derive(Debug)]
pub struct Answer {
    /// The names of the columns, each another one.
    pub columns: Vec<String>,
    /// What could not be read, and why: there are no rows of it.
    pub failures: Vec<(PathBuf, io::Error)>,
    /// Runs whose journal is damaged: there are rows of what can be read.
    pub damaged: BTreeMap<String, Damage>,
}

/// Who takes rows as they come, each with the names of the columns, and says whether more are wanted.
pub type Taker<'t> = dyn FnMut(&[String], &[Value]) -> ControlFlow<()> + 't;

/// Asks, and hands out each row.
pub fn query(subject: &Subject<'_>, sql: &str, take: &mut Taker<'_>) -> rusqlite::Result<Answer> {
    // A database without a name is a temporary one.
    let mut connection = Connection::open("")?;
    connection.execute_batch(SETTINGS)?;
    connection.execute_batch(TABLES)?;
    let asked = asked_tables(&connection, sql)?;
    let (failures, damaged) = fill(&mut connection, subject, &asked)?;
    connection.authorizer(Some(|context: AuthContext<'_>| read_only(&context)))?;
    let mut statement = connection.prepare(sql)?;
    let columns = told_apart(&statement.column_names());
    let mut rows = statement.query([])?;
    while let Some(found) = rows.next()? {
        let values = (0..columns.len()).map(|column| {
            Ok(match found.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Integer(number),
                ValueRef::Real(number) => Value::Real(number),
                ValueRef::Text(text) | ValueRef::Blob(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
            })
        });
        if take(&columns, &values.collect::<rusqlite::Result<Vec<_>>>()?).is_break() {
            break;
        }
    }
    Ok(Answer { columns, failures, damaged })
}

/// Names of columns, of which no two are the same: the second `id` is `id_2`.
fn told_apart(names: &[&str]) -> Vec<String> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut columns = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        let is_free = |name: &str| !known.contains(name) && !names[place + 1..].contains(&name);
        // There are fewer others than numbers.
        let other = || (2..names.len() + 2).map(|number| format!("{name}_{number}")).find(|name| is_free(name));
        let name = if known.contains(*name) { other() } else { None }.unwrap_or_else(|| (*name).to_owned());
        known.insert(name.clone());
        columns.push(name);
    }
    columns
}

fn read_only(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Function { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// The tables that a question reads: preparing it tells them, and whether it does more than read.
fn asked_tables(connection: &Connection, sql: &str) -> rusqlite::Result<BTreeSet<String>> {
    let tables = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&tables);
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if let (AuthAction::Read { table_name, .. }, Ok(mut noted)) = (context.action, noted.lock()) {
            noted.insert(table_name.to_owned());
        }
        read_only(&context)
    }))?;
    let prepared = connection.prepare(sql).map(drop);
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    prepared?;
    Ok(tables.lock().map(|tables| tables.clone()).unwrap_or_default())
}

/// What could not be read, and which journals are damaged.
type Unread = (Vec<(PathBuf, io::Error)>, BTreeMap<String, Damage>);

/// Fills the tables that are asked for, and says what could not be read.
fn fill(connection: &mut Connection, subject: &Subject<'_>, asked: &BTreeSet<String>) -> rusqlite::Result<Unread> {
    let (mut failures, mut damaged) = (Vec::new(), BTreeMap::new());
    let transaction = connection.transaction()?;
    let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis).map(|at| at.to_string());
    if asked.contains("sessions") {
        let mut insert = transaction.prepare("INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")?;
        let sums = by_session(subject.logs, subject.sessions, subject.prices);
        for (session, sum) in subject.sessions.iter().zip(&sums).filter(|(session, _)| (subject.chosen)(session)) {
            let (spent, account) = (&sum.spent, session.account(subject.logs));
            let told = session.tells_tokens(subject.logs);
            let tokens = |count: u64| told.then(|| whole_number(count));
            insert.execute(params![
                session.id,
                session.agent.id.as_str(),
                account.version(),
                session.account(subject.logs).cwd(),
                account.title(),
                time(session.first),
                time(session.last),
                session.outcome.as_str(),
                session.models(subject.logs).join(", "),
                tokens(spent.input),
                tokens(spent.cache_read),
                tokens(spent.cache_write),
                tokens(spent.output),
                tokens(spent.reasoning),
                tokens(spent.total()),
                whole_number(session.calls(subject.logs)),
                sum.full_cost().0,
            ])?;
        }
    }
    if asked.contains("usage") {
        let mut insert = transaction.prepare("INSERT INTO usage VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)")?;
        let mut row = |session: &Session, model: &str, price: Option<&Price>, response: &Response| {
            let spent = &response.spent;
            insert.execute(params![
                session.id,
                session.agent.id.as_str(),
                session.account(subject.logs).cwd(),
                time(Some(response.at)),
                model,
                whole_number(spent.input),
                whole_number(spent.cache_read),
                whole_number(spent.cache_write),
                whole_number(spent.output),
                whole_number(spent.reasoning),
                whole_number(spent.total()),
                cost_of(response, price),
                response.calls,
            ])
        };
        let mut outcome = Ok(());
        each_portion(subject.logs, subject.sessions, &mut |portion| {
            let session = &subject.sessions[portion.session];
            if outcome.is_ok() && (subject.chosen)(session) {
                let price = subject.prices.find(portion.model);
                outcome = portion.responses().try_for_each(|response| row(session, portion.model, price, &response).map(drop));
            }
        });
        outcome?;
    }
    if ["events", "tool_calls", "file_changes"].iter().any(|table| asked.contains(*table)) {
        let mut rows = Rows {
            events: asked
                .contains("events")
                .then(|| transaction.prepare("INSERT INTO events VALUES (?,?,?,?,?,?,?)"))
                .transpose()?,
            calls: asked
                .contains("tool_calls")
                .then(|| transaction.prepare("INSERT INTO tool_calls VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"))
                .transpose()?,
            changes: asked
                .contains("file_changes")
                .then(|| transaction.prepare("INSERT INTO file_changes VALUES (?,?,?,?,?,?,?,?,?,?)"))
                .transpose()?,
        };
        for session in subject.sessions.iter().filter(|session| (subject.chosen)(session)) {
            let mut open = BTreeMap::new();
            let mut outcome = Ok(());
            let read = whole::events(session, subject.logs, &mut |event| {
                if outcome.is_ok() {
                    outcome = rows.event(session, event, &mut open);
                }
            });
            outcome?;
            match read.map(Damage::beyond_the_end) {
                Ok(damage) if damage.is_none() => {}
                Ok(damage) => drop(damaged.insert(session.id.clone(), damage)),
                Err(error) => failures.push((session.path_to_name(subject.logs), error)),
            }
        }
    }
    transaction.commit()?;
    Ok((failures, damaged))
}

/// `SQLite` has no numbers beyond these.
fn whole_number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The statements that fill the tables of a whole reading.
struct Rows<'c> {
    events: Option<Statement<'c>>,
    calls: Option<Statement<'c>>,
    changes: Option<Statement<'c>>,
}

/// A call that has begun.
struct Call {
    name: String,
    kind: &'static str,
    at: Option<String>,
    input: Option<String>,
}

impl Rows<'_> {
    fn event(&mut self, session: &Session, event: &Event<'_>, open: &mut BTreeMap<String, Call>) -> rusqlite::Result<()> {
        let (id, agent) = (session.id.as_str(), session.agent.id.as_str());
        let at = event.at.map(|at| at.to_string());
        let parent = event.parent_tool_call_id.as_deref();
        if let Some(insert) = &mut self.events {
            let mut json = Vec::new();
            event.write_json(&mut json);
            let json = String::from_utf8_lossy(&json);
            insert.execute(params![id, agent, whole_number(event.seq), at, event.kind.tag(), parent, json])?;
        }
        match &event.kind {
            EventKind::ToolStart(ToolStart { tool_call_id, name, input, tool_kind, .. }) if self.calls.is_some() => {
                let input = input.as_deref().map(str::to_owned);
                let call = Call { name: name.to_string(), kind: tool_kind.as_str(), at, input };
                open.insert(tool_call_id.to_string(), call);
            }
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, input: Some(input), .. }) => {
                if let Some(call) = open.get_mut(&**tool_call_id) {
                    call.input = Some(input.to_string());
                }
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, output, status, exit_code, duration_ms, .. }) => {
                if let (Some(insert), Some(call)) = (&mut self.calls, open.remove(&**tool_call_id)) {
                    let Call { name, kind, at, input } = call;
                    let (output, duration) = (output.as_deref(), duration_ms.map(whole_number));
                    let status = status.as_str();
                    let row =
                        params![id, agent, tool_call_id, name, kind, at, input, output, status, exit_code, duration, parent];
                    insert.execute(row)?;
                }
            }
            EventKind::FileChange(FileChange { path, change, diff, added, removed, tool_call_id, source, .. }) => {
                if let Some(insert) = &mut self.changes {
                    let (added, removed) = (added.map(whole_number), removed.map(whole_number));
                    let (change, source) = (change.as_str(), source.as_str());
                    let (diff, call) = (diff.as_deref(), tool_call_id.as_deref());
                    insert.execute(params![id, agent, at, path, change, added, removed, diff, call, source])?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::told_apart;

    #[test]
    fn no_two_columns_have_one_name() {
        assert_eq!(told_apart(&["id", "id", "x", "id"]), ["id", "id_2", "x", "id_3"]);
        assert_eq!(told_apart(&["id", "id", "id_2", "id_2"]), ["id", "id_3", "id_2", "id_2_2"]);
    }
}
