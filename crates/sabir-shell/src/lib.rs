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
pub mod courier;
pub mod deliver;
pub mod failure;
mod http;
pub mod hub;
mod link;
pub mod log;
mod mend;
pub mod orders;
pub mod outbox;
pub mod redact;
pub mod shell;
pub mod sink;
mod ws;

pub use adapter::{Adapter, AgentAdapter};
pub use failure::Failure;
pub use hub::{Hub, Token};
pub use log::Log;
pub use outbox::{Outbox, Place};
pub use redact::Redactor;
pub use shell::{Config, Report};
pub use sink::Sink;

pub use sabir_protocol::{SessionId, is_loopback};

use sabir_core::time::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH)
}
