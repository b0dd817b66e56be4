//! Session logs that agents leave on disk, described as data.
//!
//! A [`LogSpec`] tells where the logs are ([`LogRoot`]), the role of a file among them ([`FileRole`]), and how to read them in two
//! ways: the [dialect](LogSpec::dialect) decodes a session to events, and a scan fills a [`Ledger`] line by line, which is
//! enough for lists and sums and costs little more than splitting lines. Nothing is opened here.

mod identity;
mod ledger;

pub use identity::{Continued, OpenResponse, ResponseLine, Sent, is_unique};
pub use ledger::{Ledger, Paid, Response, Spent, id_of, id_of_key, id_with, time_of};

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::agent::DialectSpec;

/// Counts the ways of reading in short. Raised with every change of one, so that what an older one read is read again.
pub const REVISION: u32 = 11;

/// Where an agent keeps its session logs and how they are read.
#[derive(Clone)]
#[non_exhaustive]
pub struct LogSpec {
    /// Folders that may hold logs.
    pub roots: Vec<LogRoot>,
    /// Limits the search in folders that hold many others.
    pub filter: Option<DirFilter>,
    /// Decodes a session fully: its own file first, then the files that belong to it.
    pub dialect: DialectSpec,
    /// In a log that is one JSON object: the array that grows with the session. Its elements are read as lines.
    pub array_field: Option<&'static str>,
    classify: Arc<Classify>,
    scan: Arc<Scan>,
    is_prefix_sufficient: Arc<IsPrefixSufficient>,
}

type Scan = dyn Fn(&mut Ledger, &[u8]) + Send + Sync;
type IsPrefixSufficient = dyn Fn(&[u8]) -> bool + Send + Sync;
type Classify = dyn for<'p> Fn(&[&'p str]) -> Option<FileRole<'p>> + Send + Sync;

impl LogSpec {
    /// Logs below `roots`.
    ///
    /// `classify` gets a path below a root by its components and tells the role of the file, if it is a log. `scan`
    /// reads one line into the summary, which holds all state between lines, so that a scan continues where the file
    /// ended the last time.
    pub fn new<const N: usize>(
        roots: [LogRoot; N],
        dialect: DialectSpec,
        classify: impl for<'p> Fn(&[&'p str]) -> Option<FileRole<'p>> + Send + Sync + 'static,
        scan: impl Fn(&mut Ledger, &[u8]) + Send + Sync + 'static,
    ) -> Self {
        Self {
            roots: roots.into(),
            filter: None,
            dialect,
            array_field: None,
            classify: Arc::new(classify),
            scan: Arc::new(scan),
            is_prefix_sufficient: Arc::new(|_| false),
        }
    }

    /// At `depth` folders below a root (1 for its own entries), only entries called `name` are visited.
    #[must_use]
    pub fn filter(self, depth: usize, name: &'static str) -> Self {
        Self { filter: Some(DirFilter { depth, name: name.into() }), ..self }
    }

    /// Reads a log that is one JSON object by the elements of this array.
    #[must_use]
    pub fn array_field(self, name: &'static str) -> Self {
        Self { array_field: Some(name), ..self }
    }

    /// Sets the test whether the beginning of a line holds all that a scan needs, so that the rest is not read.
    #[must_use]
    pub fn prefix_sufficient(self, test: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self { is_prefix_sufficient: Arc::new(test), ..self }
    }

    /// The role of a file, by the components of its path below a root; `None` if it is not a log.
    pub fn classify<'p>(&self, path: &[&'p str]) -> Option<FileRole<'p>> {
        (self.classify)(path)
    }

    /// Reads one line into the summary.
    pub fn scan(&self, summary: &mut Ledger, line: &[u8]) {
        (self.scan)(summary, line);
    }

    /// Whether the beginning of a line holds all that a scan needs.
    pub fn is_prefix_sufficient(&self, prefix: &[u8]) -> bool {
        (self.is_prefix_sufficient)(prefix)
    }
}

impl fmt::Debug for LogSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSpec").field("roots", &self.roots).field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// A folder of logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRoot {
    /// Environment variable that relocates the agent's folder.
    pub env_var: Option<Cow<'static, str>>,
    /// The agent's folder below the home folder, if that variable is not set.
    pub home_dir: Cow<'static, str>,
    /// The folder of logs, or the single log file, below the agent's folder.
    pub subpath: Cow<'static, str>,
}

impl LogRoot {
    /// `subpath` in the agent's folder, which is `home_dir` in the home folder.
    pub const fn new(home_dir: &'static str, subpath: &'static str) -> Self {
        Self { env_var: None, home_dir: Cow::Borrowed(home_dir), subpath: Cow::Borrowed(subpath) }
    }

    /// `subpath` in the agent's folder, which is the value of `env_var`, or else `home_dir` in the home folder.
    pub const fn relocatable(env_var: &'static str, home_dir: &'static str, subpath: &'static str) -> Self {
        let (home_dir, subpath) = (Cow::Borrowed(home_dir), Cow::Borrowed(subpath));
        Self { env_var: Some(Cow::Borrowed(env_var)), home_dir, subpath }
    }
}

/// Limits a search at one depth to one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirFilter {
    /// Number of folders below the root: 1 for those directly in it.
    pub depth: usize,
    /// Name of the file or folder to visit.
    pub name: Cow<'static, str>,
}

/// Role of a file among an agent's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole<'p> {
    /// Log of the session with that id; a prefix of the id is enough if the log itself has all of it.
    Session(&'p str),
    /// Belongs to the session with that id, e.g. the log of a sub-agent.
    Child(&'p str),
    /// Belongs to a session that only its lines name.
    Orphan,
    /// Database of all sessions.
    Database,
}

/// The stem of a file name that ends so.
pub fn stem<'p>(name: &'p str, end: &str) -> Option<&'p str> {
    name.strip_suffix(end).filter(|stem| !stem.is_empty())
}
