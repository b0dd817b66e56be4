//! Runs of coding agents in the terminal: a list of them, and one of them as a timeline, live.
//!
//! ```text
//!   keys, mouse, size ─┐
//!   time ──────────────┼──► Message ──► App::update ──► effects ──► terminal (copy, end), threads that read
//!   threads that read ─┘                    │
//!                                           └──► view: the state as cells
//! ```
//!
//! - [`app`] is pure: what comes in is a [`Message`], what is to be done comes out as an [`Effect`].
//! - `keys` is the one table of keys: the keymap, the line at the bottom and the help are made from it.
//! - [`source`] is where runs come from: what is kept on this machine, or a hub.
//! - [`terminal`] is the only module that touches the terminal, and it leaves it as it was.
//!
//! What is shown of a run is the timeline that `sabir-core` folds; nothing here looks at events.

mod ansi;
pub mod app;
pub mod keys;
pub mod source;
pub mod terminal;
mod view;
mod wrap;

pub use app::{App, Effect, Message};
pub use source::{Feed, Row, Source};
pub use terminal::run;
pub use view::{Palette, draw};
