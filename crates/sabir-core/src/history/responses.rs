//! The responses that a log tells, as a list that is kept in bytes.
//!
//! Lists and sums look at all logs each time, and nearly all of these have not changed. So what is kept of one stays the
//! bytes that it is, with the sums of its [stretches](Stretch) beside it; a response is read out of the bytes when it is
//! looked at, and only a log that has grown has its list opened.

use std::borrow::Cow;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::records::{self, Records};
use super::{Response, Stretch, packed};

/// A list of responses.
#[derive(Debug, Clone, Default)]
pub struct Responses {
    /// Empty while the list is closed.
    open: Vec<Response>,
    closed: Option<Closed>,
}

/// The responses of a stretch, if somebody wants to look at them.
#[derive(Debug, Clone)]
pub enum Apart<'l> {
    /// It is one.
    One(Response),
    /// They are in the list of a log.
    Many(Records<'l>),
}

impl Apart<'_> {
    /// The responses.
    pub fn responses(&self) -> impl Iterator<Item = Response> {
        let (one, many) = match self {
            Self::One(response) => (Some(*response), None),
            Self::Many(records) => (None, Some(records.clone())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Closed {
    /// Each with the number of bytes that its records take.
    stretches: Vec<(Stretch, usize)>,
    /// The key of each response. All logs are compared by them, while few records are ever looked at.
    #[serde(with = "packed::numbers")]
    keys: Vec<u64>,
    #[serde(with = "packed::bytes")]
    records: Box<[u8]>,
}

impl Responses {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.closed.as_ref().map_or(self.open.len(), |closed| closed.keys.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Response> {
        self.open.iter().copied().chain(self.closed.iter().flat_map(|closed| closed.stretches().flat_map(|(_, records)| records)))
    }

    /// The one at that place.
    pub fn get(&self, place: usize) -> Option<Response> {
        self.iter().nth(place)
    }

    /// The last one.
    pub fn last(&self) -> Option<Response> {
        self.open.last().copied().or_else(|| self.closed.as_ref()?.stretches().last()?.1.last())
    }

    /// All of them in stretches. In an open list each response is one.
    pub fn stretches(&self) -> impl Iterator<Item = (Stretch, Apart<'_>)> {
        let open = self.open.iter().map(|response| (Stretch::of(response), Apart::One(*response)));
        let closed = self.closed.iter().flat_map(Closed::stretches);
        open.chain(closed.map(|(stretch, records)| (stretch, Apart::Many(records))))
    }

    /// The [key](Response::key) of each.
    pub fn keys(&self) -> Cow<'_, [u64]> {
        match &self.closed {
            Some(closed) => Cow::Borrowed(&closed.keys),
            None => Cow::Owned(self.iter().map(|response| response.key()).collect()),
        }
    }

    /// The list to change.
    pub fn open(&mut self) -> &mut Vec<Response> {
        if self.closed.is_some() {
            self.open = self.iter().collect();
            self.closed = None;
        }
        &mut self.open
    }

    /// Adds up what is alike and keeps the rest in bytes.
    pub fn close(&mut self) {
        if self.closed.is_none() {
            self.closed = Some(Closed::of(&std::mem::take(&mut self.open)));
        }
    }
}

impl Closed {
    fn of(list: &[Response]) -> Self {
        let (mut stretches, mut bytes): (Vec<(Stretch, usize)>, Vec<u8>) = (Vec::new(), Vec::new());
        let mut rest = list;
        while let Some((first, others)) = rest.split_first() {
            let mut stretch = Stretch::of(first);
            let count = 1 + others.iter().take_while(|response| stretch.takes(response)).count();
            let (of_stretch, behind) = rest.split_at(count);
            let start = bytes.len();
            records::write(stretch.first, of_stretch, &mut bytes);
            stretches.push((stretch, bytes.len() - start));
            rest = behind;
        }
        Self { stretches, keys: list.iter().map(Response::key).collect(), records: bytes.into() }
    }

    /// The stretches and their responses.
    fn stretches(&self) -> impl Iterator<Item = (Stretch, Records<'_>)> {
        let (mut keys, mut records) = (self.keys.as_slice(), &*self.records);
        self.stretches.iter().map(move |(stretch, length)| {
            let (of_stretch, others) = keys.split_at(stretch.responses as usize);
            let (bytes, behind) = records.split_at(*length);
            (keys, records) = (others, behind);
            (*stretch, Records::new(stretch, of_stretch, bytes))
        })
    }

    /// Whether keys and records are those of the stretches, as far as their number tells.
    fn is_sound(&self) -> bool {
        let add = |sum: (usize, usize), (stretch, length): &(Stretch, usize)| {
            Some((sum.0.checked_add(stretch.responses as usize)?, sum.1.checked_add(*length)?))
        };
        self.stretches.iter().try_fold((0, 0), add) == Some((self.keys.len(), self.records.len()))
    }
}

impl PartialEq for Responses {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for Responses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.closed {
            Some(closed) => closed.serialize(serializer),
            None => Closed::of(&self.open).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Responses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let closed = Closed::deserialize(deserializer)?;
        if closed.is_sound() {
            Ok(Self { open: Vec::new(), closed: Some(closed) })
        } else {
            Err(de::Error::custom("stretches of other responses"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Closed, Response, Responses};
    use crate::history::{Paid, Spent, Stretch};

    const DAY: i64 = 24 * 60 * 60_000;

    fn response(at: i64, cost: Option<Paid>) -> Response {
        let spent = Spent { input: 10, cache_read: 20, cache_write: 30, output: 4, cache_write_1h: 5, reasoning: 1 };
        Response { id: at.unsigned_abs(), at, model: 0, calls: 2, spent, cost, copied: false }
    }

    fn list(of: &[Response]) -> Responses {
        let mut list = Responses::default();
        list.open().extend_from_slice(of);
        list
    }

    #[test]
    fn a_list_is_the_same_open_and_closed() {
        let of = [response(1, None), response(DAY, Some(Paid::Reported(0.5))), response(2 * DAY, None)];
        for of in [&of[..0], &of[..1], &of] {
            let (open, mut closed) = (list(of), list(of));
            closed.close();
            for list in [&open, &closed] {
                assert_eq!((list.len(), list.is_empty(), list.last()), (of.len(), of.is_empty(), of.last().copied()));
                assert!(list.iter().eq(of.iter().copied()));
                assert!(list.keys().iter().copied().eq(of.iter().map(Response::key)));
                assert_eq!((list.get(1), list.get(3)), (of.get(1).copied(), None));
            }
            assert_eq!(open, closed);
            closed.open().push(of.first().copied().unwrap_or_else(|| response(7, None)));
            assert_eq!(closed.len(), of.len() + 1);
        }
    }

    #[test]
    fn stretches_are_of_what_is_alike_and_nothing_is_lost_in_them() {
        let reported = |at, usd| response(at, Some(Paid::Reported(usd)));
        let mut unsound = response(DAY + 3, None);
        unsound.spent.cache_write_1h = 31;
        let of = [
            Response { at: 9, ..response(5, None) },
            response(4, None),
            Response { model: 1, ..response(6, None) },
            response(DAY - 1, None),
            response(DAY, None),
            Response { copied: true, ..response(DAY + 1, None) },
            unsound,
            unsound,
            reported(DAY + 4, 0.25),
            reported(DAY + 5, 0.5),
            response(DAY + 6, Some(Paid::Computed(2.0))),
            response(DAY + 7, Some(Paid::Unknown)),
            response(DAY + 8, Some(Paid::Unknown)),
        ];
        let mut list = list(&of);
        list.close();
        let stretches: Vec<_> = list.stretches().collect();
        let counts: Vec<u32> = stretches.iter().map(|(stretch, _)| stretch.responses).collect();
        assert_eq!(counts, [2, 1, 1, 1, 1, 1, 1, 2, 1, 2]);
        assert_eq!((stretches[0].0.first, stretches[0].0.last, stretches[0].0.longest_input), (4, 9, 60));
        assert_eq!(stretches[7].0.cost, Some(Paid::Reported(0.75)));
        for (stretch, apart) in stretches {
            let (mut spent, mut calls) = (Spent::default(), 0);
            for response in apart.responses() {
                spent.add(&response.spent);
                calls += u64::from(response.calls);
                assert_eq!(Stretch::of(&response).copied, stretch.copied);
            }
            assert_eq!((stretch.spent, stretch.calls), (spent, calls));
        }
    }

    #[test]
    fn stretches_of_other_responses_are_noticed() {
        let closed = Closed::of(&[response(1, None), response(2, None)]);
        assert!(closed.is_sound());
        let changes: [fn(&mut Closed); 2] = [|closed| closed.stretches[0].0.responses = 3, |closed| closed.stretches[0].1 -= 1];
        for change in changes {
            let mut changed = closed.clone();
            change(&mut changed);
            assert!(!changed.is_sound());
        }
    }
}
