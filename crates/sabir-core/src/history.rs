//! The logs that agents keep of their own sessions, described as data.
//!
//! Nothing is opened here. An agent says where its logs are ([`Root`]), what a file among them is ([`Part`]), and how it
//! is read in two ways:
//!
//! - whole, as one more [dialect](History::dialect): the events of the session, as if it had been watched;
//! - in short, line by line into a [`Ledger`]: who, when, where, and what was spent. That is enough for lists and sums,
//!   and costs little more than finding the lines.

mod account;
mod identity;
mod ledger;
mod numbers;
mod records;
mod stretch;

pub use account::{Account, Key, Totals};
pub use identity::{Continued, OpenResponse, ResponseLine, Sent, is_unique};
pub use ledger::{Ledger, Paid, Response, Spent, id_of, id_with, time_of};
pub use records::Records;
pub use stretch::Stretch;

use crate::agent::DialectEntry;

/// Counts the ways of reading in short. Raised with every change of one, so that what an older one read is read again.
pub const REVISION: u32 = 11;

/// Where an agent keeps its logs and how they are read.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// The folders that may hold them.
    pub roots: &'static [Root],
    /// What a file is, by the names of the folders below the root and its own. `None`: nothing of ours.
    pub part: for<'p> fn(&[&'p str]) -> Option<Part<'p>>,
    /// What alone is of ours in folders of which there are many.
    pub only: Option<Only>,
    /// Reads a session whole: its own file first, then what belongs to it.
    pub dialect: DialectEntry,
    /// Takes note of one line in short. Everything it must remember is in the ledger, so that reading can go on where
    /// the file ended the last time.
    pub note: fn(&mut Ledger, &[u8]),
    /// Whether the beginning of a line tells all that is noted of it. Who can read a part of a line then reads no more.
    pub enough: fn(&[u8]) -> bool,
    /// The list that grows with the session, in a file that is one object and not lines: its items are read as lines.
    pub list: Option<&'static str>,
}

/// A folder of logs.
#[derive(Debug, Clone, Copy)]
pub struct Root {
    /// The environment variable that moves the agent's folder.
    pub variable: Option<&'static str>,
    /// The agent's folder below the home folder, where that variable is not set.
    pub home: &'static str,
    /// The folder of logs below the agent's folder, or the one file that it keeps.
    pub below: &'static str,
}

/// In folders that are so deep below the root, the one name that leads to logs: nothing else in them is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Only {
    /// How many folders below the root: 1 for those that are in it.
    pub depth: usize,
    /// The name, of a file or of a folder.
    pub name: &'static str,
}

/// What a file of a history is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'p> {
    /// The log of the session of that id. A name may have only the beginning of it, if the log tells it whole.
    Session(&'p str),
    /// It belongs to the session of that id: a sub-agent's log, figures in a file of their own.
    Of(&'p str),
    /// It belongs to a session that only its lines name.
    Stray,
    /// A database that holds all sessions.
    Database,
}

/// The stem of a file name that ends so.
pub fn stem<'p>(name: &'p str, end: &str) -> Option<&'p str> {
    name.strip_suffix(end).filter(|stem| !stem.is_empty())
}
