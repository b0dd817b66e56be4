//! What can go wrong with a journal, as people read it.

use std::{fmt, io};

/// Why a journal can't be opened, or is not written any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble it is.
    pub why: Why,
    /// What happened.
    pub what: String,
    /// What the user may do.
    pub hint: String,
}

/// The kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// There is no folder to keep journals in.
    NoHome,
    /// The id can't name a run.
    BadId,
    /// There is no such run.
    NotFound,
    /// Another process writes the journal of this run.
    Live,
    /// The journal has a run of this id.
    Used,
    /// A newer version wrote it.
    NewerSchema,
    /// The disk is full, or the space that the user may take is.
    Full,
    /// The disk does not answer.
    Stalled,
    /// Reading or writing failed.
    Io,
}

impl Trouble {
    pub(crate) fn new(why: Why, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why, what: what.into(), hint: hint.into() }
    }

    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        let (why, hint) = if full.contains(&error.kind()) {
            (Why::Full, "`sabir prune --max-size 1GB` frees space; SABIR_HOME names another folder; --no-journal keeps none")
        } else {
            (Why::Io, "SABIR_HOME names another folder; --no-journal keeps no journal")
        };
        Self::new(why, format!("{what}: {error}"), hint)
    }

    pub(crate) fn stalled() -> Self {
        let hint = "SABIR_HOME names a folder on another disk; --no-journal keeps no journal";
        Self::new(Why::Stalled, "the disk did not take what was written to it", hint)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Trouble {}
