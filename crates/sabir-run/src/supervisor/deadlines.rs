//! Deadlines of a run: its limits, and the drain period after the leader exited.

use std::collections::BTreeMap;
use std::time::Duration;

use sabir_core::event::Timeout;
use tokio::time::Instant;

use crate::limits::Limits;

/// Tracks the points in time that limits are measured from.
pub(super) struct Deadlines {
    limits: Limits,
    started: Instant,
    first_output: bool,
    /// Time of the last byte on stdout or stderr.
    last_byte: Instant,
    /// Start times of tool calls by number, from the oldest open one.
    tools: BTreeMap<u64, Instant>,
    tools_started: u64,
    /// Exit time of the leader, and how long its pipes are still read.
    exited: Option<(Instant, Duration)>,
}

impl Deadlines {
    pub(super) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self { limits, started: now, first_output: false, last_byte: now, tools: BTreeMap::new(), tools_started: 0, exited: None }
    }

    /// Records output.
    pub(super) fn record_bytes(&mut self, count: usize, stdout: bool) {
        self.last_byte = Instant::now();
        self.first_output |= stdout && count > 0;
    }

    /// Records how many tool calls have started, and the oldest that is open.
    pub(super) fn record_tool_calls(&mut self, (started, oldest): (u64, Option<u64>)) {
        let now = Instant::now();
        self.tools.extend((self.tools_started + 1..=started).map(|number| (number, now)));
        self.tools_started = started;
        self.tools = oldest.map_or_else(BTreeMap::new, |oldest| self.tools.split_off(&oldest));
    }

    /// Starts the drain period: the leader exited, and its pipes are still read for `grace`.
    pub(super) fn start_drain(&mut self, grace: Duration) {
        self.exited = Some((Instant::now(), grace));
    }

    /// Returns whether the drain period is over.
    pub(super) fn drain_elapsed(&self) -> bool {
        self.exited.is_some_and(|(at, grace)| Instant::now() >= at + grace)
    }

    /// The next deadline and the limit that it enforces; `None` as limit for the drain period.
    pub(super) fn next(&self, run_complete: Option<bool>, stdout_open: bool, exited: bool) -> Option<(Instant, Option<Timeout>)> {
        let limits = &self.limits;
        let mut due = Vec::with_capacity(6);
        let mut add = |from: Instant, limit: Option<Duration>, which: Option<Timeout>| {
            if let Some(limit) = limit {
                due.push((from + limit, which));
            }
        };
        if let Some((at, grace)) = self.exited {
            add(at, Some(grace), None);
        }
        add(self.started, limits.run, Some(Timeout::Run));
        if run_complete == Some(true) {
            if !exited {
                add(self.last_byte, limits.after_result, Some(Timeout::AfterResult));
            }
        } else {
            if !self.first_output {
                add(self.started, limits.first_output, Some(Timeout::FirstOutput));
            }
            if self.tools.is_empty() {
                add(self.last_byte, limits.inactivity, Some(Timeout::Inactivity));
            }
            if let Some(started) = self.tools.values().next() {
                add(*started, limits.tool, Some(Timeout::Tool));
            }
            if !stdout_open && !exited {
                // Without stdout there can be no further events.
                add(self.last_byte, limits.after_result, Some(Timeout::Inactivity));
            }
        }
        due.into_iter().min_by_key(|(at, _)| *at)
    }
}
