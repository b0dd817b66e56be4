//! A bounded set of recent ids, for deduplication.

use std::collections::{BTreeSet, VecDeque};

/// Capacity. An id that comes again after this many others counts as new.
const CAPACITY: usize = 1 << 16;

/// The most recent ids, by hash.
#[derive(Debug, Default)]
pub struct RecentIds {
    numbers: BTreeSet<u64>,
    /// In order of eviction.
    order: VecDeque<u64>,
}

impl RecentIds {
    /// Whether the id is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// Adds an id; true if it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        let new = self.numbers.insert(number);
        if new {
            self.order.push_back(number);
        }
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, RecentIds};

    #[test]
    fn the_last_ones_are_remembered_and_no_more() {
        let mut seen = RecentIds::default();
        let count = CAPACITY as u64;
        assert!((0..count).all(|number| seen.insert(number)));
        assert!(!seen.insert(0) && seen.contains(0));
        assert!(seen.insert(count));
        assert!(!seen.contains(0) && seen.contains(1));
        assert_eq!((seen.numbers.len(), seen.order.len()), (CAPACITY, CAPACITY));
    }
}
