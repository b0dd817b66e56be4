//! Sessions made of files, and every response counted once.

mod portion;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use sabir_core::agent::Agent;
use sabir_core::event::Outcome;
use sabir_core::history::Spent;

use crate::history::Role;
use crate::index::Log;
use crate::index::summary::{Account, Key};
use crate::summary::State;
use portion::unlogged;
pub use portion::{Portion, each_portion};

/// One session of an agent, in short.
#[derive(Debug, Clone)]
pub struct Session {
    /// Whose.
    pub agent: Arc<Agent>,
    /// The agent's id of it.
    pub id: String,
    /// The first moment, in milliseconds since 1970.
    pub first: Option<i64>,
    /// The last one.
    pub last: Option<i64>,
    /// How it stands.
    pub outcome: Outcome,
    /// Its files, as places in the list of logs: its own first.
    pub logs: Vec<usize>,
    /// The last run of the journal that was a part of it, as a place in the list of logs.
    pub run: Option<usize>,
}

/// Makes sessions of files. Logs of sub-agents belong to the session that they name, or that the sub-agent which started
/// them belongs to; those whose session is gone are sessions of their own. A log that is there twice is one session.
pub fn sessions(logs: &[Log]) -> Vec<Session> {
    sessions_from(logs, 0)
}

/// Makes sessions of the files from one place of the list on, which have nothing to do with those before it.
pub fn sessions_from(logs: &[Log], from: usize) -> Vec<Session> {
    let most = logs.len() - from.min(logs.len());
    let mut sessions: Vec<Session> = Vec::with_capacity(most);
    let mut by_id: HashMap<(&str, &str), usize, foldhash::fast::RandomState> = HashMap::default();
    by_id.reserve(most);
    for (place, log) in logs.iter().enumerate().skip(from) {
        let id = match &log.file.role {
            Role::Session(named) if log.account.parent().is_none() => whole_id(named, &log.account),
            Role::Run(folder) => folder.id(),
            _ => continue,
        };
        match by_id.entry((log.file.agent.id.as_str(), id)) {
            Entry::Vacant(new) => {
                new.insert(sessions.len());
            }
            // Logs that were copied from elsewhere: what tells nothing that another one does not tell is that one.
            Entry::Occupied(known) => {
                let session = &mut sessions[*known.get()];
                let other = session.account(logs);
                if has_all_of(other, &log.account) {
                    continue;
                } else if has_all_of(&log.account, other) {
                    *session = Session::of(log, id, place);
                    continue;
                }
            }
        }
        sessions.push(Session::of(log, id, place));
    }
    for (place, log) in logs.iter().enumerate().skip(from) {
        let agent = log.file.agent.id.as_str();
        let id = match (&log.file.role, log.account.parent()) {
            (Role::Session(id), Some(parent)) => {
                // What it starts itself belongs where it does.
                if let Some(known) = by_id.get(&(agent, parent)).copied() {
                    by_id.entry((agent, id.as_str())).or_insert(known);
                }
                id.as_str()
            }
            (Role::Session(_) | Role::Run(_) | Role::Database, _) => continue,
            (Role::Of(id), _) => id.as_str(),
            (Role::Stray, _) => log.account.session().unwrap_or_default(),
        };
        match by_id.entry((agent, id)) {
            Entry::Occupied(known) => sessions[*known.get()].join(log, place),
            Entry::Vacant(new) => {
                new.insert(sessions.len());
                sessions.push(Session::of(log, id, place));
            }
        }
    }
    sessions
}

impl Session {
    fn of(log: &Log, id: &str, place: usize) -> Self {
        let mut session = Self {
            agent: Arc::clone(&log.file.agent),
            id: id.to_owned(),
            first: None,
            last: None,
            outcome: log.account.outcome().unwrap_or(Outcome::Incomplete),
            logs: vec![place],
            run: None,
        };
        session.add(log);
        session
    }

    fn join(&mut self, log: &Log, place: usize) {
        self.add(log);
        self.logs.push(place);
    }

    fn add(&mut self, log: &Log) {
        self.first = [self.first, log.account.first()].into_iter().flatten().min();
        self.last = self.last.max(log.account.last());
    }

    /// All tokens in its files, copies from other sessions included.
    pub fn spent(&self, logs: &[Log]) -> Spent {
        let mut spent = Spent::default();
        self.logs.iter().for_each(|log| spent.add(&logs[*log].account.totals().spent));
        unlogged(0, self, logs).iter().for_each(|more| spent.add(&more.response.spent));
        spent
    }

    /// Whether its files tell any tokens. Where they tell none, how many there were is not known.
    pub fn tells_tokens(&self, logs: &[Log]) -> bool {
        let has_tokens = |log: &usize| logs[*log].account.stretches().any(|(stretch, _)| stretch.spent.total() > 0);
        self.logs.iter().any(has_tokens) || !unlogged(0, self, logs).is_empty()
    }

    /// Number of tool calls.
    pub fn calls(&self, logs: &[Log]) -> u64 {
        let of_log = |log: &usize| {
            let (account, totals) = (&logs[*log].account, logs[*log].account.totals());
            // A sub-agent's log may begin with a copy of its session's.
            let calls = if account.parent().is_none() { totals.calls_of_all } else { totals.calls_of_own };
            calls + u64::from(account.calls())
        };
        self.logs.iter().map(of_log).sum()
    }

    /// Takes note of a run that was a part of it. How the process ended, only the run knows; what was logged after it, by
    /// another process, goes beyond that.
    pub(crate) fn end_by(&mut self, run: &Self, state: State, ended: Option<i64>, logs: &[Log]) {
        let began = |place: Option<usize>| place.and_then(|place| logs[place].account.first());
        let place = run.logs.first().copied();
        if self.run.is_some() && began(self.run) > began(place) {
            return;
        }
        self.run = place;
        if state != State::Running && ended >= self.last {
            self.outcome = run.outcome;
        }
    }

    /// What its own log says.
    pub fn account<'l>(&self, logs: &'l [Log]) -> &'l Account {
        &logs[self.logs[0]].account
    }

    /// The file to name when the session can't be read: the first that can't be opened, else its own.
    pub fn path_to_name(&self, logs: &[Log]) -> PathBuf {
        let path = |place: &usize| logs[*place].file.path.as_path();
        let closed = self.logs.iter().map(path).find(|path| File::open(path).is_err());
        closed.unwrap_or_else(|| path(&self.logs[0])).to_path_buf()
    }

    /// The models that answered, those of the session itself first.
    pub fn models<'l>(&self, logs: &'l [Log]) -> Vec<&'l str> {
        let mut models = Vec::new();
        for model in self.logs.iter().flat_map(|log| logs[*log].account.models()) {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        models
    }
}

/// The id of a session, of which the name of its file may have only the beginning.
fn whole_id<'l>(named: &'l str, account: &'l Account) -> &'l str {
    account.session().filter(|told| told.starts_with(named)).unwrap_or(named)
}

/// Whether one account of a session tells all that another one does.
fn has_all_of(one: &Account, other: &Account) -> bool {
    if one.last() < other.last() || one.calls() < other.calls() || one.keys().len() < other.keys().len() {
        return false;
    }
    let known: HashSet<&Key> = one.keys().iter().collect();
    other.keys().iter().all(|key| known.contains(key))
}
