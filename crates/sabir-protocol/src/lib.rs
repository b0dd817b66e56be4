//! What a shell and a hub say to each other.
//!
//! `docs/shell-protocol.md` is the protocol; this is the same as values. There is no socket, no clock and no file here, so
//! both ends, and whoever tests them, can use it.

pub mod batch;
pub mod frame;
mod session;

pub use frame::{Code, FromHub, FromShell, Hello, Order, OrderKind, Refusal, Taken, Welcome};
pub use session::{NotASession, SessionId};

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// The WebSocket's subprotocol of that version.
pub const SUBPROTOCOL: &str = "sabir.shell.1";
/// The header that says the version where there is no WebSocket.
pub const VERSION_HEADER: &str = "sabir-protocol";
/// The header with the writer of a batch.
pub const WRITER_HEADER: &str = "sabir-writer";
/// The header with the epoch of a batch.
pub const EPOCH_HEADER: &str = "sabir-epoch";
/// The content type of a batch.
pub const BATCH_TYPE: &str = "application/x-sabir-batch";
/// No message is longer.
pub const MAX_MESSAGE: usize = 1 << 20;
