//! Errors of a runner.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use sabir_protocol::{Refusal, SessionId};
use sabir_store::{Trouble, Why};

/// Why a session cannot start or continue. Display texts do not include the [`source`](std::error::Error::source).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// A token with characters that a header cannot have.
    #[error("the token has characters that no token has")]
    InvalidToken,
    /// A hub address that cannot be used.
    #[error("the address of the hub can't be used: {reason}")]
    InvalidHubAddress {
        /// Human-readable reason.
        reason: String,
    },
    /// TLS cannot be configured.
    #[error("TLS can't be had")]
    Tls(#[source] Source),
    /// The hub refused the session for good.
    #[error("the hub takes no more: {}", .0.message)]
    Refused(Refusal),
    /// The sink refused the session for good.
    #[error("the sink takes no more: {0}")]
    SinkRefused(Refusal),
    /// A sink folder cannot be created or opened.
    #[error("can't keep the log in {}", .path.display())]
    SinkFolder {
        /// The folder.
        path: PathBuf,
        /// Cause.
        source: Source,
    },
    /// A bucket cannot be configured.
    #[error("the bucket {bucket} can't be used")]
    SinkBucket {
        /// The bucket.
        bucket: String,
        /// Cause.
        source: Source,
    },
    /// The start position cannot be read from a sink.
    #[error("{sink} can't be read")]
    SinkUnreadable {
        /// Display name of the sink.
        sink: String,
        /// Cause.
        source: Source,
    },
    /// An object in a sink has unexpected content.
    #[error("{object} in {sink} is damaged")]
    SinkDamaged {
        /// Display name of the sink.
        sink: String,
        /// Name of the object.
        object: String,
    },
    /// An object in a sink has an unexpected size.
    #[error("{object} in {sink} has {actual} bytes and should have {expected}")]
    SinkObjectSize {
        /// Display name of the sink.
        sink: String,
        /// Name of the object.
        object: String,
        /// Stored bytes.
        actual: u64,
        /// Expected bytes.
        expected: u64,
    },
    /// The prefix or session id cannot be part of an object name.
    #[error("the prefix or the session can't be a name there")]
    InvalidObjectName,
    /// The flush timeout passed before the sink was complete: the number of missing messages.
    #[error("{}", missing_in_sink(*.0))]
    SinkIncomplete(u64),
    /// An outbox without records cannot be deleted.
    #[error("can't clear {}", .path.display())]
    OutboxClear {
        /// Folder of the outbox.
        path: PathBuf,
        /// Cause.
        source: Source,
    },
    /// An outbox cannot be scanned.
    #[error("can't read the log in {}", .path.display())]
    OutboxScan {
        /// Folder of the outbox.
        path: PathBuf,
        /// Cause.
        source: Source,
    },
    /// An outbox cannot be read for delivery.
    #[error("can't read the log")]
    OutboxRead(#[source] Source),
    /// An outbox belongs to another session or has an unknown schema.
    #[error("the log in {} is not that of the session {session}", .path.display())]
    OutboxMismatch {
        /// Folder of the outbox.
        path: PathBuf,
        /// The requested session.
        session: SessionId,
    },
    /// The first record of an outbox cannot be read.
    #[error("the log in {} is damaged: its beginning, which says whose log it is, can't be read", .path.display())]
    OutboxWithoutMeta {
        /// Folder of the outbox.
        path: PathBuf,
    },
    /// A message was damaged while the outbox was open. Opening it again repairs it.
    #[error("the outbox is damaged: message {0} can't be read")]
    OutboxGap(u64),
    /// Messages are out of order.
    #[error("the outbox is damaged: message {found} stands where {expected} should be")]
    OutboxSequence {
        /// Sequence number of the message.
        found: u64,
        /// Sequence number of its position.
        expected: u64,
    },
    /// A message before the start of the outbox was requested.
    #[error("message {message} is asked for, and the log on this machine begins after {after}")]
    BeforeOutbox {
        /// The requested sequence number.
        message: u64,
        /// Sequence number before the first message.
        after: u64,
    },
    /// Another runner of this machine has the session open.
    #[error("another shell runs the session {0} on this machine")]
    SessionInUse(String),
    /// A message exceeds the size of a batch.
    #[error("a message is too long to be sent")]
    MessageTooLong,
    /// The automaton for secrets cannot be built.
    #[error("the secrets can't be looked for")]
    Redaction(#[source] Source),
    /// An invalid glob pattern.
    #[error("{0}")]
    ArtifactPattern(String),
    /// A delivery task panicked.
    #[error("delivery broke off")]
    DeliveryTask(#[source] Source),
    /// The agent cannot be started.
    #[error("{0}")]
    NotReady(String),
    /// The journal failed.
    #[error("{}", .0.what)]
    Store(Trouble),
}

/// Error kinds, by what a caller does about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is invalid.
    Usage,
    /// The agent is not installed or not ready.
    NotReady,
    /// A disk or network failed.
    Delivery,
}

impl RunnerError {
    /// Kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotReady(_) => ErrorKind::NotReady,
            Self::InvalidToken
            | Self::InvalidHubAddress { .. }
            | Self::Tls(_)
            | Self::SinkFolder { .. }
            | Self::SinkBucket { .. }
            | Self::InvalidObjectName
            | Self::OutboxMismatch { .. }
            | Self::SessionInUse(_)
            | Self::Redaction(_)
            | Self::ArtifactPattern(_) => ErrorKind::Usage,
            Self::Store(trouble) if matches!(trouble.why, Why::BadId | Why::Live | Why::NewerSchema) => ErrorKind::Usage,
            _ => ErrorKind::Delivery,
        }
    }
}

impl From<Trouble> for RunnerError {
    fn from(trouble: Trouble) -> Self {
        Self::Store(trouble)
    }
}

/// A shared error source. Two sources are equal if their messages are.
#[derive(Debug, Clone)]
pub struct Source(Arc<dyn std::error::Error + Send + Sync>);

impl Source {
    pub(crate) fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Source {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Source {}

fn missing_in_sink(messages: u64) -> String {
    match messages {
        0 => "all messages are in the sink, but its messages.json is not complete".to_owned(),
        1 => "1 message is not in the sink".to_owned(),
        messages => format!("{messages} messages are not in the sink"),
    }
}

#[cfg(test)]
mod tests {
    use super::missing_in_sink;

    #[test]
    fn missing_in_sink_names_what_is_missing() {
        assert_eq!(missing_in_sink(0), "all messages are in the sink, but its messages.json is not complete");
        assert_eq!(
            (missing_in_sink(1).as_str(), missing_in_sink(2).as_str()),
            ("1 message is not in the sink", "2 messages are not in the sink")
        );
    }
}
