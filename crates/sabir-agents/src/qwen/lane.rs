//! What one agent, the main one or a sub-agent, is saying at the moment.

use std::borrow::Cow;
use std::collections::VecDeque;

use sabir_core::dialect::{Facts, Said};
use sabir_core::event::{Text, ToolEnd, ToolStatus};

/// How many blocks may wait for their whole copy.
const WAITING: usize = 64;

/// One agent's current response.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The id that deltas go by; the whole copies of later blocks have ids that no delta names.
    streaming: Option<String>,
    /// What deltas said of the blocks whose whole copy has not come, in order.
    said: VecDeque<Said>,
    /// Calls that deltas announced and no whole copy confirmed.
    announced: Vec<String>,
    /// A response has begun.
    pub(super) open: bool,
    /// It is whole: what comes next is of another one.
    pub(super) complete: bool,
    pub(super) stop_reason: Option<String>,
}

impl Lane {
    /// A streamed message begins.
    pub(super) fn start(&mut self, id: Option<&str>) {
        self.streaming = id.map(str::to_owned);
        self.said.clear();
        self.complete = true;
    }

    /// A streamed message is over.
    pub(super) fn stop(&mut self) {
        self.streaming = None;
        self.said.clear();
        self.complete = true;
    }

    /// The id of the message that a piece belongs to.
    pub(super) fn id<'a>(&self, own: Option<Cow<'a, str>>) -> Option<Cow<'a, str>> {
        self.streaming.clone().map(Cow::Owned).or(own)
    }

    /// A streamed block begins.
    pub(super) fn start_block(&mut self) {
        if self.said.len() >= WAITING {
            self.said.pop_front();
        }
        self.said.push_back(Said::default());
    }

    pub(super) fn hear(&mut self, piece: &str) {
        if self.said.is_empty() {
            self.start_block();
        }
        if let Some(said) = self.said.back_mut() {
            said.push(piece);
        }
    }

    /// What of a whole block the deltas have not said.
    pub(super) fn unsaid<'a>(&mut self, whole: Text<'a>) -> Option<Text<'a>> {
        let Some(mut said) = self.said.pop_front().filter(|said| !said.is_empty()) else { return Some(whole) };
        let rest = said.rest(&whole);
        (!rest.is_empty()).then(|| Text::from(rest.to_owned()))
    }

    pub(super) fn announce(&mut self, id: &str) {
        if self.announced.len() < WAITING {
            self.announced.push(id.to_owned());
        }
    }

    pub(super) fn confirm(&mut self, id: &str) {
        self.announced.retain(|announced| announced != id);
    }

    /// The response is asked for again: what was announced will never run.
    pub(super) fn withdraw(&mut self, facts: &mut Facts<'_>) {
        self.said.clear();
        for id in self.announced.drain(..) {
            facts.push(ToolEnd::new(id, ToolStatus::Cancelled));
        }
    }
}
