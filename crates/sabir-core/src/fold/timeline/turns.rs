//! The turns of a run, and what each of them used.

use std::collections::VecDeque;

use super::item::Item;
use crate::fold::tokens::UsageTally;

/// What is told of turns before these is told of none.
const MOST: usize = 256;

/// The turns of a run, the newest last.
#[derive(Debug, Default)]
pub(super) struct Turns {
    turns: VecDeque<Turn>,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) item: Item,
    /// What an agent says only of the whole run is of no turn.
    pub(super) tally: UsageTally,
}

impl Turns {
    pub(super) fn begin(&mut self, item: Item) {
        if self.turns.len() == MOST {
            self.turns.pop_front();
        }
        self.turns.push_back(Turn { item, tally: UsageTally::default() });
        self.is_over = false;
    }

    /// No turn goes on.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// The turn in which something happens: that of the call that it is beneath, which a log may tell of much later, or the
    /// one that goes on.
    pub(super) fn of(&mut self, parent: Option<u64>) -> Option<&mut Turn> {
        let place = self.place(parent)?;
        self.turns.get_mut(place)
    }

    /// Its number.
    pub(super) fn number(&self, parent: Option<u64>) -> Option<u32> {
        self.turns.get(self.place(parent)?)?.item.turn
    }

    fn place(&self, parent: Option<u64>) -> Option<usize> {
        match parent {
            Some(call) => self.turns.iter().rposition(|turn| turn.item.id < call),
            None => self.turns.len().checked_sub(1).filter(|_| !self.is_over),
        }
    }
}
