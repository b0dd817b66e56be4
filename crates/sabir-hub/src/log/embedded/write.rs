//! The thread that writes, and what it does.

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

use super::super::rules::{self, Place};
use super::super::{Added, Answer, Append, Appended, Artifact, Begun, Outcome, Placed, Trouble};
use super::damage::Damage;
use super::{checksum, read, schema, trouble};
use crate::auth::token::Token;
use crate::quota::{Part, Quota};

/// At most so many jobs share a commit, so that the first does not wait for ever.
const TOGETHER: usize = 512;

/// Something to do, and somebody who waits for it.
trait Job: Send {
    /// Does it; whether it is to stay.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Says what became of it.
    fn finish(self: Box<Self>, committed: Result<(), Trouble>);
}

struct Work<T, W, F> {
    work: Option<W>,
    result: Option<rusqlite::Result<T>>,
    tell: F,
    answer: oneshot::Sender<Result<T, Trouble>>,
}

impl<T: Send, W, F> Job for Work<T, W, F>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    F: FnOnce(&T) + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        self.result = self.work.take().map(|work| work(connection));
        matches!(self.result, Some(Ok(_)))
    }

    fn finish(self: Box<Self>, committed: Result<(), Trouble>) {
        let result = match (self.result, committed) {
            (Some(Err(error)), _) => Err(trouble(&error)),
            (_, Err(trouble)) => Err(trouble),
            (Some(Ok(value)), Ok(())) => {
                (self.tell)(&value);
                Ok(value)
            }
            (None, Ok(())) => Err(closed()),
        };
        // Who does not wait any more, sees it when it asks again.
        let _ = self.answer.send(result);
    }
}

fn closed() -> Trouble {
    Trouble::Unavailable("the log is closed".to_owned())
}

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
                while let Some(job) = (group.len() < TOGETHER).then(|| queue.try_recv().ok()).flatten() {
                    group.push_back(job);
                }
                let share = quota.share(Part::Messages);
                // A limit that can't be set is tried again with the next group.
                if share != limit && schema::limit(&connection, share).is_ok() {
                    limit = share;
                }
                commit(&connection, group);
                // Without a limit nobody asks, and to find it out costs as much as a small commit in memory.
                if share.is_some() {
                    quota.set(Part::Messages, schema::size(&connection, "main").unwrap_or_default());
                }
                if let Some(wake) = &wake {
                    // One call is enough for any number of commits.
                    let _ = wake.try_send(());
                }
            }
        };
        let thread = std::thread::Builder::new().name("hub-writer".to_owned()).spawn(write)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Puts work into the queue, at once. When it is committed, `tell` hears what came of it, and then who waits.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        tell: impl FnOnce(&T) + Send + 'static,
    ) -> Answer<T> {
        let (answer, waiting) = oneshot::channel();
        let job = Work { work: Some(work), result: None, tell, answer };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Box::new(job)).is_ok());
        Box::pin(async move { if sent { waiting.await.map_err(|_| closed())? } else { Err(closed()) } })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What is in the queue is still done.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Does all jobs, together if nothing breaks.
fn commit(connection: &Connection, mut group: VecDeque<Box<dyn Job>>) {
    while !group.is_empty() {
        let mut done = Vec::with_capacity(group.len());
        let committed = transaction(connection, &mut group, &mut done);
        if done.is_empty() {
            // Not even a beginning: nobody would do better now.
            done.extend(group.drain(..));
        }
        done.into_iter().for_each(|job| job.finish(committed.clone()));
    }
}

/// Does jobs and commits them, or takes back all that were done.
fn transaction(connection: &Connection, group: &mut VecDeque<Box<dyn Job>>, done: &mut Vec<Box<dyn Job>>) -> Result<(), Trouble> {
    let run = |text| connection.execute_batch(text).map_err(|error| trouble(&error));
    run("BEGIN IMMEDIATE")?;
    let mut all = || {
        while let Some(mut job) = group.pop_front() {
            run("SAVEPOINT job")?;
            let keep = job.run(connection);
            done.push(job);
            if connection.is_autocommit() {
                // When the disk is full, the database may take back the whole transaction by itself.
                return Err(Trouble::Unavailable("there is no room".to_owned()));
            }
            run(if keep { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" })?;
        }
        run("COMMIT")
    };
    all().inspect_err(|_| {
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
    })
}

/// A number as the database keeps it.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The row of a session.
pub(super) fn id(database: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    let mut find = database.prepare_cached("SELECT id FROM session WHERE name = ?1")?;
    find.query_row([session.as_str()], |row| row.get(0)).optional()
}

/// Who writes a session, and how far it is. A damaged row says neither, so nothing is taken before it is repaired.
fn place(database: &Connection, session: &SessionId, damage: &Damage) -> rusqlite::Result<Option<(i64, Place)>> {
    let mut find = database.prepare_cached(&format!("SELECT {} FROM session WHERE name = ?1", checksum::OWN))?;
    find.query_row([session.as_str()], |row| {
        if !checksum::is_own_intact(row)? {
            damage.of_session(session, read::ROW);
            return Err(damaged(read::ROW));
        }
        let place = Place { writer: row.get(2)?, epoch: row.get(3)?, start: row.get(4)?, last: row.get(5)? };
        Ok((row.get(0)?, place))
    })
    .optional()
}

/// What was written before is not there any more.
fn damaged(what: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(what.to_owned()))
}

/// Writes the place, and gives the row.
fn keep(database: &Connection, session: &SessionId, place: &Place, now: Timestamp) -> rusqlite::Result<i64> {
    let mut keep = database.prepare_cached(
        "INSERT INTO session (name, writer, epoch, start, last, created, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT (name) DO UPDATE SET writer = ?2, epoch = ?3, start = ?4, last = ?5, updated = ?6
         RETURNING id",
    )?;
    let values = params![session.as_str(), place.writer, place.epoch, number(place.start), number(place.last), now.as_millis()];
    keep.query_row(values, |row| row.get(0))
}

pub(super) fn begin(
    database: &Connection,
    hello: &Hello,
    connection: u64,
    now: Timestamp,
    damage: &Damage,
) -> rusqlite::Result<Begun> {
    let known = place(database, &hello.session, damage)?;
    let place = match rules::begin(known.as_ref().map(|(_, place)| place), hello) {
        Ok(place) => place,
        Err(refusal) => return Ok(Begun::Refused(refusal)),
    };
    let id = keep(database, &hello.session, &place, now)?;
    // What is damaged stays so, until it is made anew.
    let is_derived_intact = checksum::is_derived_intact(database, id)?;
    let mut about = database.prepare_cached(
        "UPDATE session SET shell = ?2, takes = ?3, agent = coalesce(agent, ?4),
             overview = iif(agent IS NULL AND ?4 IS NOT NULL, json_set(overview, '$.agent', ?4), overview)
         WHERE id = ?1",
    )?;
    about.execute(params![id, hello.shell, json(&hello.takes)?, hello.agent])?;
    checksum::seal_own(database, id)?;
    if is_derived_intact {
        checksum::seal_derived(database, id)?;
    }
    let orders = super::read::open_orders(database, id)?;
    Ok(Begun::Welcome { epoch: place.epoch, last: place.last, connection, orders })
}

pub(super) fn append(database: &Connection, batch: &Append, now: Timestamp, damage: &Damage) -> rusqlite::Result<Appended> {
    let known = place(database, &batch.session, damage)?;
    let place = match rules::admit(known.as_ref().map(|(_, place)| place), &batch.writer, batch.epoch) {
        Ok(place) => place,
        Err(refusal) => return Ok(Appended::Refused(refusal)),
    };
    if batch.first > place.last + 1 {
        return Ok(Appended::Gap { expected: place.last + 1 });
    }
    let overlap = usize::try_from(place.last + 1 - batch.first).unwrap_or(usize::MAX).min(batch.messages.len());
    let (again, new) = batch.messages.split_at(overlap);
    if let Some(refusal) = compare(database, known.map(|(id, _)| id), batch.first, again)? {
        return Ok(Appended::Refused(refusal));
    }
    let last = place.last + new.len() as u64;
    let id = keep(database, &batch.session, &Place { last, ..place.clone() }, now)?;
    checksum::seal_own(database, id)?;
    let mut insert = database.prepare_cached("INSERT INTO message (session, seq, line, checksum) VALUES (?1, ?2, ?3, ?4)")?;
    for (seq, line) in (place.last + 1..).zip(new) {
        let seq = number(seq);
        insert.execute(params![id, seq, line.as_ref(), checksum::message(id, seq, line)])?;
    }
    Ok(Appended::Kept { last, new: new.len() })
}

/// What is wrong with messages that come again. One that is damaged here is mended by one that has its checksum.
fn compare(database: &Connection, id: Option<i64>, first: u64, again: &[axum::body::Bytes]) -> rusqlite::Result<Option<Refusal>> {
    let Some(id) = id.filter(|_| !again.is_empty()) else { return Ok(None) };
    let mut kept = database.prepare_cached("SELECT line, checksum FROM message WHERE session = ?1 AND seq = ?2")?;
    for (seq, line) in (first..).zip(again) {
        let found = kept
            .query_row(params![id, number(seq)], |row| {
                let kept = row.get_ref(0)?.as_blob()?;
                let sum: Option<i64> = row.get(1)?;
                let is_intact = sum.is_none_or(|sum| sum == checksum::message(id, number(seq), kept));
                Ok((kept == line.as_ref(), is_intact, sum))
            })
            .optional()?;
        let again = checksum::message(id, number(seq), line);
        match found {
            Some((true, true, _)) => {}
            Some((false, true, _)) => return Ok(Some(rules::differs(seq))),
            Some((same, false, sum)) if same || sum == Some(again) => {
                let mut mend =
                    database.prepare_cached("UPDATE message SET line = ?3, checksum = ?4 WHERE session = ?1 AND seq = ?2")?;
                mend.execute(params![id, number(seq), line.as_ref(), again])?;
            }
            // What was kept can't be compared, so it is not known whether the shell or the disk is wrong.
            Some(_) | None => return Err(damaged(read::MESSAGES)),
        }
    }
    Ok(None)
}

pub(super) fn add_order(
    database: &Connection,
    session: &SessionId,
    order: Order,
    at: Timestamp,
    damage: &Damage,
) -> rusqlite::Result<Added> {
    let Some((id, _)) = place(database, session, damage)? else { return Ok(Added::NoSession) };
    let mut sum =
        database.prepare_cached("SELECT coalesce(sum(octet_length(placed)), 0) FROM placed WHERE session = ?1 AND open")?;
    let pending = sum.query_row([id], |row| row.get(0))?;
    if !rules::has_room(pending, &order) {
        return Ok(Added::Full { pending });
    }
    let mut next = database.prepare_cached("UPDATE session SET orders = orders + 1 WHERE id = ?1 RETURNING orders")?;
    let count: u64 = next.query_row([id], |row| row.get(0))?;
    let order = Order { order: count, ..order };
    let placed = json(&Placed { order: order.clone(), at, taken: None })?;
    let mut insert = database.prepare_cached("INSERT INTO placed (session, number, placed, open) VALUES (?1, ?2, ?3, 1)")?;
    insert.execute(params![id, number(count), placed])?;
    checksum::seal_own(database, id)?;
    Ok(Added::Order(order))
}

pub(super) fn taken(database: &Connection, session: &SessionId, taken: Taken, at: Timestamp) -> rusqlite::Result<bool> {
    let Some(id) = id(database, session)? else { return Ok(false) };
    let mut find = database.prepare_cached("SELECT placed FROM placed WHERE session = ?1 AND number = ?2")?;
    let found = find.query_row(params![id, number(taken.order)], |row| super::read::json::<Placed>(row, 0)).optional()?;
    let Some(mut placed) = found else { return Ok(false) };
    if placed.taken.is_some() {
        return Ok(false);
    }
    placed.taken = Some(Outcome { accepted: taken.accepted, reason: taken.reason, at });
    let mut update = database.prepare_cached("UPDATE placed SET placed = ?3, open = 0 WHERE session = ?1 AND number = ?2")?;
    update.execute(params![id, number(taken.order), json(&placed)?])?;
    Ok(true)
}

pub(super) fn describe(database: &Connection, session: &SessionId, folded: u64, overview: &Overview) -> rusqlite::Result<()> {
    let mut update = database.prepare_cached(
        "UPDATE session SET folded = ?2, overview = ?3, agent = ?4, phase = ?5, workspace = ?6
         WHERE name = ?1 AND folded <= ?2 RETURNING id",
    )?;
    let values =
        params![session.as_str(), number(folded), json(overview)?, overview.agent, overview.phase.as_str(), overview.workspace];
    let Some(id) = update.query_row(values, |row| row.get(0)).optional()? else { return Ok(()) };
    checksum::seal_derived(database, id)
}

/// Writes a little that stays, and something larger that does not, to know whether both are possible.
pub(super) fn probe(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch("SAVEPOINT room")?;
    let room = database.execute("INSERT INTO message (session, seq, line) VALUES (-1, -1, zeroblob(65536))", []);
    database.execute_batch("ROLLBACK TO room; RELEASE room")?;
    room?;
    schema::rewrite_version(database)
}

pub(super) fn put_artifact(database: &Connection, session: &SessionId, artifact: &Artifact) -> rusqlite::Result<bool> {
    let Some(id) = id(database, session)? else { return Ok(false) };
    let mut put = database.prepare_cached("INSERT OR REPLACE INTO artifact (session, digest, artifact) VALUES (?1, ?2, ?3)")?;
    put.execute(params![id, artifact.digest, json(artifact)?])?;
    Ok(true)
}

pub(super) fn add_token(database: &Connection, token: &Token) -> rusqlite::Result<()> {
    let mut put = database.prepare_cached("INSERT INTO token (id, token) VALUES (?1, ?2)")?;
    put.execute(params![token.id, json(token)?]).map(drop)
}

pub(super) fn revoke_token(database: &Connection, id: &str, at: Timestamp) -> rusqlite::Result<bool> {
    let mut find = database.prepare_cached("SELECT token FROM token WHERE id = ?1")?;
    let Some(mut token) = find.query_row([id], |row| super::read::json::<Token>(row, 0)).optional()? else { return Ok(false) };
    token.revoked.get_or_insert(at);
    database.prepare_cached("UPDATE token SET token = ?2 WHERE id = ?1")?.execute(params![id, json(&token)?])?;
    Ok(true)
}
