//! Runs agents for somebody who is elsewhere.
//!
//! ```text
//!  agent ──► events ──► redact ──► envelope ──► outbox (a journal, synced) ──┬──► hub, by WebSocket or HTTP
//!                                                     ▲                      └──► folder, S3
//!  orders of the hub ──► a message in the log ────────┘ ──► the agent
//! ```
//!
//! The log of a session is on this machine's disk before it is anywhere else, and delivery reads it from there: there is no
//! channel from the agent to the network. So a hub that is slow or gone never slows the agent and never takes memory, and a
//! shell that is killed goes on where it was. `docs/shell-protocol.md` says what is sent.

pub mod adapter;
pub mod artifact;
pub mod commands;
pub mod delivery;
pub mod error;
pub mod hub;
pub mod outbox;
mod recovery;
pub mod redact;
pub mod session;
pub mod session_log;
pub mod sink;
mod timer;
mod transport;
pub mod uploader;

pub use adapter::{Adapter, AgentAdapter};
pub use error::Failure;
pub use hub::{BearerToken, Hub};
pub use outbox::{Outbox, Position};
pub use redact::Redactor;
pub use session::{SessionConfig, SessionReport};
pub use session_log::SessionLog;
pub use sink::StorageSink;

pub use sabir_protocol::{SessionId, is_loopback};

use sabir_core::time::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH)
}
