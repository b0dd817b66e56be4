//! What can go wrong, as people read it.

use std::fmt;

use sabir_store::{Trouble, Why};

/// Why a shell can't go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: Kind,
    /// What happened.
    pub what: String,
    /// What the user may do.
    pub hint: Option<String>,
}

/// The kinds of failures, by what a caller does about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something that was asked for can't be done.
    Usage,
    /// The agent is not there, or not ready.
    NotReady,
    /// A disk or a network failed.
    Delivery,
}

impl Failure {
    /// Something that was asked for can't be done.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, what: what.into(), hint: None }
    }

    /// A disk or a network failed.
    pub fn delivery(what: impl Into<String>) -> Self {
        Self { kind: Kind::Delivery, what: what.into(), hint: None }
    }

    /// What the user may do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        let kind = match trouble.why {
            Why::BadId | Why::Live | Why::NewerSchema => Kind::Usage,
            _ => Kind::Delivery,
        };
        Self { kind, what: trouble.what, hint: Some(trouble.hint) }
    }
}
