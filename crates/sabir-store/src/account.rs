//! Sessions made of files, and every response counted once.
//!
//! A response may be in several files: a fork copies the lines before it, a side question repeats the last one, a
//! spawned thread is written with the history of its parent. Copies have the same [key](Response::key); of them the one
//! with the largest output says how it ended, and the earliest says when it was and whose it is.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;

use sabir_core::agent::Agent;
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Response, Spent, id_of};

use crate::history::Role;
use crate::index::Log;

/// One session of an agent, in short.
#[derive(Debug, Clone)]
pub struct Session {
    /// Whose.
    pub agent: &'static Agent,
    /// The agent's id of it.
    pub id: String,
    /// The working folder.
    pub cwd: Option<String>,
    /// The first prompt.
    pub title: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// The first moment, in milliseconds since 1970.
    pub first: Option<i64>,
    /// The last one.
    pub last: Option<i64>,
    /// How it stands.
    pub outcome: Outcome,
    /// The models that answered, those of the session itself first.
    pub models: Vec<String>,
    /// All tokens in its files, copies from other sessions included.
    pub spent: Spent,
    /// Number of tool calls.
    pub calls: u64,
    /// Its files, as places in the list of logs: its own first.
    pub logs: Vec<usize>,
}

/// A response that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted<'l> {
    /// The session it belongs to, as a place in the list of sessions.
    pub session: usize,
    /// The model.
    pub model: &'l str,
    /// The response.
    pub response: Told<'l>,
}

/// A response as a log tells it. There are many, and nearly all are told once.
#[derive(Debug, Clone, PartialEq)]
pub enum Told<'l> {
    /// By one log.
    Once(&'l Response),
    /// What several copies of it tell together, or what no log tells as a response.
    Together(Box<Response>),
}

impl Deref for Told<'_> {
    type Target = Response;

    fn deref(&self) -> &Response {
        match self {
            Self::Once(response) => response,
            Self::Together(response) => response,
        }
    }
}

/// Makes sessions of files. Logs of sub-agents belong to the session that they name, or that the sub-agent which started
/// them belongs to; those whose session is gone are sessions of their own. A log that is there twice is one session.
pub fn sessions(logs: &[Log]) -> Vec<Session> {
    sessions_from(logs, 0)
}

/// Makes sessions of the files from one place of the list on, which have nothing to do with those before it.
pub fn sessions_from(logs: &[Log], from: usize) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut by_id: HashMap<(&str, &str), usize, foldhash::fast::RandomState> = HashMap::default();
    for (place, log) in logs.iter().enumerate().skip(from) {
        let id = match &log.file.role {
            Role::Session(id) if log.ledger.parent.is_none() => id.as_str(),
            Role::Run(folder) => folder.id(),
            _ => continue,
        };
        match by_id.entry((log.file.agent.id.0, id)) {
            Entry::Vacant(new) => {
                new.insert(sessions.len());
            }
            // Logs that were copied from elsewhere: what tells nothing that another one does not tell is that one.
            Entry::Occupied(known) => {
                let session = &mut sessions[*known.get()];
                let other = &logs[session.logs[0]].ledger;
                if has_all_of(other, &log.ledger) {
                    continue;
                } else if has_all_of(&log.ledger, other) {
                    *session = Session::of(log, id, place);
                    continue;
                }
            }
        }
        sessions.push(Session::of(log, id, place));
    }
    for (place, log) in logs.iter().enumerate().skip(from) {
        let agent = log.file.agent.id.0;
        let id = match (&log.file.role, log.ledger.parent.as_deref()) {
            (Role::Session(id), Some(parent)) => {
                // What it starts itself belongs where it does.
                if let Some(known) = by_id.get(&(agent, parent)).copied() {
                    by_id.entry((agent, id.as_str())).or_insert(known);
                }
                id.as_str()
            }
            (Role::Session(_) | Role::Run(_) | Role::Database, _) => continue,
            (Role::Of(id), _) => id.as_str(),
            (Role::Stray, _) => log.ledger.session.as_deref().unwrap_or_default(),
        };
        match by_id.entry((agent, id)) {
            Entry::Occupied(known) => sessions[*known.get()].join(log, place),
            Entry::Vacant(new) => {
                new.insert(sessions.len());
                sessions.push(Session::of(log, id, place));
            }
        }
    }
    for session in &mut sessions {
        unlogged(0, session, logs).iter().for_each(|more| session.spent.add(&more.response.spent));
    }
    sessions
}

impl Session {
    fn of(log: &Log, id: &str, place: usize) -> Self {
        let ledger = &log.ledger;
        let mut session = Self {
            agent: log.file.agent,
            id: id.to_owned(),
            cwd: ledger.cwd.clone(),
            title: ledger.title.clone(),
            version: ledger.version.clone(),
            first: None,
            last: None,
            outcome: ledger.outcome.unwrap_or(Outcome::Incomplete),
            models: Vec::new(),
            spent: Spent::default(),
            calls: 0,
            logs: Vec::new(),
        };
        session.join(log, place);
        session
    }

    fn join(&mut self, log: &Log, place: usize) {
        let ledger = &log.ledger;
        self.first = [self.first, ledger.first].into_iter().flatten().min();
        self.last = self.last.max(ledger.last);
        self.calls += u64::from(ledger.calls);
        for response in &ledger.responses {
            self.spent.add(&response.spent);
            // A sub-agent's log may begin with a copy of its session's.
            if ledger.parent.is_none() || !response.copied {
                self.calls += u64::from(response.calls);
            }
        }
        for model in &ledger.models {
            if !self.models.contains(model) {
                self.models.push(model.clone());
            }
        }
        self.logs.push(place);
    }
}

/// Whether one account of a session tells all that another one does.
fn has_all_of(one: &Ledger, other: &Ledger) -> bool {
    if one.last < other.last || one.calls < other.calls || one.responses.len() < other.responses.len() {
        return false;
    }
    let known: HashSet<u64> = one.responses.iter().map(Response::key).collect();
    other.responses.iter().all(|response| known.contains(&response.key()))
}

/// Every response once: first those that one log tells, then those that several logs tell, each by session.
pub fn responses<'l>(logs: &'l [Log], sessions: &'l [Session]) -> impl Iterator<Item = Counted<'l>> {
    let told = move || sessions.iter().enumerate().flat_map(move |(place, session)| told_in(place, session, logs));
    let beyond: Vec<Counted<'l>> =
        sessions.iter().enumerate().flat_map(|(place, session)| unlogged(place, session, logs)).collect();
    // Nested iterators go through all that they hold much faster than from one item to the next, as collecting them does.
    let mut keys = Vec::with_capacity(logs.iter().map(|log| log.ledger.responses.len()).sum::<usize>() + beyond.len());
    told().chain(beyond.iter().cloned()).for_each(|counted| keys.push(counted.response.key()));
    // Nearly all are told once, and need not be kept until the last log was looked at.
    let met = Met::of(&keys);
    let mut several: HashMap<u64, Counted<'l>, BuildHasherDefault<KeyHasher>> = HashMap::default();
    let mut places = keys.iter().copied();
    told().chain(beyond.iter().cloned()).for_each(|new| {
        let Some(key) = places.next().filter(|key| met.again(*key)) else { return };
        // Two agents never share a key by more than chance: their ids are of other shapes.
        match several.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(new)),
            Entry::Occupied(mut entry) => entry.get_mut().merge(&new),
        }
    });
    let mut several: Vec<Counted<'l>> = several.into_values().collect();
    several.sort_unstable_by_key(|counted| counted.session);
    let mut places = keys.into_iter();
    told().chain(beyond).filter(move |_| places.next().is_some_and(|key| !met.again(key))).chain(several)
}

/// The responses that the logs of a session tell, copies included.
fn told_in<'l>(place: usize, session: &'l Session, logs: &'l [Log]) -> impl Iterator<Item = Counted<'l>> {
    session.logs.iter().flat_map(move |log| {
        let ledger = &*logs[*log].ledger;
        ledger.responses.iter().map(move |response| {
            let model = ledger.models.get(usize::from(response.model)).map_or("", String::as_str);
            Counted { session: place, model, response: Told::Once(response) }
        })
    })
}

/// Which keys were met more than once, or may have been: a few others are among them by chance.
struct Met {
    once: Vec<u64>,
    again: Vec<u64>,
}

impl Met {
    /// So many places there are for each key. One in so many, about, meets another key there.
    const ROOM: usize = 16;

    fn of(keys: &[u64]) -> Self {
        let words = (keys.len() * Self::ROOM).next_power_of_two().div_ceil(64);
        let mut met = Self { once: vec![0; words], again: vec![0; words] };
        for key in keys {
            let (word, bit) = met.place(*key);
            met.again[word] |= met.once[word] & bit;
            met.once[word] |= bit;
        }
        met
    }

    fn again(&self, key: u64) -> bool {
        let (word, bit) = self.place(key);
        self.again[word] & bit != 0
    }

    #[allow(clippy::cast_possible_truncation, reason = "the number of words is a power of two")]
    fn place(&self, key: u64) -> (usize, u64) {
        ((key >> 6) as usize & (self.once.len() - 1), 1 << (key % 64))
    }
}

/// Keys are well mixed already.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

impl Counted<'_> {
    /// Takes what a copy knows better.
    fn merge(&mut self, copy: &Self) {
        let mut response = *self.response;
        response.calls = response.calls.max(copy.response.calls);
        if copy.response.spent.output > response.spent.output {
            (response.spent, response.cost) = (copy.response.spent, copy.response.cost);
        }
        // Who says that it is a copy is not the first, whatever the time on it. Of copies that tell the same time, the one
        // in the first file is taken for the first.
        let age = |response: &Response| (response.copied, if response.at == 0 { i64::MAX } else { response.at });
        let earlier = age(&copy.response) < age(&response);
        if earlier {
            (response.at, response.copied) = (copy.response.at, copy.response.copied);
        }
        if response != *self.response {
            self.response = Told::Together(Box::new(response));
        }
        if earlier {
            (self.session, self.model) = (copy.session, copy.model);
        }
    }
}

/// What the agent says that the session spent beyond the responses in its files.
fn unlogged<'l>(place: usize, session: &Session, logs: &'l [Log]) -> Vec<Counted<'l>> {
    let files = || session.logs.iter().map(|log| &logs[*log]);
    let mut list = Vec::new();
    for log in files() {
        for (model, claimed) in &log.ledger.claimed {
            let Some(name) = log.ledger.models.get(usize::from(*model)) else { continue };
            let mut known = Spent::default();
            for file in files() {
                let Some(number) = file.ledger.models.iter().position(|model| model == name) else { continue };
                let of_model = file.ledger.responses.iter().filter(|response| usize::from(response.model) == number);
                of_model.for_each(|response| known.add(&response.spent));
            }
            let spent = claimed.beyond(&known);
            if spent.total() > 0 {
                let response = Response {
                    copied: false,
                    id: id_of(name),
                    at: log.ledger.last.unwrap_or(0),
                    model: *model,
                    calls: 0,
                    spent,
                    cost: None,
                };
                list.push(Counted { session: place, model: name, response: Told::Together(Box::new(response)) });
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::Met;
    use sabir_core::history::id_with;

    #[test]
    fn every_key_that_comes_again_is_noticed_and_few_others_are() {
        for count in [0, 1, 10, 10_000_u64] {
            let keys = (0..count).map(|number| id_with(number, [7]));
            let twice: Vec<u64> = keys.clone().step_by(10).collect();
            let met = Met::of(&keys.clone().chain(twice.iter().copied()).collect::<Vec<_>>());
            assert!(twice.iter().all(|key| met.again(*key)));
            let others = keys.filter(|key| !twice.contains(key) && met.again(*key)).count();
            assert!(others <= usize::try_from(count / 8).expect("small") + 2, "{others} of {count}");
        }
    }
}
