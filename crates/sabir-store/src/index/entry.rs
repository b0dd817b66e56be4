//! What the index keeps, one entry for each place.

use sabir_core::history::Ledger;
use serde::{Deserialize, Serialize};

use crate::history::{Listing, LogFile, Progress, Role};
use crate::runs::KnownRun;

/// One entry of the index.
#[derive(Serialize, Deserialize)]
pub(super) enum Entry<'p, L, S, F, R> {
    /// What a log says.
    Log {
        path: &'p str,
        stamp: Stamp,
        progress: Progress,
        ledger: L,
        /// Of a database. They are one entry: without one of them, the others would be half an answer.
        sessions: S,
    },
    /// What a folder holds.
    Folder { path: &'p str, listing: F },
    /// What a run tells that is over.
    Run { path: &'p str, run: R },
}

/// An entry to write.
pub(super) type Kept<'k> = Entry<'k, &'k Ledger, &'k [(Role, Ledger)], &'k Listing, &'k KnownRun>;
/// An entry that was read.
pub(super) type Known<'k> = Entry<'k, Box<Ledger>, Vec<(Role, Ledger)>, Listing, KnownRun>;

/// What a file was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    identity: (u64, u64),
    size: u64,
    modified: i64,
}

impl Stamp {
    pub(super) fn of(file: &LogFile) -> Self {
        Self { identity: file.identity, size: file.size, modified: file.modified }
    }

    /// Whether it may be the same file as this one, before more was written to it.
    pub(super) fn may_have_become(&self, now: &Self) -> bool {
        self.identity == now.identity && self.size <= now.size
    }
}
