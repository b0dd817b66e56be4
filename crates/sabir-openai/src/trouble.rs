//! What can go wrong with a request, and whether trying again may help.

use std::io;
use std::time::Duration;

use sabir_core::event::{Cause, Outcome};

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    pub(crate) again: Again,
}

/// What may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Nothing.
    Never,
    /// The same again, after the wait that the endpoint asks for.
    Later(Option<Duration>),
    /// The same without the parts that not every endpoint knows.
    Plainer,
    /// The other API.
    OtherApi,
}

/// Why a turn broke off.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The request failed.
    Trouble(Trouble),
    /// Our own output can't be written.
    Out(io::Error),
}

impl From<Trouble> for Broken {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Out(error)
    }
}

impl Trouble {
    /// A failure that trying again does not mend.
    pub(crate) fn fatal(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), again: Again::Never }
    }

    /// The connection failed or broke.
    pub(crate) fn network(message: impl Into<String>) -> Self {
        Self { cause: Cause::Network, message: message.into(), again: Again::Later(None) }
    }

    /// An error that the endpoint puts into its stream.
    pub(crate) fn in_stream(code: &str, message: &str) -> Self {
        let cause = Cause::of_error(None, &format!("{code} {message}"));
        let passing = matches!(cause, Cause::RateLimited | Cause::Overloaded | Cause::Network)
            || (cause == Cause::Unknown && (code.is_empty() || code.contains("server_error") || code.starts_with('5')));
        let again = if passing && !is_used_up(code) { Again::Later(None) } else { Again::Never };
        Self { cause, message: spoken(code, message), again }
    }

    /// How a run ends that this ends.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.cause {
            Cause::ContextExhausted | Cause::MaxTurns | Cause::Budget => Outcome::Limited,
            Cause::Refusal => Outcome::Refused,
            _ => Outcome::Failed,
        }
    }
}

/// A quota that is used up does not fill by waiting.
pub(crate) fn is_used_up(code: &str) -> bool {
    code.contains("insufficient_quota") || code.contains("billing")
}

/// The message, or the code where there is no message.
pub(crate) fn spoken(code: &str, message: &str) -> String {
    match (code, message) {
        ("", "") => "the endpoint reports an error and does not say which".to_owned(),
        (code, "") => code.to_owned(),
        (_, message) => message.to_owned(),
    }
}
