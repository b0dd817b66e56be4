//! What a shell and a hub say to each other.
//!
//! `docs/shell-protocol.md` is the protocol; this is the same as values. There is no socket, no clock and no file here, so
//! both ends, and whoever tests them, can use it.

use core::net::IpAddr;

pub mod batch;
pub mod envelope;
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

/// Whether a host is this machine itself, so that nothing that is sent to it goes over a network. Names other than `localhost` are not
/// resolved.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let name = host.strip_suffix('.').unwrap_or(&host);
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_loopback_addresses_and_localhost_are_loopback() {
        for host in ["localhost", "LOCALHOST.", "hub.localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]", "::ffff:127.0.0.1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "hub", "localhost.example.org", "127.0.0.1.example.org", "10.0.0.1", "0.0.0.0", "[::]", "notlocalhost"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
