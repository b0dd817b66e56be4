//! Writer thread with group commit, and the statements that it runs.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension as _, params};
use sabir_core::fold::Overview;
use sabir_core::time::Timestamp;
use sabir_protocol::{Hello, Order, Refusal, SessionId, Taken};
use tokio::sync::{mpsc, oneshot};

use super::super::fencing::{self, WriterState};
use super::super::{
    AddCommandResult, AppendRequest, AppendResult, Artifact, CommandOutcome, OpenResult, StoreFuture, StoredCommand,
};
use super::damage::Damage;
use super::{checksum, read, schema, store_error};
use crate::auth::token::Token;
use crate::error::StoreError;
use crate::quota::{Part, Quota};

/// Maximum number of jobs per commit, which bounds the delay of the first.
const GROUP_JOBS: usize = 512;

/// A unit of work with its own savepoint.
trait Job: Send {
    /// Runs the job; `false` rolls it back.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Sends the reply after the commit.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Task<T, W, F> {
    work: Option<W>,
    result: Option<rusqlite::Result<T>>,
    on_commit: F,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, W, F> Job for Task<T, W, F>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    F: FnOnce(&T) + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        self.result = self.work.take().map(|work| work(connection));
        matches!(self.result, Some(Ok(_)))
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (self.result, committed) {
            (Some(Err(error)), _) => Err(store_error(&error)),
            (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(())) => {
                (self.on_commit)(&value);
                Ok(value)
            }
            (None, Ok(())) => Err(closed()),
        };
        // Fails if the caller has gone.
        let _ = self.reply.send(result);
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// Handle of the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::UnboundedSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, wake: Option<SyncSender<()>>, quota: Arc<Quota>) -> io::Result<Self> {
        let (jobs, mut queue) = mpsc::unbounded_channel::<Box<dyn Job>>();
        let write = move || {
            let mut limit = None;
            while let Some(first) = queue.blocking_recv() {
                let mut group = VecDeque::from([first]);
                while let Some(job) = (group.len() < GROUP_JOBS).then(|| queue.try_recv().ok()).flatten() {
                    group.push_back(job);
                }
                let share = quota.share(Part::Messages);
                // A limit that cannot be set is retried with the next group.
                if share != limit && schema::set_limit(&connection, share).is_ok() {
                    limit = share;
                }
                commit(&connection, group);
                // Skipped without a limit, because it costs as much as a small commit in memory.
                if share.is_some() {
                    quota.set(Part::Messages, schema::size(&connection, "main").unwrap_or_default());
                }
                if let Some(wake) = &wake {
                    // The channel holds one wake-up, which is enough for any number of commits.
                    let _ = wake.try_send(());
                }
            }
        };
        let thread = std::thread::Builder::new().name("hub-writer".to_owned()).spawn(write)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Queues a job immediately. After its commit, `on_commit` is called, and then the future completes.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> StoreFuture<T> {
        let (reply, replied) = oneshot::channel();
        let job = Task { work: Some(work), result: None, on_commit, reply };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Box::new(job)).is_ok());
        Box::pin(async move { if sent { replied.await.map_err(|_| closed())? } else { Err(closed()) } })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends after the queued jobs.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs and commits all jobs, in one transaction unless a commit fails.
fn commit(connection: &Connection, mut group: VecDeque<Box<dyn Job>>) {
    while !group.is_empty() {
        let mut done = Vec::with_capacity(group.len());
        let committed = transaction(connection, &mut group, &mut done);
        if done.is_empty() {
            // The transaction could not begin, so no job could run.
            done.extend(group.drain(..));
        }
        done.into_iter().for_each(|job| job.finish(committed.clone()));
    }
}

/// Runs jobs and commits them. If that fails, the jobs in `done` are rolled back.
fn transaction(
    connection: &Connection,
    group: &mut VecDeque<Box<dyn Job>>,
    done: &mut Vec<Box<dyn Job>>,
) -> Result<(), StoreError> {
    let run = |text| connection.execute_batch(text).map_err(|error| store_error(&error));
    run("BEGIN IMMEDIATE")?;
    let mut all = || {
        while let Some(mut job) = group.pop_front() {
            run("SAVEPOINT job")?;
            let succeeded = job.run(connection);
            done.push(job);
            if connection.is_autocommit() {
                // SQLite may roll back the whole transaction by itself when the disk is full.
                return Err(StoreError::Unavailable("the disk or the size limit is full".to_owned()));
            }
            run(if succeeded { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" })?;
        }
        run("COMMIT")
    };
    all().inspect_err(|_| {
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
    })
}

/// Converts a number to an SQLite integer.
pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Row id of a session.
fn row_id(database: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    let mut select = database.prepare_cached("SELECT id FROM session WHERE name = ?1")?;
    select.query_row([session.as_str()], |row| row.get(0)).optional()
}

/// Writer of a session and its row id. Fails if the row is damaged, so that nothing is written before it is repaired.
fn writer_state(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<(i64, WriterState)>> {
    let mut select = database.prepare_cached(&format!("SELECT {} FROM session WHERE name = ?1", checksum::OWN))?;
    select
        .query_row([session.as_str()], |row| {
            if !checksum::is_own_intact(row)? {
                damage.add_session(session, read::ROW_DAMAGED);
                return Err(damaged(read::ROW_DAMAGED));
            }
            let state = WriterState { writer: row.get(2)?, epoch: row.get(3)?, start: row.get(4)?, last: row.get(5)? };
            Ok((row.get(0)?, state))
        })
        .optional()
}

/// An error for damage that SQLite does not detect.
fn damaged(description: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(description.to_owned()))
}

/// Stores the writer of a session, which is created if necessary, and returns its row id.
fn store_writer(database: &Connection, session: &SessionId, state: &WriterState, now: Timestamp) -> rusqlite::Result<i64> {
    let mut upsert = database.prepare_cached(
        "INSERT INTO session (name, writer, epoch, start, last, created, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT (name) DO UPDATE SET writer = ?2, epoch = ?3, start = ?4, last = ?5, updated = ?6
         RETURNING id",
    )?;
    let values = params![session.as_str(), state.writer, state.epoch, to_sql(state.start), to_sql(state.last), now.as_millis()];
    upsert.query_row(values, |row| row.get(0))
}

pub(super) fn open(
    database: &Connection,
    hello: &Hello,
    connection: u64,
    now: Timestamp,
    damage: &Damage,
) -> rusqlite::Result<OpenResult> {
    let current = writer_state(database, &hello.session, damage)?;
    let state = match fencing::open(current.as_ref().map(|(_, state)| state), hello) {
        Ok(state) => state,
        Err(refusal) => return Ok(OpenResult::Refused(refusal)),
    };
    let id = store_writer(database, &hello.session, &state, now)?;
    // Damaged columns keep their mismatch until they are rebuilt.
    let is_derived_intact = checksum::is_derived_intact(database, id)?;
    let mut update = database.prepare_cached(
        "UPDATE session SET shell = ?2, takes = ?3, agent = coalesce(agent, ?4),
             overview = iif(agent IS NULL AND ?4 IS NOT NULL, json_set(overview, '$.agent', ?4), overview)
         WHERE id = ?1",
    )?;
    update.execute(params![id, hello.shell, json(&hello.takes)?, hello.agent])?;
    checksum::update_own(database, id)?;
    if is_derived_intact {
        checksum::update_derived(database, id)?;
    }
    let commands = read::pending_commands(database, id)?;
    Ok(OpenResult::Welcome { epoch: state.epoch, last: state.last, connection, commands })
}

pub(super) fn append(
    database: &Connection,
    request: &AppendRequest,
    now: Timestamp,
    damage: &Damage,
) -> rusqlite::Result<AppendResult> {
    let current = writer_state(database, &request.session, damage)?;
    let state = match fencing::admit(current.as_ref().map(|(_, state)| state), &request.writer, request.epoch) {
        Ok(state) => state,
        Err(refusal) => return Ok(AppendResult::Refused(refusal)),
    };
    if request.first > state.last + 1 {
        return Ok(AppendResult::Gap { expected: state.last + 1 });
    }
    let overlap = usize::try_from(state.last + 1 - request.first).unwrap_or(usize::MAX).min(request.messages.len());
    let (repeated, new) = request.messages.split_at(overlap);
    if let Some(refusal) = compare(database, current.map(|(id, _)| id), request.first, repeated)? {
        return Ok(AppendResult::Refused(refusal));
    }
    let last = state.last + new.len() as u64;
    let id = store_writer(database, &request.session, &WriterState { last, ..state.clone() }, now)?;
    checksum::update_own(database, id)?;
    let mut insert = database.prepare_cached("INSERT INTO message (session, seq, line, checksum) VALUES (?1, ?2, ?3, ?4)")?;
    for (seq, line) in (state.last + 1..).zip(new) {
        let seq = to_sql(seq);
        insert.execute(params![id, seq, line.as_ref(), checksum::message(id, seq, line)])?;
    }
    Ok(AppendResult::Stored { last, new: new.len() })
}

/// Compares repeated messages with the stored ones; a difference is refused. A damaged message is repaired if the repeated one has
/// its checksum.
fn compare(
    database: &Connection,
    id: Option<i64>,
    first: u64,
    repeated: &[axum::body::Bytes],
) -> rusqlite::Result<Option<Refusal>> {
    let Some(id) = id.filter(|_| !repeated.is_empty()) else { return Ok(None) };
    let mut select = database.prepare_cached("SELECT line, checksum FROM message WHERE session = ?1 AND seq = ?2")?;
    for (seq, line) in (first..).zip(repeated) {
        let stored = select
            .query_row(params![id, to_sql(seq)], |row| {
                let stored = row.get_ref(0)?.as_blob()?;
                let sum: Option<i64> = row.get(1)?;
                let is_intact = sum.is_none_or(|sum| sum == checksum::message(id, to_sql(seq), stored));
                Ok((stored == line.as_ref(), is_intact, sum))
            })
            .optional()?;
        let expected = checksum::message(id, to_sql(seq), line);
        match stored {
            Some((true, true, _)) => {}
            Some((false, true, _)) => return Ok(Some(fencing::changed_message(seq))),
            Some((is_equal, false, sum)) if is_equal || sum == Some(expected) => {
                let mut repair =
                    database.prepare_cached("UPDATE message SET line = ?3, checksum = ?4 WHERE session = ?1 AND seq = ?2")?;
                repair.execute(params![id, to_sql(seq), line.as_ref(), expected])?;
            }
            // The stored message is unreadable, so it is unknown whether the runner or the disk changed it.
            Some(_) | None => return Err(damaged(read::MESSAGES_DAMAGED)),
        }
    }
    Ok(None)
}

pub(super) fn add_command(
    database: &Connection,
    session: &SessionId,
    command: Order,
    at: Timestamp,
    damage: &Damage,
) -> rusqlite::Result<AddCommandResult> {
    let Some((id, _)) = writer_state(database, session, damage)? else { return Ok(AddCommandResult::UnknownSession) };
    let mut sum =
        database.prepare_cached("SELECT coalesce(sum(octet_length(placed)), 0) FROM placed WHERE session = ?1 AND open")?;
    let pending = sum.query_row([id], |row| row.get(0))?;
    if !fencing::fits_pending(pending, &command) {
        return Ok(AddCommandResult::Full { pending });
    }
    let mut next = database.prepare_cached("UPDATE session SET orders = orders + 1 WHERE id = ?1 RETURNING orders")?;
    let count: u64 = next.query_row([id], |row| row.get(0))?;
    let command = Order { order: count, ..command };
    let stored = json(&StoredCommand { command: command.clone(), at, outcome: None })?;
    let mut insert = database.prepare_cached("INSERT INTO placed (session, number, placed, open) VALUES (?1, ?2, ?3, 1)")?;
    insert.execute(params![id, to_sql(count), stored])?;
    checksum::update_own(database, id)?;
    Ok(AddCommandResult::Added(command))
}

pub(super) fn resolve_command(database: &Connection, session: &SessionId, taken: Taken, at: Timestamp) -> rusqlite::Result<bool> {
    let Some(id) = row_id(database, session)? else { return Ok(false) };
    let mut select = database.prepare_cached("SELECT placed FROM placed WHERE session = ?1 AND number = ?2")?;
    let stored = select.query_row(params![id, to_sql(taken.order)], |row| read::json::<StoredCommand>(row, 0)).optional()?;
    let Some(mut stored) = stored.filter(|stored| stored.outcome.is_none()) else { return Ok(false) };
    stored.outcome = Some(CommandOutcome { accepted: taken.accepted, reason: taken.reason, at });
    let mut update = database.prepare_cached("UPDATE placed SET placed = ?3, open = 0 WHERE session = ?1 AND number = ?2")?;
    update.execute(params![id, to_sql(taken.order), json(&stored)?])?;
    Ok(true)
}

pub(super) fn put_overview(database: &Connection, session: &SessionId, seq: u64, overview: &Overview) -> rusqlite::Result<()> {
    let mut update = database.prepare_cached(
        "UPDATE session SET folded = ?2, overview = ?3, agent = ?4, phase = ?5, workspace = ?6
         WHERE name = ?1 AND folded <= ?2 RETURNING id",
    )?;
    let values =
        params![session.as_str(), to_sql(seq), json(overview)?, overview.agent, overview.phase.as_str(), overview.workspace];
    let Some(id) = update.query_row(values, |row| row.get(0)).optional()? else { return Ok(()) };
    checksum::update_derived(database, id)
}

/// Checks that a small write and, rolled back, a larger one are possible.
pub(super) fn probe(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch("SAVEPOINT probe")?;
    let inserted = database.execute("INSERT INTO message (session, seq, line) VALUES (-1, -1, zeroblob(65536))", []);
    database.execute_batch("ROLLBACK TO probe; RELEASE probe")?;
    inserted?;
    schema::rewrite_version(database)
}

pub(super) fn put_artifact(database: &Connection, session: &SessionId, artifact: &Artifact) -> rusqlite::Result<bool> {
    let Some(id) = row_id(database, session)? else { return Ok(false) };
    let mut put = database.prepare_cached("INSERT OR REPLACE INTO artifact (session, digest, artifact) VALUES (?1, ?2, ?3)")?;
    put.execute(params![id, artifact.digest, json(artifact)?])?;
    Ok(true)
}

pub(super) fn add_token(database: &Connection, token: &Token) -> rusqlite::Result<()> {
    let mut put = database.prepare_cached("INSERT INTO token (id, token) VALUES (?1, ?2)")?;
    put.execute(params![token.id, json(token)?]).map(drop)
}

pub(super) fn revoke_token(database: &Connection, id: &str, at: Timestamp) -> rusqlite::Result<bool> {
    let mut select = database.prepare_cached("SELECT token FROM token WHERE id = ?1")?;
    let Some(mut token) = select.query_row([id], |row| read::json::<Token>(row, 0)).optional()? else { return Ok(false) };
    token.revoked.get_or_insert(at);
    database.prepare_cached("UPDATE token SET token = ?2 WHERE id = ?1")?.execute(params![id, json(&token)?])?;
    Ok(true)
}
