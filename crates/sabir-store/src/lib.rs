//! What ran: the journal of runs, and the logs that agents keep themselves.
//!
//! ```text
//!  run ──append──► queue ──► one thread ──write, fdatasync──► runs/<run id>/00000001.seg …
//!                                                                   │
//!                          Reader ◄── whole records only ───────────┘   (any process, at any time)
//!
//!  logs of agents ──find──► files ──in short──► accounts ─► sessions, responses ──► lists, sums
//!                             │                 └ index: only what changed is read again
//!                             └──whole──► events
//! ```
//!
//! A journal is append-only. What was synced stays readable, whatever happened afterwards: a kill at any byte, a full
//! disk, a damaged file. `docs/journal-format.md` has the format byte by byte; [`mod@record`] and [`mod@segment`] draw it.
//!
//! The agents' own logs are only read: [`history`] finds them and reads them in short, [`index`] keeps what was read,
//! [`account`] makes sessions of files and counts every response once, [`whole`] reads a session as events; [`usage`],
//! [`search`] and [`query`] answer questions. [`runs`] puts the journal into the same list, and [`past`] is that list.

pub mod account;
pub mod cursor;
mod digest;
pub mod history;
pub mod index;
pub mod journal;
pub mod layout;
pub mod meta;
pub mod notice;
pub mod parallel;
pub mod past;
pub mod private;
pub mod prune;
pub mod query;
pub mod reader;
pub mod record;
pub mod repair;
mod reused;
pub mod runs;
pub mod search;
pub mod segment;
pub mod summary;
pub mod trouble;
pub mod usage;
mod wait;
pub mod whole;
mod window;

pub use cursor::Cursor;
pub use journal::{Journal, Options};
pub use layout::{Home, RunFolder};
pub use meta::{End, Meta};
pub use reader::{Damage, Reader, Waited};
pub use record::{Kind, Record};
pub use trouble::{Trouble, Why};
