//! Several runs on one terminal: one is shown as it goes, and those that go at the same time after it.

use sabir_core::event::Event;
use sabir_core::fold::ResultOptions;

use crate::failure::Failure;
use crate::print::human::Human;
use crate::print::json::Out;
use crate::print::{color, width};

/// What is printed of the runs.
pub(super) struct Screen {
    runs: Vec<Run>,
    /// The run that is shown as it goes.
    front: usize,
    out: Out,
    /// Why nothing more is printed.
    pub(super) failure: Option<Failure>,
}

struct Run {
    /// Until it is over.
    human: Option<Human>,
    waiting: Vec<u8>,
}

impl Screen {
    pub(super) fn new(runs: usize) -> Self {
        let run = || Run { human: Some(Human::new(ResultOptions::default(), color(), width())), waiting: Vec::new() };
        Self { runs: (0..runs).map(|_| run()).collect(), front: 0, out: Out::default(), failure: None }
    }

    /// Something happened in a run.
    pub(super) fn event(&mut self, run: usize, event: &Event<'_>) {
        if let Some(Run { human: Some(human), waiting }) = self.runs.get_mut(run) {
            human.event(event, waiting);
        }
        self.show();
    }

    /// A run is over.
    pub(super) fn end(&mut self, run: usize) {
        if let Some(Run { human, waiting }) = self.runs.get_mut(run)
            && let Some(human) = human.take()
        {
            human.end(waiting);
        }
        self.show();
    }

    fn show(&mut self) {
        while let Some(run) = self.runs.get_mut(self.front) {
            self.out.buffer().append(&mut run.waiting);
            if run.human.is_some() {
                break;
            }
            self.front += 1;
            if self.front < self.runs.len() {
                self.out.buffer().push(b'\n');
            }
        }
        if self.failure.is_none() {
            self.failure = self.out.write().err();
        }
    }
}
