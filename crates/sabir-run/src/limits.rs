//! Timeouts of a run and grace periods of the stop escalation.

use std::time::Duration;

/// Timeouts after which a run is stopped. `None` disables a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Duration of the run.
    pub run: Option<Duration>,
    /// Time from the start to the first byte on stdout.
    pub first_output: Option<Duration>,
    /// Time without output while no tool call is open.
    pub inactivity: Option<Duration>,
    /// Duration of a tool call.
    pub tool: Option<Duration>,
    /// Time without output after the agent reported its result. The run keeps the reported outcome.
    pub after_result: Option<Duration>,
}

impl Default for Limits {
    /// Only `after_result` is limited, to 30 seconds: some agents report their result but do not exit.
    fn default() -> Self {
        Self { run: None, first_output: None, inactivity: None, tool: None, after_result: Some(Duration::from_secs(30)) }
    }
}

/// Grace periods of the stop escalation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// After the agent's own stop signal.
    pub interrupt: Duration,
    /// After SIGTERM.
    pub terminate: Duration,
    /// After SIGKILL, for the kernel to reap.
    pub kill: Duration,
    /// After the leader exited, for pipes that another process holds open.
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
