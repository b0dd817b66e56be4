//! Response that an agent, the main one or a sub-agent, is printing.

use sabir_core::dialect::Facts;
use sabir_core::event::{self, TurnEnd, TurnStart, UsageScope};
use sabir_core::history::{Continued, OpenResponse, ResponseLine, Sent};
use sabir_core::json::{self, Str};
use sabir_core::time::Timestamp;
use serde_json::value::RawValue;

use super::wire::Abandoned;
use crate::family::anthropic::MessageState;
use crate::family::anthropic::wire::{ApiMessage, Usage};

/// Current message of an agent of Claude Code.
pub(super) type Message = MessageState<Response>;

/// What is known of the current response of an agent.
#[derive(Debug, Default)]
pub(crate) struct Response {
    /// Identifies further lines of the response; `None` before the first response.
    open: Option<OpenResponse>,
    pub(super) model: Option<String>,
    /// Usage that was not reported yet.
    usage: Option<Usage>,
    /// Whether the output count of the usage is final.
    is_usage_final: bool,
    /// Whether the usage was reported for an earlier copy of the response.
    pub(super) is_counted: bool,
}

/// Ids of a line, beside the id of its message.
#[derive(Default)]
pub(super) struct LineIds<'a> {
    pub(super) request_id: Option<Str<'a>>,
    pub(super) uuid: Option<Str<'a>>,
}

impl LineIds<'_> {
    /// Returns what the line says about the response that it belongs to.
    pub(super) fn response_line<'p>(&'p self, message: &'p ApiMessage<'_>, at: Option<Timestamp>) -> ResponseLine<'p> {
        let bytes = |id: &'p Option<Str<'_>>| id.as_deref().map(str::as_bytes);
        let input = |usage: Usage| {
            [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens]
                .map(|tokens| tokens.unwrap_or(0))
        };
        ResponseLine {
            message_id: bytes(&message.id),
            request_id: bytes(&self.request_id),
            uuid: bytes(&self.uuid),
            at: at.map(Timestamp::as_millis),
            input: message.usage.map(input),
        }
    }
}

impl Message {
    /// Enters the response of a line. A new response of the main agent starts a turn. `number` is that of the line.
    pub(super) fn enter(&mut self, id: &str, line: &ResponseLine<'_>, number: u64, facts: &mut Facts<'_>) -> Continued {
        let mut open = self.response.open.unwrap_or_default();
        let continued = open.next(line, || number);
        if continued.is_new {
            self.close(facts);
            *self = Self::new(id);
            if facts.parent.is_none() {
                facts.push(TurnStart::default());
            }
        }
        self.response.open = Some(open);
        continued
    }

    /// Enters the response of a streamed message. Nearly always it is the current one.
    pub(super) fn enter_streamed(&mut self, id: &str, facts: &mut Facts<'_>) {
        let is_current = !id.is_empty() && self.id == id && self.response.open.is_some_and(|open| open.is_last());
        if !is_current {
            self.enter(id, &ResponseLine { message_id: Some(id.as_bytes()), ..ResponseLine::default() }, 0, facts);
        }
    }

    /// Records that a tool result or a prompt was sent to the model.
    pub(super) fn record_sent(&mut self, sent: Sent) {
        if let Some(open) = &mut self.response.open {
            open.sent(sent);
        }
    }

    /// Records the model and the usage at the start of a message.
    pub(super) fn record_start(&mut self, message: &ApiMessage<'_>) {
        if let Some(model) = &message.model {
            self.response.model = Some(model.to_string());
        }
        if !self.response.is_usage_final && message.usage.is_some() {
            self.response.usage = message.usage;
        }
    }

    /// Records the usage at the end of a message. Counts that it lacks are those of its start.
    pub(super) fn complete_usage(&mut self, usage: Usage) {
        let start = self.response.usage.unwrap_or_default();
        self.response.is_usage_final = true;
        self.response.usage = Some(Usage {
            input_tokens: usage.input_tokens.or(start.input_tokens),
            output_tokens: usage.output_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens.or(start.cache_read_input_tokens),
            cache_creation_input_tokens: usage.cache_creation_input_tokens.or(start.cache_creation_input_tokens),
            cache_creation: usage.cache_creation.or(start.cache_creation),
            output_tokens_details: usage.output_tokens_details.or(start.output_tokens_details),
        });
    }

    /// Records the usage of a line of the log, which is that of the response when the line was written: the largest output
    /// counts.
    pub(super) fn log_usage(&mut self, usage: Usage) {
        let output = |usage: Option<Usage>| usage.and_then(|usage| usage.output_tokens);
        if !self.response.is_usage_final || output(Some(usage)) > output(self.response.usage) {
            self.complete_usage(usage);
        }
    }

    /// Pushes the usage of the message.
    pub(super) fn flush_usage(&mut self, facts: &mut Facts<'_>) {
        let Response { model, usage, is_usage_final, is_counted, .. } = &mut self.response;
        let Some(usage) = usage.take() else { return };
        if *is_counted || model.as_deref() == Some("<synthetic>") {
            return;
        }
        facts.push(
            usage_event(&usage, UsageScope::Message)
                .output_tokens(usage.output_tokens.filter(|_| *is_usage_final))
                .model(model.clone()),
        );
        // A later copy of the same message repeats the usage.
        *is_usage_final = true;
    }

    fn close(&mut self, facts: &mut Facts<'_>) {
        self.flush_usage(facts);
        if facts.parent.is_none() && self.response.open.is_some() {
            facts.push(TurnEnd::default().stop_reason(self.stop_reason.take()));
        }
    }

    /// Voids the blocks of an aborted stream, whose tool calls will never run.
    pub(super) fn abandon(&mut self, abandoned: &RawValue, facts: &mut Facts<'_>) {
        let from_index = json::parse::<Abandoned>(abandoned.get()).map_or(0, |abandoned| abandoned.from_block_index);
        self.cancel_calls(from_index, facts);
    }
}

/// Converts usage to an event.
pub(super) fn usage_event<'a>(usage: &Usage, scope: UsageScope) -> event::Usage<'a> {
    event::Usage::new(scope)
        .input_tokens(usage.input_tokens)
        .output_tokens(usage.output_tokens)
        .cache_read_tokens(usage.cache_read_input_tokens)
        .cache_write_tokens(usage.cache_creation_input_tokens)
        .cache_write_1h_tokens(usage.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens))
        .reasoning_tokens(usage.output_tokens_details.and_then(|details| details.thinking_tokens))
}
