//! What Sabir keeps on disk: the journal of every run.
//!
//! ```text
//!  run ──append──► queue ──► one thread ──write, fdatasync──► runs/<run id>/00000001.seg …
//!                                                                   │
//!                          Reader ◄── whole records only ───────────┘   (any process, at any time)
//! ```
//!
//! A journal is append-only. What was synced stays readable, whatever happened afterwards: a kill at any byte, a full
//! disk, a damaged file. `docs/journal-format.md` has the format byte by byte; [`mod@record`] and [`mod@segment`] draw it.

pub mod cursor;
pub mod journal;
pub mod layout;
pub mod meta;
pub mod prune;
pub mod reader;
pub mod record;
pub mod repair;
pub mod segment;
pub mod summary;
pub mod trouble;
mod wait;
mod window;

pub use cursor::Cursor;
pub use journal::{Journal, Options};
pub use layout::{Home, RunFolder};
pub use meta::{End, Meta};
pub use reader::{Damage, Reader, Waited};
pub use record::{Kind, Record};
pub use trouble::{Trouble, Why};
