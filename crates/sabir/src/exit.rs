//! How the program ends. `docs/exit-codes.md` tells users the same.

use std::process::ExitCode;

use sabir_core::event::{Cause, Outcome};

/// An exit code with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All was done.
    Completed = 0,
    /// The agent ran and failed.
    Failed = 1,
    /// The command line, or a file that it names, can't be used.
    BadUsage = 2,
    /// The agent is not there, or not ready.
    NotReady = 3,
    /// The run was cancelled.
    Cancelled = 4,
    /// A time limit ended the run.
    TimedOut = 5,
    /// Reading or writing broke off.
    Delivery = 6,
    /// A second Ctrl-C killed the run.
    Killed = 130,
}

impl Exit {
    /// The code for a run that ended like this.
    pub(crate) fn of(outcome: Outcome, cause: Option<Cause>) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::TimedOut => Self::TimedOut,
            Outcome::StartFailed if cause == Some(Cause::BadUsage) => Self::BadUsage,
            Outcome::StartFailed => Self::NotReady,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
