//! Errors as people read them: what, why, and what to do about it.

use std::fmt;
use std::io;

use crate::exit::Exit;

/// Why a command can't go on.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
    cause: Option<io::ErrorKind>,
}

impl Failure {
    /// The user asked for something that can't be done.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::BadUsage, what: what.into(), hint: None, cause: None }
    }

    /// An agent can't be started.
    pub(crate) fn not_ready(what: impl Into<String>) -> Self {
        Self { exit: Exit::NotReady, what: what.into(), hint: None, cause: None }
    }

    /// Something that ends the program in this way.
    pub(crate) fn of(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), hint: None, cause: None }
    }

    /// Reading or writing failed.
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self { exit: Exit::Delivery, what: format!("{what}: {error}"), hint: None, cause: Some(error.kind()) }
    }

    /// What the user may do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The reader of our output has gone, which is its right.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.cause == Some(io::ErrorKind::BrokenPipe)
    }
}

/// The known word that the user most likely meant.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |candidate: &str| strsim::jaro_winkler(&word.to_lowercase(), candidate);
    let best = known.into_iter().map(|candidate| (score(candidate), candidate)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.75).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_a_stranger_is_not() {
        let known = ["claude-code", "codex", "gemini"];
        assert_eq!(did_you_mean("claud", known), Some("claude-code"));
        assert_eq!(did_you_mean("Codx", known), Some("codex"));
        assert_eq!(did_you_mean("zzz", known), None);
    }
}
