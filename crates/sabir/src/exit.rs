//! How the program ends. `docs/exit-codes.md` tells users the same.

use std::process::ExitCode;

/// An exit code with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Completed = 0,
    /// The run did not end well.
    Failed = 1,
    /// The command line, or a file that it names, can't be used.
    BadUsage = 2,
    /// Reading or writing broke off.
    Delivery = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
