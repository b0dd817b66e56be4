//! The hub: keeps the logs of many shells, shows them live, and passes orders on.
//!
//! ```text
//!   shells ──► ingest ──► log ──► live ──► watch ──► people, pages
//!     ▲                    ▲                            │
//!     └───── orders ───────┴────────── control ◄────────┘
//! ```
//!
//! `docs/hub.md` says what can be asked of it, and `docs/shell-protocol.md` how shells speak to it.

mod api;
mod artifact;
pub mod audit;
pub mod auth;
mod clock;
mod control;
mod door;
mod entrance;
mod error;
mod hub;
mod ingest;
mod live;
mod lock;
mod message;
mod metrics;
mod openapi;
mod pace;
mod page;
pub mod quota;
mod serve;
pub mod store;
pub mod tls;
pub mod usage;
mod watch;

pub use clock::now;
pub use entrance::Entrance;
pub use error::StoreError;
pub use hub::{Limits, Settings};
pub use page::single_file;
pub use serve::serve;
