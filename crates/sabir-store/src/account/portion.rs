//! Every response counted once.
//!
//! A response may be in several files: a fork copies the lines before it, a side question repeats the last one, a
//! spawned thread is written with the history of its parent. Copies have the same [key](Response::key); of them the one
//! with the largest output says how it ended, and the earliest says when it was and whose it is.
//!
//! Nearly all are in one file. Stretches of such ones are handed out as they are, and nobody looks at the single response.

use std::collections::HashMap;

use sabir_core::history::{Account, Key, Records, Response, Spent, Stretch, id_of};

use super::Session;
use crate::digest::DigestState;
use crate::index::Log;

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
    for (list, (session, account)) in files().enumerate() {
        for (portion, keys) in portions(session, account) {
            if !repeated.doubtful[list] || !repeated.has_any_of(keys) {
                take(portion);
                continue;
            }
            for (key, response) in keys.iter().zip(portion.responses()) {
                let new = Counted { session, model: portion.model, response };
                if !repeated.count(*key, new) {
                    take(Portion::of(new));
                }
            }
        }
    }
    for (key, new) in of_beyond.iter().zip(beyond) {
        if !repeated.count(*key, new) {
            take(Portion::of(new));
        }
    }
    let mut several = repeated.several;
    several.sort_by_key(|counted| counted.session);
    several.into_iter().map(Portion::of).for_each(take);
}

/// The stretches of a log as portions, and the keys of each.
fn portions(session: usize, account: &Account) -> impl Iterator<Item = (Portion<'_>, &[Key])> {
    let mut rest = account.keys();
    account.stretches().map(move |(stretch, records)| {
        let (keys, others) = rest.split_at(stretch.responses as usize);
        rest = others;
        let model = account.model(stretch.model).unwrap_or_default();
        (Portion { session, model, stretch, apart: Apart::Many(records) }, keys)
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
                    id: id_of(name),
                    at: account.last.unwrap_or(0),
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
    /// By key, the place in the list, which is beyond its end as long as the response was not counted.
    places: HashMap<u64, usize, DigestState>,
    /// The keys of the map: most others are not among them, and need not be looked up.
    marks: Marks,
    /// Of each list, whether it may have such keys.
    doubtful: Vec<bool>,
    several: Vec<Counted<'l>>,
}

impl<'l> Repeated<'l> {
    /// Looks through lists that have all keys.
    fn of<'k, I: Iterator<Item = &'k [Key]>>(lists: impl Fn() -> I) -> Self {
        // A few that come once are among these by chance.
        let suspects = Marks::met_again(&lists);
        let marks = Marks::of(&suspects);
        let mut counts: HashMap<u64, usize, DigestState> = HashMap::default();
        counts.reserve(suspects.len());
        let mut doubtful = Vec::new();
        for list in lists() {
            let mut any = false;
            for key in list.iter().filter(|key| marks.may_have(**key)) {
                *counts.entry(u64::from_le_bytes(*key)).or_default() += 1;
                any = true;
            }
            doubtful.push(any);
        }
        counts.retain(|_, count| *count > 1);
        counts.values_mut().for_each(|place| *place = usize::MAX);
        let keys: Vec<Key> = counts.keys().map(|key| key.to_le_bytes()).collect();
        Self { several: Vec::with_capacity(counts.len()), marks: Marks::of(&keys), places: counts, doubtful }
    }

    fn has_any_of(&self, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.marks.may_have(*key) && self.places.contains_key(&u64::from_le_bytes(*key)))
    }

    /// Counts what another log tells too; whether it does.
    fn count(&mut self, key: Key, new: Counted<'l>) -> bool {
        let Some(place) = self.places.get_mut(&u64::from_le_bytes(key)) else { return false };
        match self.several.get_mut(*place) {
            // Two agents never share a key by more than chance: their ids are of other shapes.
            Some(known) => known.merge(&new),
            None => {
                *place = self.several.len();
                self.several.push(new);
            }
        }
        true
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
    use super::{Key, Marks, Repeated};
    use sabir_core::history::id_with;

    #[test]
    fn every_key_that_comes_again_is_noticed_and_few_others_are_looked_at() {
        for count in [0, 1, 10, 10_000, 16_384_u64] {
            let keys = (0..count).map(|number| id_with(number, [7]).to_le_bytes());
            let twice: Vec<Key> = keys.clone().step_by(10).collect();
            let all: Vec<Key> = keys.clone().chain(twice.iter().copied()).collect();
            let lists = || all.chunks(7);
            let repeated = Repeated::of(lists);
            assert!(all.iter().all(|key| repeated.has_any_of(&[*key]) == twice.contains(key)));
            assert!(lists().zip(&repeated.doubtful).all(|(list, doubtful)| *doubtful || !repeated.has_any_of(list)));
            assert_eq!((repeated.places.len(), repeated.has_any_of(&all)), (twice.len(), count > 0));
            let again = Marks::met_again(lists);
            assert!(twice.iter().all(|key| again.contains(key)));
            let marks = Marks::of(&again);
            let others = keys.filter(|key| !twice.contains(key) && marks.may_have(*key)).count();
            assert!(others <= usize::try_from(count / 25).expect("small") + 2, "{others} of {count}");
        }
    }
}
