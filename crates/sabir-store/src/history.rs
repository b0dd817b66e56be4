//! The logs that agents keep themselves: found, and read in place.
//!
//! Files are read in chunks and never mapped: a live log may shrink under a reader. Nothing is ever written.

mod database;
mod find;
mod folders;
mod look;
mod read;

pub use database::{Database, note_database};
use find::modified;
pub use find::{Found, LogFile, Places, Role, find, find_in};
pub(crate) use folders::names;
pub(crate) use look::Look;
pub(crate) use read::unroll;
pub use read::{LINE_CAP, Progress, Tail, note_file};
