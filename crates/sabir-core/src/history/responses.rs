//! The responses that a log tells, as a list that is kept in bytes.
//!
//! Lists and sums look at all logs each time, and nearly all of these have not changed. So what is kept of one stays the
//! bytes that it is, with the sums of its [stretches](Stretch) beside it; a response is read out of the bytes when it is
//! looked at, and only a log that has grown has its list opened.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::records::Records;
use super::{Response, Stretch};

/// A list of responses.
#[derive(Debug, Clone, Default)]
pub struct Responses {
    /// Empty while the list is closed.
    open: Vec<Response>,
    closed: Option<Closed>,
}

#[derive(Debug, Clone)]
struct Closed {
    kept: Kept,
    /// The key of each response. All logs are compared by them, while few records are ever looked at.
    keys: Vec<u64>,
}

/// What an index keeps of a list.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Kept {
    stretches: Vec<Stretch>,
    records: Records,
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
        self.range(0..self.len())
    }

    /// Those at these places, if there are such places.
    pub fn range(&self, places: Range<usize>) -> impl Iterator<Item = Response> {
        let open = self.open.get(places.clone()).unwrap_or_default().iter().copied();
        open.chain(self.closed.iter().flat_map(move |closed| closed.kept.records.range(places.clone())))
    }

    /// The one at that place.
    pub fn get(&self, place: usize) -> Option<Response> {
        self.range(place..place.checked_add(1)?).next()
    }

    /// The last one.
    pub fn last(&self) -> Option<Response> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All of them in stretches, each with the places of its responses. In an open list each response is one.
    pub fn stretches(&self) -> impl Iterator<Item = (Stretch, Range<usize>)> {
        let closed = self.closed.iter().flat_map(|closed| closed.kept.stretches.iter().copied());
        let mut end = 0;
        closed.chain(self.open.iter().map(Stretch::of)).map(move |stretch| {
            let start = end;
            end += stretch.responses as usize;
            (stretch, start..end)
        })
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
        let mut stretches: Vec<Stretch> = Vec::new();
        for response in list {
            if !stretches.last_mut().is_some_and(|last| last.takes(response)) {
                stretches.push(Stretch::of(response));
            }
        }
        Self { kept: Kept { stretches, records: Records::of(list) }, keys: list.iter().map(Response::key).collect() }
    }
}

impl Kept {
    /// The list that it is; `None` when the stretches are not those of the records, as far as their number tells.
    fn closed(self) -> Option<Closed> {
        let count = self.stretches.iter().map(|stretch| stretch.responses as usize).sum::<usize>();
        let keys = self.records.range(0..self.records.len()).map(|response| response.key()).collect();
        (count == self.records.len()).then_some(Closed { kept: self, keys })
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
            Some(closed) => closed.kept.serialize(serializer),
            None => Closed::of(&self.open).kept.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Responses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let closed = Kept::deserialize(deserializer)?.closed();
        let closed = closed.ok_or_else(|| de::Error::custom("stretches of other responses"))?;
        Ok(Self { open: Vec::new(), closed: Some(closed) })
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
                assert_eq!(list.range(2..4).count(), 0, "there are no such places");
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
        for (stretch, places) in stretches {
            let (mut spent, mut calls) = (Spent::default(), 0);
            for response in list.range(places) {
                spent.add(&response.spent);
                calls += u64::from(response.calls);
                assert_eq!(Stretch::of(&response).copied, stretch.copied);
            }
            assert_eq!((stretch.spent, stretch.calls), (spent, calls));
        }
    }

    #[test]
    fn stretches_of_other_responses_are_noticed() {
        let Closed { mut kept, keys } = Closed::of(&[response(1, None), response(2, None)]);
        assert_eq!(kept.clone().closed().map(|closed| closed.keys), Some(keys));
        kept.stretches[0].responses = 3;
        assert!(kept.closed().is_none());
    }
}
