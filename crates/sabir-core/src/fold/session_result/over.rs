//! What of a run is over, while it goes on.

use super::RESULT_BYTES;
use super::shape::{FileChange, ToolCall, Turn};
use crate::event::Text;

/// Takes what of a run is over and does not change any more, as it comes.
pub trait Taker {
    /// The next turn.
    fn turn(&mut self, turn: Turn);

    /// A call that has ended, with the number of calls that began before it. What it gave back is not in it, but beside it:
    /// it may be large, and need not be copied.
    fn call(&mut self, number: usize, call: ToolCall, output: Option<&Text<'_>>);

    /// The next change of a file.
    fn file_change(&mut self, change: FileChange);
}

/// What of a run is over and does not change any more. Who folds a run that is larger than the memory [takes it
/// out](super::SessionResultFold::over) as it comes.
#[derive(Debug, Default)]
pub struct Over {
    /// Turns, in their order.
    pub turns: Vec<Turn>,
    /// Calls in the order of their ends, each with the number of calls that began before it.
    pub calls: Vec<(usize, ToolCall)>,
    /// Changes of files, in their order.
    pub file_changes: Vec<FileChange>,
}

impl Taker for Over {
    fn turn(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    fn call(&mut self, number: usize, call: ToolCall, output: Option<&Text<'_>>) {
        let result = output.map(|output| output.head(RESULT_BYTES));
        self.calls.push((number, ToolCall { result, ..call }));
    }

    fn file_change(&mut self, change: FileChange) {
        self.file_changes.push(change);
    }
}
