//! Remote runner: runs an agent and delivers its session, redacted and durable, to a hub and a folder or bucket.
//!
//! ```text
//!  agent ──► events ──► redact ──► envelope ──► outbox (a journal, synced) ──┬──► hub, by WebSocket or HTTP
//!                                                     ▲                      └──► folder, S3
//!  remote commands ──► a message in the log ──────────┘ ──► the agent
//! ```
//!
//! Messages are durable on this machine before they are sent anywhere, and delivery reads them from disk; there is no channel from
//! the agent to the network. A slow or unavailable hub therefore neither slows the agent nor uses memory, and a killed runner
//! resumes where it was. `docs/shell-protocol.md` specifies the protocol.
//!
//! Entry points: [`session::run`] with a [`SessionConfig`] and an [`Adapter`]; [`Outbox`], [`Redactor`] and
//! [`uploader::Uploader`] are usable on their own.

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
pub use error::RunnerError;
pub use hub::{BearerToken, Hub};
pub use outbox::{Outbox, Position};
pub use redact::Redactor;
pub use session::{SessionConfig, SessionReport};
pub use session_log::SessionLog;
pub use sink::StorageSink;

pub use sabir_protocol::{SessionId, is_loopback};

pub(crate) use sabir_run::supervisor::now;
