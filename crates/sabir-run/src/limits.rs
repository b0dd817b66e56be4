//! How long things may take.

use std::time::Duration;

/// The times after which a run is ended. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The whole run.
    pub run: Option<Duration>,
    /// From the start to the first byte of standard output.
    pub first_output: Option<Duration>,
    /// Without a byte on either pipe while no tool call is open.
    pub inactivity: Option<Duration>,
    /// One tool call.
    pub tool: Option<Duration>,
    /// Silence after the agent said that it is done. The run counts as what the agent said.
    pub after_result: Option<Duration>,
}

impl Default for Limits {
    /// No limit but the last: an agent that is done and does not leave is ended after half a minute.
    fn default() -> Self {
        Self { run: None, first_output: None, inactivity: None, tool: None, after_result: Some(Duration::from_secs(30)) }
    }
}

/// How long each step of a stop waits before the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// After the agent's own stop signal.
    pub interrupt: Duration,
    /// After SIGTERM.
    pub terminate: Duration,
    /// After SIGKILL, for the kernel to clear up.
    pub kill: Duration,
    /// After the end of the process, for a pipe that somebody else still holds.
    pub drain: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self {
            interrupt: Duration::from_secs(5),
            terminate: Duration::from_secs(3),
            kill: Duration::from_secs(3),
            drain: Duration::from_secs(2),
        }
    }
}
