//! The hub: a server that stores the sessions of many runners, streams them live, and passes commands to runners.
//!
//! ```text
//!   runners ──► ingest ──► store ──► live cache ──► subscriptions ──► web UI, terminal UI, API clients
//!     ▲                      ▲                                            │
//!     └────── commands ──────┴────────────────── commands ◄───────────────┘
//! ```
//!
//! `docs/hub.md` documents the API, and `docs/shell-protocol.md` the protocol between runners and the hub.

mod artifacts;
pub mod audit;
pub mod auth;
mod commands;
mod error;
mod events;
mod extract;
mod ingest;
mod live_cache;
mod login;
mod metrics;
mod openapi;
mod origin_check;
pub mod quota;
mod rate_limit;
mod serve;
mod sessions;
mod state;
pub mod store;
mod subscribe;
pub mod tls;
pub mod usage;
mod web_ui;

use std::sync::{Mutex, MutexGuard, PoisonError};

use sabir_core::time::Timestamp;

pub use error::StoreError;
pub use login::OneTimeTokens;
pub use serve::serve;
pub use state::{Limits, Settings};
pub use web_ui::single_file;

/// The current time.
pub fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()).unwrap_or(Timestamp::EPOCH)
}

/// Locks a mutex and ignores poisoning: no critical section of this crate can leave inconsistent state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
