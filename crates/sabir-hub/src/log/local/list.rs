//! Sessions of this machine, as the list of a hub shows them.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

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

use crate::log::Session;

/// A log that was written to within so many milliseconds may go on: ten minutes.
const RECENT: i64 = 10 * 60 * 1_000;

/// All sessions, the newest first.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) past: Past,
    pub(super) all: Vec<Listed>,
    /// Where each session is; those too that stand in no list, because they are a part of another.
    places: HashMap<SessionId, Place>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the list.
    Listed(usize),
    Part(usize),
}

/// A session of the list.
#[derive(Debug)]
pub(super) struct Listed {
    /// What it is sorted by: a later session has a higher number.
    pub(super) number: u64,
    /// Whether more of it may come.
    pub(super) live: bool,
    pub(super) session: Session,
    /// Where it is in the past.
    place: usize,
}

impl List {
    pub(super) fn new(past: Past) -> Self {
        let sums = by_session(&past.logs, &past.sessions, Table::embedded());
        let one = |(place, (logged, sum)): (usize, (&Logged, &Sum))| {
            // An id that no address can have is of no session that could be asked for.
            let id: SessionId = logged.id.parse().ok()?;
            let live = is_live(&past, logged);
            let session = short(&past, logged, id, sum, live);
            let number = number(&session);
            Some(Listed { number, live, session, place })
        };
        let mut all: Vec<Listed> = past.sessions.iter().zip(&sums).enumerate().filter_map(one).collect();
        all.sort_by_key(|listed| std::cmp::Reverse(listed.number));
        let mut places = HashMap::new();
        for (place, part) in past.parts.iter().enumerate() {
            if let Ok(id) = part.id.parse() {
                places.insert(id, Place::Part(place));
            }
        }
        // Of two agents that gave the same id, the newer session is the one that is meant.
        for (place, listed) in all.iter().enumerate().rev() {
            places.insert(listed.session.session.clone(), Place::Listed(place));
        }
        Self { past, all, places }
    }

    /// A session as its log has it.
    pub(super) fn logged(&self, id: &SessionId) -> Option<&Logged> {
        match *self.places.get(id)? {
            Place::Listed(place) => self.past.sessions.get(self.all.get(place)?.place),
            Place::Part(place) => self.past.parts.get(place),
        }
    }

    /// A session in short.
    pub(super) fn session(&self, id: &SessionId) -> Option<Session> {
        match *self.places.get(id)? {
            Place::Listed(place) => self.all.get(place).map(|listed| listed.session.clone()),
            Place::Part(place) => {
                let logged = self.past.parts.get(place)?;
                // What a part cost is in the cost of the whole.
                let sum = Sum { spent: logged.spent(&self.past.logs), ..Sum::default() };
                Some(short(&self.past, logged, id.clone(), &sum, is_live(&self.past, logged)))
            }
        }
    }

    /// Where a listed session is in the past.
    pub(super) fn logged_of(&self, listed: &Listed) -> Option<&Logged> {
        self.past.sessions.get(listed.place)
    }
}

/// Whether more of a session may come.
pub(super) fn is_live(past: &Past, logged: &Logged) -> bool {
    match run_of(logged, &past.logs) {
        Some(folder) => RunFolder::is_live(folder),
        None => written(past, logged).is_some_and(is_recent),
    }
}

fn is_recent(at: i64) -> bool {
    now().saturating_sub(at) < RECENT
}

/// When the files of a session were last written, in milliseconds since 1970.
fn written(past: &Past, logged: &Logged) -> Option<i64> {
    let times = logged.logs.iter().map(|place| past.logs[*place].file.modified / 1_000_000);
    times.max().filter(|at| *at > 0)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Later sessions have higher numbers, and no two have the same but by chance.
fn number(session: &Session) -> u64 {
    let mixed = session.session.as_str().bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (u64::try_from(session.updated.as_millis()).unwrap_or(0) << 20) | (mixed & 0xF_FFFF)
}

/// What logs say was spent, in the classes of a result; nothing is known where they have no token counts.
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

/// A session in short. What it spent is without what it has from another one.
fn short(past: &Past, logged: &Logged, id: SessionId, sum: &Sum, live: bool) -> Session {
    let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis);
    let text = |text: Option<&str>| text.map(str::to_owned);
    let account = logged.account(&past.logs);
    let known = logged.tells_tokens(&past.logs);
    let is_run = run_of(logged, &past.logs).is_some();
    let phase = match logged.outcome {
        // A file that was only just copied here is new; what it tells is not.
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
        tokens: known.then(|| sum.spent.total()),
        usage: known.then(|| TokensReport::new(&tokens(&sum.spent), TokensSource::Summed)),
        cost_usd: sum.full_cost().0.filter(|_| known || sum.reported > 0),
        cost_source: sum.source(),
        started: time(logged.first),
        last: time(logged.last),
        ..Overview::default()
    };
    // What the log says counts: many sessions share a database, and a file may only have been copied here.
    let updated = time(logged.last.or_else(|| written(past, logged))).unwrap_or(Timestamp::EPOCH);
    let created = time(logged.first).unwrap_or(updated);
    Session { session: id, last: 0, folded: 0, overview, shell: None, takes: Vec::new(), created, updated, damaged: None }
}
