//! The current message of an agent: its id, and which of its content was emitted as deltas.

use std::borrow::Cow;
use std::collections::VecDeque;

use sabir_core::dialect::{Facts, Said};
use sabir_core::event::{Text, ToolEnd, ToolStatus};

/// Limit of streamed blocks, and of streamed tool calls, that are remembered per agent.
const MAX_STREAMED: usize = 256;

/// Current message of one agent, the main agent or a sub-agent.
#[derive(Debug, Default)]
pub(crate) struct MessageState<R> {
    /// Id that the deltas of the message carry; empty if it has none.
    pub(crate) id: String,
    /// Emitted prefixes of text blocks whose full copies have not arrived, oldest first.
    pub(crate) blocks: VecDeque<Said>,
    /// Tool calls whose start was streamed, with the index of their block.
    pub(crate) calls: Vec<(u32, String)>,
    pub(crate) stop_reason: Option<String>,
    /// What the agent's variant tracks of the response.
    pub(crate) response: R,
}

impl<R: Default> MessageState<R> {
    /// Creates the state of a message with this id.
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Returns the id of the deltas; without one, or if the two are equal, the line's `own` id, which needs no copy.
    pub(super) fn id<'a>(&self, own: Option<Cow<'a, str>>) -> Option<Cow<'a, str>> {
        match own {
            Some(own) if !own.is_empty() && (self.id.is_empty() || own == self.id) => Some(own),
            _ => (!self.id.is_empty()).then(|| Cow::Owned(self.id.clone())),
        }
    }

    /// Starts a streamed text block.
    pub(super) fn start_block(&mut self) {
        if self.blocks.len() >= MAX_STREAMED {
            self.blocks.pop_front();
        }
        self.blocks.push_back(Said::default());
    }

    /// Records an emitted delta of the last block.
    pub(super) fn push_delta(&mut self, delta: &str) {
        if self.blocks.is_empty() {
            self.start_block();
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(delta);
        }
    }

    /// Returns what the full copy of a block adds to its deltas; `None` if it adds nothing.
    pub(super) fn remaining<'a>(&mut self, full: Text<'a>) -> Option<Text<'a>> {
        let streamed = self.blocks.iter().position(|emitted| !emitted.is_empty() && emitted.is_prefix_of(&full));
        let Some(mut emitted) = streamed.and_then(|index| self.blocks.remove(index)) else { return Some(full) };
        let rest = emitted.rest(&full);
        (!rest.is_empty()).then(|| Text::from(rest.to_owned()))
    }

    /// Records a tool call whose start was streamed.
    pub(super) fn start_call(&mut self, index: u32, id: &str) {
        if self.calls.len() < MAX_STREAMED {
            self.calls.push((index, id.to_owned()));
        }
    }

    /// Ends the streamed calls from a block on as cancelled and forgets all of them: the response was aborted.
    pub(crate) fn cancel_calls(&mut self, from_index: u32, facts: &mut Facts<'_>) {
        for (index, id) in self.calls.drain(..) {
            if index >= from_index {
                facts.push(ToolEnd::new(id, ToolStatus::Cancelled));
            }
        }
    }
}
