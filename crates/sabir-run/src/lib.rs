//! Process supervision for coding-agent CLIs: spawn, read, decode, and stop without leaving processes behind.
//!
//! ```text
//!              ┌ output (stdout) ┐   (a pipe, or a tailed file)
//!  spawn ────► ├ output (stderr) ┼──► supervisor: one select! loop ──► RunSink (events)
//!              └ reaper          ┘         │  deadlines, cancellation
//!               (exit status, quiescence)  └► stop: interrupt → SIGTERM → SIGKILL
//! ```
//!
//! Every run ends in exactly one `exited` event: completed, failed, timed out, cancelled, crashed, or not started. On Linux, in
//! programs that call [`reaper::install`], the event also states whether any process of the run is left.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use sabir_core::event::Event;
//! use sabir_core::launch::Request;
//! use sabir_run::{CancelHandle, RunConfig, RunSink, probe, reaper};
//!
//! struct Print;
//!
//! impl RunSink for Print {
//!     fn event(&mut self, event: &Event<'_>) {
//!         println!("{}", event.kind.tag());
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! reaper::install();
//! let registry = sabir_agents::builtin();
//! let agent = Arc::clone(registry.find("claude-code").ok_or("unknown agent")?);
//! let prompt = "Count the files in this directory.";
//! let command = agent.command(&Request { prompt, ..Request::default() })?;
//! let program = probe::find_program(&agent).ok_or("not installed")?;
//! let config = RunConfig::new(agent, program, command, prompt, std::env::current_dir()?);
//!
//! let cancel = CancelHandle::default();
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let outcome = runtime.block_on(sabir_run::run(config, cancel.token(), &mut Print));
//! println!("{}", outcome.outcome);
//! # Ok(())
//! # }
//! ```
//!
//! # Process-global state
//!
//! [`reaper::install`] and [`reaper::set_program`], [`supervisor::set_subreaper`] and [`secrets::protect`] change the whole
//! process. They belong at the beginning of `main`; a library should leave them to its caller.

pub mod browser;
mod environment;
mod error;
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
pub use error::{ParseEnvRuleError, ProtectError};
pub use limits::{Grace, Limits};
pub use supervisor::{CancelHandle, CancelToken, RunConfig, RunOutcome, RunSink, run};

#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;
