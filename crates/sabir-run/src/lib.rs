//! Starts an agent, reads it to its last byte, and ends it so that nothing of it is left.
//!
//! ```text
//!              ┌ pump (stdout) ┐   (a pipe, or a file that is read along)
//!  spawn ────► ├ pump (stderr) ┼──► supervise: one select! loop ──► Sink (events)
//!              └ reaper        ┘         │  limits, cancel
//!               (exit status, proof)     └► stop: interrupt → terminate → kill
//! ```
//!
//! A run always ends in one `exited` event that says how: by itself, by a limit, by a cancel, by a crash, or that it
//! never began. On Linux, in programs that call [`reaper::install`], it also says whether any process of the run is left.

pub mod browser;
mod environment;
pub mod limits;
mod output;
pub mod probe;
mod process_tree;
pub mod reaper;
pub mod secrets;
pub mod signals;
mod spawn;
mod stop;
pub mod supervisor;
#[cfg(unix)]
mod tail;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use environment::{EnvRule, Environment};
pub use limits::{Grace, Limits};
pub use supervisor::{CancelHandle, CancelToken, RunConfig, RunOutcome, RunSink, run};

#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;
