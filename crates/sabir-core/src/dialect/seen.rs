//! What came before, so that a copy of it is known as such.

use std::collections::{BTreeSet, VecDeque};

/// So many are remembered. One that comes again after that many others is taken for a new one.
const REMEMBERED: usize = 1 << 16;

/// The last of many, by numbers made of their ids.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    numbers: BTreeSet<u64>,
    /// The order in which they are forgotten.
    order: VecDeque<u64>,
}

impl Seen {
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// Takes note of one; true when it is new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let new = self.numbers.insert(number);
        if new {
            self.order.push_back(number);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::{REMEMBERED, Seen};

    #[test]
    fn the_last_ones_are_remembered_and_no_more() {
        let mut seen = Seen::default();
        let count = REMEMBERED as u64;
        assert!((0..count).all(|number| seen.insert(number)));
        assert!(!seen.insert(0) && seen.contains(0));
        assert!(seen.insert(count));
        assert!(!seen.contains(0) && seen.contains(1));
        assert_eq!((seen.numbers.len(), seen.order.len()), (REMEMBERED, REMEMBERED));
    }
}
