//! Ending a run: ask, insist, kill, each to all of its processes, until none is left.

use std::time::Duration;

use sabir_core::event::Timeout;
use sabir_core::launch::StopSignal;
use tokio::time::Instant;

use crate::limits::Grace;
use crate::platform::{self, Signal};
use crate::tree::Tree;

/// Why a run is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody asked for it.
    Cancelled,
    /// A limit was passed.
    Timeout(Timeout),
    /// The agent has ended by itself; what it left running is cleared away.
    Leftovers,
}

/// How firmly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// By the signal that the agent understands.
    Ask,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// How often a run that is being stopped is looked at. Nothing is polled before that.
const LOOK: Duration = Duration::from_millis(25);

/// A stop that is under way.
pub(crate) struct Stop {
    pub(crate) reason: Reason,
    step: Step,
    /// When the next step is due.
    until: Instant,
    /// When to look again whether all have ended.
    pub(crate) look_at: Instant,
    /// Even SIGKILL did not end all of them in time.
    pub(crate) gave_up: bool,
}

impl Stop {
    /// Begins to stop the run.
    pub(crate) fn begin(reason: Reason, step: Step, leader: u32, signal: StopSignal, tree: &mut Tree, grace: &Grace) -> Self {
        let now = Instant::now();
        let mut stop = Self { reason, step, until: now, look_at: now, gave_up: false };
        if step == Step::Ask {
            // The whole group, as a terminal would: a wrapper alone may die and leave its agent, or not pass it on.
            platform::signal_group(leader, platform::stop_signal(signal));
            stop.wait(grace.interrupt);
        } else {
            stop.take(step, tree, grace);
        }
        stop
    }

    /// Goes on to a firmer step at once.
    pub(crate) fn take(&mut self, step: Step, tree: &mut Tree, grace: &Grace) {
        self.step = self.step.max(step);
        match self.step {
            Step::Ask => {}
            Step::Terminate => {
                tree.signal(Signal::SIGTERM);
                self.wait(grace.terminate);
            }
            Step::Kill => {
                tree.signal(Signal::SIGKILL);
                self.wait(grace.kill);
            }
        }
    }

    fn wait(&mut self, grace: Duration) {
        self.until = Instant::now() + grace;
        self.look_at = Instant::now() + LOOK;
    }

    /// Looks whether all have ended, and takes the next step when it is time. True when nothing is left to do.
    pub(crate) fn look(&mut self, leader_ended: bool, tree: &mut Tree, grace: &Grace) -> bool {
        let now = Instant::now();
        self.look_at = now + LOOK;
        if leader_ended && tree.is_empty() || self.gave_up {
            return true;
        }
        match self.step {
            // The agent has gone in good order; what it left needs no second asking.
            Step::Ask if leader_ended => self.take(Step::Terminate, tree, grace),
            Step::Ask if now >= self.until => self.take(Step::Terminate, tree, grace),
            Step::Terminate if now >= self.until => self.take(Step::Kill, tree, grace),
            // A process may have been born between the look and the signal.
            Step::Kill => {
                tree.signal(Signal::SIGKILL);
                self.gave_up = now >= self.until;
            }
            _ => {}
        }
        false
    }
}
