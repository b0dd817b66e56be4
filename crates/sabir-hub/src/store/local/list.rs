//! List of the machine's sessions, made from scans of their logs.

use std::collections::HashMap;

use sabir_core::event::Outcome;
use sabir_core::fold::{Overview, Phase, Status, Tokens, TokensReport, TokensSource};
use sabir_core::history::Spent;
use sabir_core::price::Table;
use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;
use sabir_store::RunFolder;
use sabir_store::account::Session as Logged;
use sabir_store::past::Past;
use sabir_store::usage::{Sum, by_session};
use sabir_store::whole::run_of;

use crate::now;
use crate::store::SessionRecord;

/// A log counts as live for ten minutes after its last write.
const LIVE_MILLIS: i64 = 10 * 60 * 1_000;

/// All sessions, newest first.
#[derive(Debug, Default)]
pub(super) struct SessionList {
    pub(super) past: Past,
    pub(super) all: Vec<ListedSession>,
    /// Sessions by id, including sub-agents, which are not listed.
    by_id: HashMap<SessionId, Position>,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    /// Index in `all`.
    Listed(usize),
    /// Index in `past.parts`.
    Part(usize),
}

/// A session in the list.
#[derive(Debug)]
pub(super) struct ListedSession {
    /// Sort key; newer sessions have higher numbers.
    pub(super) number: u64,
    /// Whether the session may continue.
    pub(super) live: bool,
    pub(super) session: SessionRecord,
    /// Index in `past.sessions`.
    index: usize,
}

impl SessionList {
    pub(super) fn new(past: Past) -> Self {
        let sums = by_session(&past.logs, &past.sessions, Table::embedded());
        let one = |(index, (logged, sum)): (usize, (&Logged, &Sum))| {
            // An id that is not valid in a path cannot be requested.
            let id: SessionId = logged.id.parse().ok()?;
            let live = is_live(&past, logged);
            let session = record(&past, logged, id, sum, live);
            let number = number(&session);
            Some(ListedSession { number, live, session, index })
        };
        let mut all: Vec<ListedSession> = past.sessions.iter().zip(&sums).enumerate().filter_map(one).collect();
        all.sort_by_key(|listed| std::cmp::Reverse(listed.number));
        let mut by_id = HashMap::new();
        for (index, part) in past.parts.iter().enumerate() {
            if let Ok(id) = part.id.parse() {
                by_id.insert(id, Position::Part(index));
            }
        }
        // If two agents used the same id, it means the newer session.
        for (index, listed) in all.iter().enumerate().rev() {
            by_id.insert(listed.session.id.clone(), Position::Listed(index));
        }
        Self { past, all, by_id }
    }

    /// The log of a session.
    pub(super) fn logged(&self, id: &SessionId) -> Option<&Logged> {
        match *self.by_id.get(id)? {
            Position::Listed(index) => self.past.sessions.get(self.all.get(index)?.index),
            Position::Part(index) => self.past.parts.get(index),
        }
    }

    /// A session as scanned.
    pub(super) fn session(&self, id: &SessionId) -> Option<SessionRecord> {
        match *self.by_id.get(id)? {
            Position::Listed(index) => self.all.get(index).map(|listed| listed.session.clone()),
            Position::Part(index) => {
                let logged = self.past.parts.get(index)?;
                // The cost of a sub-agent is included in the cost of its parent.
                let sum = Sum { spent: logged.spent(&self.past.logs), ..Sum::default() };
                Some(record(&self.past, logged, id.clone(), &sum, is_live(&self.past, logged)))
            }
        }
    }

    /// The log of a listed session.
    pub(super) fn logged_of(&self, listed: &ListedSession) -> Option<&Logged> {
        self.past.sessions.get(listed.index)
    }
}

/// Returns whether a session may continue.
pub(super) fn is_live(past: &Past, logged: &Logged) -> bool {
    match run_of(logged, &past.logs) {
        Some(folder) => RunFolder::is_live(folder),
        None => modified(past, logged).is_some_and(is_recent),
    }
}

fn is_recent(at: i64) -> bool {
    now().as_millis().saturating_sub(at) < LIVE_MILLIS
}

/// Time of the last write to the files of a session, in milliseconds since 1970.
fn modified(past: &Past, logged: &Logged) -> Option<i64> {
    let times = logged.logs.iter().map(|place| past.logs[*place].file.modified / 1_000_000);
    times.max().filter(|at| *at > 0)
}

/// Sort key of a session: its time, then a hash of its id, so that two sessions hardly ever share one.
fn number(session: &SessionRecord) -> u64 {
    let hash = session.id.as_str().bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (u64::try_from(session.updated.as_millis()).unwrap_or(0) << 20) | (hash & 0xF_FFFF)
}

/// Token counts of logs in the classes of a session result; all unknown if the logs have none.
pub(super) fn tokens(spent: &Spent) -> Tokens {
    if spent.total() == 0 {
        return Tokens::default();
    }
    Tokens {
        uncached_input: Some(spent.input),
        cache_read: Some(spent.cache_read),
        cache_write: Some(spent.cache_write),
        output: Some(spent.output),
        reasoning: Some(spent.reasoning),
        ..Tokens::default()
    }
}

/// The record of a scanned session. Its usage excludes responses that it copied from another session.
fn record(past: &Past, logged: &Logged, id: SessionId, sum: &Sum, live: bool) -> SessionRecord {
    let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis);
    let text = |text: Option<&str>| text.map(str::to_owned);
    let account = logged.account(&past.logs);
    let has_usage = logged.tells_tokens(&past.logs);
    let is_run = run_of(logged, &past.logs).is_some();
    let phase = match logged.outcome {
        // A recently copied file is new, but its content is not.
        Outcome::Incomplete if live && logged.last.is_none_or(is_recent) => Phase::Running,
        _ if live && is_run => Phase::Running,
        outcome => Status::of(outcome).into(),
    };
    let overview = Overview {
        agent: Some(logged.agent.id.as_str().to_owned()),
        agent_version: text(account.version()),
        agent_session_id: (!is_run).then(|| logged.id.clone()),
        model: text(logged.models(&past.logs).first().copied().filter(|model| !model.is_empty())),
        cwd: text(account.cwd()),
        title: text(account.title()),
        phase,
        runs: 1,
        tool_calls: logged.calls(&past.logs),
        tokens: has_usage.then(|| sum.spent.total()),
        usage: has_usage.then(|| TokensReport::new(&tokens(&sum.spent), TokensSource::Summed)),
        cost_usd: sum.full_cost().0.filter(|_| has_usage || sum.reported > 0),
        cost_source: sum.source(),
        started: time(logged.first),
        last: time(logged.last),
        ..Overview::default()
    };
    // The log's own time goes first: sessions may share a database file, and files may be copies.
    let updated = time(logged.last.or_else(|| modified(past, logged))).unwrap_or(Timestamp::EPOCH);
    let created = time(logged.first).unwrap_or(updated);
    SessionRecord { id, last: 0, folded: 0, overview, runner: None, accepts: Vec::new(), created, updated, damage: None }
}
