//! Stop escalation: interrupt → SIGTERM → SIGKILL, sent to the whole process tree until it is empty.

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
    /// Cancellation was requested.
    Cancelled,
    /// A limit was exceeded.
    Timeout(Timeout),
    /// The agent exited; processes it left behind are being stopped.
    OrphanedProcesses,
}

/// Escalation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopLevel {
    /// The agent's own stop signal.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Poll interval while stopping. A running agent is never polled.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// A stop in progress.
pub(crate) struct StopSequence {
    pub(crate) reason: StopReason,
    level: StopLevel,
    /// Time of the next escalation.
    deadline: Instant,
    /// Time of the next call of [`poll`](Self::poll).
    pub(crate) next_poll: Instant,
    /// Processes are left although the grace period of SIGKILL passed.
    pub(crate) timed_out: bool,
}

impl StopSequence {
    /// Starts stopping a run at the given level.
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
            // Signal the whole group, like a terminal: a wrapper may not forward the signal, or exit without its agent.
            platform::signal_group(leader, platform::stop_signal(signal));
            stop.reset_deadline(grace.interrupt);
        } else {
            stop.escalate_to(level, tree, grace);
        }
        stop
    }

    /// Escalates at once to this level, if it is higher.
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

    /// Checks for remaining processes and escalates when due. Returns whether the stop is complete.
    pub(crate) fn poll(&mut self, leader_exited: bool, tree: &mut ProcessTree, grace: &Grace) -> bool {
        let now = Instant::now();
        self.next_poll = now + POLL_INTERVAL;
        if leader_exited && tree.is_empty() || self.timed_out {
            return true;
        }
        match self.level {
            // The agent exited as asked; orphans get no grace period of their own.
            StopLevel::Interrupt if leader_exited => self.escalate_to(StopLevel::Terminate, tree, grace),
            StopLevel::Interrupt if now >= self.deadline => self.escalate_to(StopLevel::Terminate, tree, grace),
            StopLevel::Terminate if now >= self.deadline => self.escalate_to(StopLevel::Kill, tree, grace),
            // A process may have forked between listing the tree and signalling it.
            StopLevel::Kill => {
                tree.signal(Signal::SIGKILL);
                self.timed_out = now >= self.deadline;
            }
            _ => {}
        }
        false
    }
}
