//! Starts an agent, reads it to its last byte, and ends it so that nothing of it is left.
//!
//! ```text
//!              ┌ pump (stdout) ┐   (a pipe, or a file that is read along)
//!  spawn ────► ├ pump (stderr) ┼──► supervise: one select! loop ──► Sink (events)
//!              └ exit status   ┘         │  limits, cancel
//!                                        └► stop: interrupt → terminate → kill, the tree, the proof
//! ```
//!
//! A run always ends in one `exited` event that says how: by itself, by a limit, by a cancel, by a crash, or that it
//! never began. On Linux it also says whether any process of the run is left, and none is.

pub mod browser;
mod environment;
pub mod limits;
pub mod probe;
mod pump;
pub mod signals;
mod spawn;
mod stop;
pub mod supervise;
#[cfg(unix)]
mod tail;
mod tree;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use environment::{Environment, Pass};
pub use limits::{Grace, Limits};
pub use supervise::{Control, Controller, Ended, Plan, Sink, run};

#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;
