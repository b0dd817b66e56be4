//! Every response counted once.
//!
//! A response may be in several files: a fork copies the lines before it, a side question repeats the last one, a
//! spawned thread is written with the history of its parent. Copies have the same [key](Response::key); of them the one
//! with the largest output says how it ended, and the earliest says when it was and whose it is.
//!
//! Nearly all are in one file. Stretches of such ones are handed out as they are, and nobody looks at the single response.

use std::collections::HashMap;
use std::ops::Range;

use sabir_core::history::{Response, Spent, id_of, id_with};

use super::Session;
use crate::digest::DigestState;
use crate::index::Log;
use crate::index::summary::{Account, Key, Records, Stretch};

/// A part of what counts: responses of one session that are alike.
#[derive(Debug, Clone)]
pub struct Portion<'l> {
    /// The session, as a place in the list of sessions.
    pub session: usize,
    /// The model.
    pub model: &'l str,
    /// What they are together.
    pub stretch: Stretch,
    apart: Apart<'l>,
}

/// The responses of a portion, if somebody wants to look at them.
#[derive(Debug, Clone)]
enum Apart<'l> {
    One(Response),
    Many(Records<'l>),
}

impl<'l> Portion<'l> {
    fn of(Counted { session, model, response }: Counted<'l>) -> Self {
        Self { session, model, stretch: Stretch::of(&response), apart: Apart::One(response) }
    }

    /// The responses one by one.
    pub fn responses(&self) -> impl Iterator<Item = Response> {
        let (one, many) = match &self.apart {
            Apart::One(response) => (Some(*response), None),
            Apart::Many(records) => (None, Some(records.clone())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// A response of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counted<'l> {
    session: usize,
    model: &'l str,
    pub(super) response: Response,
}

/// Hands out every response once, with others of its kind: those that one log tells, then those that several logs tell, each
/// by session.
pub fn each_portion<'l>(logs: &'l [Log], sessions: &[Session], take: &mut dyn FnMut(Portion<'l>)) {
    let files = || {
        let files = sessions.iter().enumerate().flat_map(|(place, session)| session.logs.iter().map(move |log| (place, *log)));
        files.map(|(session, log)| (session, &logs[log].account))
    };
    let beyond: Vec<Counted<'l>> =
        sessions.iter().enumerate().flat_map(|(place, session)| unlogged(place, session, logs)).collect();
    let of_beyond: Vec<Key> = beyond.iter().map(|counted| counted.response.key().to_le_bytes()).collect();
    let mut repeated = Repeated::of(|| files().map(|(_, account)| account.keys()).chain([&*of_beyond]));
    let mut list = 0;
    for (session, account) in files() {
        let mut place = 0;
        for portion in portions(session, account) {
            let start = place;
            place += portion.stretch.responses as usize;
            if !repeated.is_any_in(list, start..place) {
                take(portion);
                continue;
            }
            for (place, response) in (start..).zip(portion.responses()) {
                let new = Counted { session, model: portion.model, response };
                if !repeated.count(list, place, new) {
                    take(Portion::of(new));
                }
            }
        }
        list += 1;
    }
    for (place, new) in beyond.into_iter().enumerate() {
        if !repeated.count(list, place, new) {
            take(Portion::of(new));
        }
    }
    repeated.by_session().map(Portion::of).for_each(take);
}

/// The stretches of a log as portions.
fn portions(session: usize, account: &Account) -> impl Iterator<Item = Portion<'_>> {
    account.stretches().map(move |(stretch, records)| {
        let model = account.model(stretch.model).unwrap_or_default();
        Portion { session, model, stretch, apart: Apart::Many(records) }
    })
}

impl Counted<'_> {
    /// Takes what a copy knows better.
    fn merge(&mut self, copy: &Self) {
        let response = &mut self.response;
        response.calls = response.calls.max(copy.response.calls);
        if copy.response.spent.output > response.spent.output {
            (response.spent, response.cost) = (copy.response.spent, copy.response.cost);
        }
        // Who says that it is a copy is not the first, whatever the time on it. Of copies that tell the same time, the one
        // in the first file is taken for the first.
        let age = |response: &Response| (response.copied, if response.at == 0 { i64::MAX } else { response.at });
        if age(&copy.response) < age(response) {
            (response.at, response.copied) = (copy.response.at, copy.response.copied);
            (self.session, self.model) = (copy.session, copy.model);
        }
    }
}

/// What the agent says that the session spent beyond the responses in its files.
pub(super) fn unlogged<'l>(place: usize, session: &Session, logs: &'l [Log]) -> Vec<Counted<'l>> {
    let files = || session.logs.iter().map(|log| &logs[*log].account);
    let mut list = Vec::new();
    for account in files() {
        for (model, claimed) in account.claimed() {
            let Some(name) = account.model(model) else { continue };
            let mut known = Spent::default();
            for file in files() {
                let Some(number) = file.models().position(|model| model == name) else { continue };
                let of_model = file.stretches().filter(|(stretch, _)| usize::from(stretch.model) == number);
                of_model.for_each(|(stretch, _)| known.add(&stretch.spent));
            }
            let spent = claimed.beyond(&known);
            if spent.total() > 0 {
                let response = Response {
                    copied: false,
                    // A fork begins with the lines of the other session, so its first one is the same.
                    id: id_with(id_of(name), [account.first().unwrap_or(0).cast_unsigned()]),
                    at: account.last().unwrap_or(0),
                    model,
                    calls: 0,
                    spent,
                    cost: None,
                };
                list.push(Counted { session: place, model: name, response });
            }
        }
    }
    list
}

/// The responses whose keys come more than once.
struct Repeated<'l> {
    /// Where they are, in the order of the lists.
    met: std::iter::Peekable<std::vec::IntoIter<Met>>,
    /// What is known of each, by its number.
    several: Vec<Option<Counted<'l>>>,
}

/// A place in the lists where there is a response that is in another one too.
struct Met {
    list: usize,
    place: usize,
    /// The same for all that tell the same response.
    number: usize,
}

impl<'l> Repeated<'l> {
    /// Looks through lists that have all keys.
    fn of<'k, I: Iterator<Item = &'k [Key]>>(lists: impl Fn() -> I) -> Self {
        // A few that come once are among these by chance.
        let suspects = Marks::met_again(&lists);
        let marks = Marks::of(&suspects);
        let mut found: Vec<(usize, usize, u64)> = Vec::with_capacity(2 * suspects.len());
        for (list, keys) in lists().enumerate() {
            let suspected = keys.iter().enumerate().filter(|(_, key)| marks.may_have(**key));
            found.extend(suspected.map(|(place, key)| (list, place, u64::from_le_bytes(*key))));
        }
        let mut counts: HashMap<u64, usize, DigestState> = HashMap::default();
        counts.reserve(suspects.len());
        found.iter().for_each(|(.., key)| *counts.entry(*key).or_default() += 1);
        found.retain(|(.., key)| counts[key] > 1);
        let mut numbers: HashMap<u64, usize, DigestState> = HashMap::default();
        numbers.reserve(found.len() / 2);
        let met = |(list, place, key)| {
            let next = numbers.len();
            Met { list, place, number: *numbers.entry(key).or_insert(next) }
        };
        let met: Vec<Met> = found.into_iter().map(met).collect();
        Self { met: met.into_iter().peekable(), several: vec![None; numbers.len()] }
    }

    /// Whether there are any at these places of a list. It is asked in the order of the lists, as [`Self::count`] is.
    fn is_any_in(&mut self, list: usize, places: Range<usize>) -> bool {
        while self.met.next_if(|met| (met.list, met.place) < (list, places.start)).is_some() {}
        self.met.peek().is_some_and(|met| met.list == list && met.place < places.end)
    }

    /// Counts the response at a place if another log tells it too; whether it does.
    fn count(&mut self, list: usize, place: usize, new: Counted<'l>) -> bool {
        let Some(met) = self.met.next_if(|met| (met.list, met.place) == (list, place)) else { return false };
        match &mut self.several[met.number] {
            // Two agents never share a key by more than chance: their ids are of other shapes.
            Some(known) => known.merge(&new),
            none => *none = Some(new),
        }
        true
    }

    /// All of them, by session. They are large, so it is their places that are sorted.
    fn by_session(self) -> impl Iterator<Item = Counted<'l>> {
        let several = self.several;
        let mut order: Vec<usize> = (0..several.len()).collect();
        order.sort_by_key(|place| several[*place].map(|counted| counted.session));
        order.into_iter().filter_map(move |place| several[place])
    }
}

/// Marks of keys, two for each in one word, so that it is looked at once. A key that is not there may have its marks from
/// others.
struct Marks(Vec<u64>);

impl Marks {
    /// Marks of these keys. There are few of them, so there is much room for each.
    fn of(keys: &[Key]) -> Self {
        let mut marks = Self::with_room(32 * keys.len());
        for key in keys {
            marks.add(*key);
        }
        marks
    }

    /// The keys that come again in the lists, and about one of a hundred that do not. All keys need marks for that, so their
    /// room is what the memory must have, and is tight.
    fn met_again<'k, I: Iterator<Item = &'k [Key]>>(lists: impl Fn() -> I) -> Vec<Key> {
        let mut marks = Self::with_room(8 * lists().map(<[Key]>::len).sum::<usize>());
        let mut again = Vec::new();
        for list in lists() {
            again.extend(list.iter().copied().filter(|key| marks.add(*key)));
        }
        again
    }

    fn with_room(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64).next_power_of_two()])
    }

    /// Marks a key; whether it was marked before.
    #[inline]
    fn add(&mut self, key: Key) -> bool {
        let (word, bits) = self.place(key);
        let word = &mut self.0[word];
        let before = *word;
        *word |= bits;
        before & bits == bits
    }

    #[inline]
    fn may_have(&self, key: Key) -> bool {
        let (word, bits) = self.place(key);
        self.0[word] & bits == bits
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the number of words is a power of two")]
    fn place(&self, key: Key) -> (usize, u64) {
        let key = u64::from_le_bytes(key);
        ((key >> 12) as usize & (self.0.len() - 1), 1 << (key % 64) | 1 << ((key >> 6) % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::{Counted, Key, Marks, Repeated};
    use sabir_core::history::{Response, Spent, id_with};

    fn counted(key: Key) -> Counted<'static> {
        let id = u64::from_le_bytes(key);
        let response = Response { copied: false, id, at: 0, model: 0, calls: 0, spent: Spent::default(), cost: None };
        Counted { session: 0, model: "", response }
    }

    #[test]
    fn every_key_that_comes_again_is_noticed_and_few_others_are_looked_at() {
        for count in [0, 1, 10, 10_000, 16_384_u64] {
            let keys = (0..count).map(|number| id_with(number, [7]).to_le_bytes());
            let twice: Vec<Key> = keys.clone().step_by(10).collect();
            let all: Vec<Key> = keys.clone().chain(twice.iter().copied()).collect();
            let lists = || all.chunks(7);
            let mut repeated = Repeated::of(lists);
            for (list, keys) in lists().enumerate() {
                let is_repeated = |key: &Key| twice.contains(key);
                assert_eq!(repeated.is_any_in(list, 0..keys.len()), keys.iter().any(is_repeated));
                for (place, key) in keys.iter().enumerate() {
                    assert_eq!(repeated.count(list, place, counted(*key)), is_repeated(key));
                }
            }
            assert!(!repeated.is_any_in(usize::MAX, 0..1));
            let told = repeated.by_session().map(|counted| counted.response.id.to_le_bytes());
            assert!(told.eq(twice.iter().copied()), "each once, in the order that they were met in");
            let again = Marks::met_again(lists);
            assert!(twice.iter().all(|key| again.contains(key)));
            let marks = Marks::of(&again);
            let others = keys.filter(|key| !twice.contains(key) && marks.may_have(*key)).count();
            assert!(others <= usize::try_from(count / 25).expect("small") + 2, "{others} of {count}");
        }
    }
}
