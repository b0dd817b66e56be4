//! Ending a run: ask, insist, kill, each to all of its processes, deadline none is left.

use std::time::Duration;

use sabir_core::event::Timeout;
use sabir_core::launch::StopSignal;
use tokio::time::Instant;

use crate::limits::Grace;
use crate::platform::{self, Signal};
use crate::process_tree::ProcessTree;

/// Why a run is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Somebody asked for it.
    Cancelled,
    /// A limit was passed.
    Timeout(Timeout),
    /// The agent has ended by itself; what it left running is cleared away.
    OrphanedProcesses,
}

/// How firmly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopLevel {
    /// By the signal that the agent understands.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// How often a run that is being stopped is looked at. Nothing is polled before that.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// A stop that is under way.
pub(crate) struct StopSequence {
    pub(crate) reason: StopReason,
    level: StopLevel,
    /// When the next level is due.
    deadline: Instant,
    /// When to look again whether all have ended.
    pub(crate) next_poll: Instant,
    /// Even SIGKILL did not end all of them in time.
    pub(crate) timed_out: bool,
}

impl StopSequence {
    /// Begins to stop the run.
    pub(crate) fn new(
        reason: StopReason,
        level: StopLevel,
        leader: u32,
        signal: StopSignal,
        tree: &mut ProcessTree,
        grace: &Grace,
    ) -> Self {
        let now = Instant::now();
        let mut stop = Self { reason, level, deadline: now, next_poll: now, timed_out: false };
        if level == StopLevel::Interrupt {
            // The whole group, as a terminal would: a wrapper alone may die and leave its agent, or not pass it on.
            platform::signal_group(leader, platform::stop_signal(signal));
            stop.reset_deadline(grace.interrupt);
        } else {
            stop.escalate_to(level, tree, grace);
        }
        stop
    }

    /// Goes on to a firmer level at once.
    pub(crate) fn escalate_to(&mut self, level: StopLevel, tree: &mut ProcessTree, grace: &Grace) {
        self.level = self.level.max(level);
        match self.level {
            StopLevel::Interrupt => {}
            StopLevel::Terminate => {
                tree.signal(Signal::SIGTERM);
                self.reset_deadline(grace.terminate);
            }
            StopLevel::Kill => {
                tree.signal(Signal::SIGKILL);
                self.reset_deadline(grace.kill);
            }
        }
    }

    fn reset_deadline(&mut self, grace: Duration) {
        self.deadline = Instant::now() + grace;
        self.next_poll = Instant::now() + POLL_INTERVAL;
    }

    /// Looks whether all have ended, and takes the next level when it is time. True when nothing is left to do.
    pub(crate) fn poll(&mut self, leader_exited: bool, tree: &mut ProcessTree, grace: &Grace) -> bool {
        let now = Instant::now();
        self.next_poll = now + POLL_INTERVAL;
        if leader_exited && tree.is_empty() || self.timed_out {
            return true;
        }
        match self.level {
            // The agent has gone in good order; what it left needs no second asking.
            StopLevel::Interrupt if leader_exited => self.escalate_to(StopLevel::Terminate, tree, grace),
            StopLevel::Interrupt if now >= self.deadline => self.escalate_to(StopLevel::Terminate, tree, grace),
            StopLevel::Terminate if now >= self.deadline => self.escalate_to(StopLevel::Kill, tree, grace),
            // A process may have been born between the look and the signal.
            StopLevel::Kill => {
                tree.signal(Signal::SIGKILL);
                self.timed_out = now >= self.deadline;
            }
            _ => {}
        }
        false
    }
}
