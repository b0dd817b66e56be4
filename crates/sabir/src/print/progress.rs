//! How far a long reading is, on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// A line that moves on standard error, once there is something to wait for.
pub(crate) struct Progress {
    what: &'static str,
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

/// Shorter waits need no word.
const QUIET: Duration = Duration::from_millis(300);
/// How often the line is written.
const EVERY: Duration = Duration::from_millis(80);
const BAR: usize = 24;

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, started: Instant::now(), shown: None, terminal: std::io::stderr().is_terminal() }
    }

    /// The same where output comes meanwhile, which must not be in the same window.
    pub(crate) fn beside_output(what: &'static str) -> Self {
        let progress = Self::new(what);
        Self { terminal: progress.terminal && !std::io::stdout().is_terminal(), ..progress }
    }

    pub(crate) fn show(&mut self, done: usize, all: usize) {
        if !self.terminal || self.started.elapsed() < QUIET || self.shown.is_some_and(|shown| shown.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let filled = done * BAR / all.max(1);
        let bar = format!("{}{}", "━".repeat(filled), "─".repeat(BAR - filled.min(BAR)));
        let _ = write!(anstream::stderr(), "\r\x1b[2K{} {bar} {done} of {all}", self.what);
    }

    pub(crate) fn end(self) {
        if self.shown.is_some() {
            let _ = write!(anstream::stderr(), "\r\x1b[2K");
        }
    }
}
