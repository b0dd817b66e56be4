//! What one agent, the main one or a sub-agent, is saying at the moment.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::event::{self, Text, ToolEnd, ToolStatus, TurnEnd, TurnStart, UsageScope};
use sabir_core::history::{Continued, OpenResponse, ResponseLine};
use sabir_core::json;
use serde_json::value::RawValue;

use super::wire::{Abandoned, ApiMessage, Usage};

/// One agent's current message.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Which lines to come are of this message; `None` before the first one.
    pub(super) open: Option<OpenResponse>,
    /// May be empty.
    message_id: String,
    pub(super) model: Option<String>,
    /// What deltas said of the blocks whose whole copy has not come.
    pub(super) streamed: Vec<String>,
    /// Calls that deltas announced, with the index of their block.
    pub(super) announced: Vec<(u32, String)>,
    /// Figures of the message, not yet told.
    usage: Option<Usage>,
    /// Whether the output figure is the final one.
    usage_complete: bool,
    pub(super) stop_reason: Option<String>,
    /// Its figures were told when it came before.
    pub(super) is_counted: bool,
}

impl Lane {
    /// Whether a piece with that id is of this message, as nearly all pieces are.
    pub(super) fn is_in(&self, message_id: &str) -> bool {
        !message_id.is_empty() && self.message_id == message_id && self.open.is_some_and(|open| open.is_last())
    }

    /// Goes on to the message that a line is of. A new message of the main agent is a new turn. `place` is the number of the
    /// line.
    pub(super) fn next(&mut self, message_id: &str, line: &ResponseLine<'_>, place: u64, facts: &mut Facts<'_>) -> Continued {
        let mut open = self.open.unwrap_or_default();
        let continued = open.next(line, || place);
        if continued.is_new {
            self.close(facts);
            *self = Self { message_id: message_id.to_owned(), ..Self::default() };
            if facts.parent.is_none() {
                facts.push(TurnStart::default());
            }
        }
        self.open = Some(open);
        continued
    }

    pub(super) fn id<'a>(&self) -> Option<Cow<'a, str>> {
        (!self.message_id.is_empty()).then(|| Cow::Owned(self.message_id.clone()))
    }

    /// Takes note of the model and of the figures at the start of a message.
    pub(super) fn note(&mut self, message: &ApiMessage<'_>) {
        if let Some(model) = &message.model {
            self.model = Some(model.to_string());
        }
        if !self.usage_complete && message.usage.is_some() {
            self.usage = message.usage;
        }
    }

    /// Takes note of what a delta said.
    pub(super) fn hear(&mut self, said: &str) {
        match self.streamed.last_mut() {
            Some(streamed) => streamed.push_str(said),
            None => self.streamed.push(said.to_owned()),
        }
    }

    /// What of a whole block the deltas have not said.
    pub(super) fn unsaid<'a>(&mut self, text: Text<'a>) -> Option<Text<'a>> {
        if self.streamed.is_empty() {
            return Some(text);
        }
        let said = self.streamed.iter().position(|streamed| text.starts_with(streamed.as_str()) && !streamed.is_empty());
        let Some(said) = said.map(|index| self.streamed.swap_remove(index).len()) else { return Some(text) };
        text.get(said..).filter(|rest| !rest.is_empty()).map(|rest| Text::from(rest.to_owned()))
    }

    /// The figures at the end of a message are whole; what they leave out was told at its start.
    pub(super) fn complete_usage(&mut self, usage: Usage) {
        let start = self.usage.unwrap_or_default();
        self.usage_complete = true;
        self.usage = Some(Usage {
            input_tokens: usage.input_tokens.or(start.input_tokens),
            output_tokens: usage.output_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens.or(start.cache_read_input_tokens),
            cache_creation_input_tokens: usage.cache_creation_input_tokens.or(start.cache_creation_input_tokens),
            cache_creation: usage.cache_creation.or(start.cache_creation),
            output_tokens_details: usage.output_tokens_details.or(start.output_tokens_details),
        });
    }

    /// The figures of a line of the log are whole as far as the response was when it was written: the largest output counts.
    pub(super) fn log_usage(&mut self, usage: Usage) {
        let output = |usage: Option<Usage>| usage.and_then(|usage| usage.output_tokens);
        if !self.usage_complete || output(Some(usage)) > output(self.usage) {
            self.complete_usage(usage);
        }
    }

    pub(super) fn tell_usage(&mut self, facts: &mut Facts<'_>) {
        let Some(usage) = self.usage.take() else { return };
        if self.is_counted || self.model.as_deref() == Some("<synthetic>") {
            return;
        }
        facts.push(
            event::Usage::new(UsageScope::Message)
                .input_tokens(usage.input_tokens)
                .output_tokens(usage.output_tokens.filter(|_| self.usage_complete))
                .cache_read_tokens(usage.cache_read_input_tokens)
                .cache_write_tokens(usage.cache_creation_input_tokens)
                .cache_write_1h_tokens(usage.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens))
                .reasoning_tokens(usage.output_tokens_details.and_then(|details| details.thinking_tokens))
                .model(self.model.clone()),
        );
        // A later copy of the same message says the same figures.
        self.usage_complete = true;
    }

    pub(super) fn close(&mut self, facts: &mut Facts<'_>) {
        self.tell_usage(facts);
        if facts.parent.is_none() && self.open.is_some() {
            facts.push(TurnEnd::default().stop_reason(self.stop_reason.take()));
        }
    }

    /// A cut stream is void from a block on; its calls will never run.
    pub(super) fn abandon(&mut self, abandoned: &RawValue, facts: &mut Facts<'_>) {
        let from = json::parse::<Abandoned>(abandoned.get()).map_or(0, |abandoned| abandoned.from_block_index);
        for (index, id) in self.announced.drain(..) {
            if index >= from {
                facts.push(ToolEnd::new(id, ToolStatus::Cancelled));
            }
        }
    }
}
