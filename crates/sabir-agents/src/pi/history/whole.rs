//! The log as the events of its session.

use std::borrow::Cow;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{Activity, Outcome, Prompt, Retry, TurnEnd, TurnStart};
use sabir_core::json::{self, JsonDialect, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use super::super::stream::Stream;
use super::super::tools::ToolEnd;
use super::super::wire::{Block, Message};
use super::Entry;
use super::note::outcome_of;

/// Reads the log of a session.
#[derive(Default)]
pub(super) struct Log {
    /// Knows messages and tool calls.
    stream: Stream,
    /// A message of the model was read, and what its calls gave may still come.
    in_turn: bool,
    /// How many attempts have failed in a row.
    failed: u32,
}

impl JsonDialect for Log {
    type Wire<'a> = Entry<'a>;

    fn message<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.timestamp.as_deref().and_then(Timestamp::parse);
        match &*entry.r#type {
            "session" => {
                self.stream.session_id = entry.id.map(|id| id.0.into_owned());
                self.stream.cwd = entry.cwd.map(|cwd| cwd.0.into_owned());
                self.stream.say_session(facts);
            }
            "model_change" => {
                self.stream.model = entry.model.map(|model| model.0.into_owned());
                self.stream.say_session(facts);
            }
            "message" => match entry.message {
                Some(message) => self.spoken(message, line, facts),
                None => json::unrecognized(line, facts),
            },
            "compaction" | "branch_summary" | "usage" => {
                if &*entry.r#type == "compaction" {
                    facts.push(Activity::new("conversation compacted"));
                }
                let model = entry.model.map(Cow::from).or_else(|| self.stream.model.clone().map(Cow::Owned));
                if let Some(usage) = entry.usage.and_then(|usage| usage.event(model)) {
                    facts.push(usage);
                }
            }
            "custom_message" => {
                if let Some(text) = entry.content.filter(|_| entry.display) {
                    facts.push(Activity::new(text));
                }
            }
            // Settings, bookmarks, what extensions keep, and which attempts the model is not shown again.
            "thinking_level_change" | "context_edit" | "custom" | "label" | "session_info" => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.stream.tell_error(true, facts);
        self.end_turn(facts);
        // Nothing in the log says that a run is over; after some messages nothing is left to do.
        let over = self.stream.last.as_ref().is_some_and(|last| outcome_of(&last.reason) != Outcome::Incomplete);
        self.stream.settled = over;
        self.stream.end(&End::default(), facts)
    }
}

impl Log {
    fn spoken<'a>(&mut self, message: Message<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match &*message.role {
            "assistant" => match message.content() {
                Some(blocks) => self.assistant(message, blocks, facts),
                None => json::unrecognized(line, facts),
            },
            "user" => match message.content() {
                Some(content) => self.user(content, facts),
                None => json::unrecognized(line, facts),
            },
            "toolResult" => match (message.result(), message.tool_call_id) {
                (Some(result), Some(id)) => {
                    let end = ToolEnd { failed: message.is_error == Some(true), duration_ms: None };
                    self.stream.tools.end(id, Some(result), end, facts);
                }
                _ => json::unrecognized(line, facts),
            },
            "bashExecution" => {
                let message = format!("the user ran: {}", message.command.as_deref().unwrap_or_default());
                facts.push(Activity::new(message));
            }
            // What was sent to the model beside the conversation.
            "system" | "custom" | "hookMessage" | "branchSummary" | "compactionSummary" => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn user<'a>(&mut self, content: Option<StringOr<'a, Vec<Block<'a>>>>, facts: &mut Facts<'a>) {
        self.stream.tell_error(false, facts);
        self.end_turn(facts);
        self.failed = 0;
        self.stream.last = None;
        self.stream.answer.clear();
        let text = match content {
            Some(StringOr::String(text)) => text.into(),
            Some(StringOr::Other(blocks)) => Cow::Owned(blocks.iter().filter_map(|block| block.text.as_deref()).collect()),
            None => Cow::Borrowed(""),
        };
        facts.push(Prompt::new(text));
    }

    fn assistant<'a>(&mut self, message: Message<'a>, blocks: Vec<Block<'a>>, facts: &mut Facts<'a>) {
        self.end_turn(facts);
        if let Some(error) = self.stream.last.as_mut().and_then(|last| last.error.take()) {
            self.failed = self.failed.saturating_add(1);
            let (attempt, message) = (self.failed, Cow::Owned(error));
            facts.push(Retry::new(attempt, message));
        } else {
            self.failed = 0;
        }
        facts.push(TurnStart::default());
        self.in_turn = true;
        self.stream.begin(&message, facts);
        let others = self.stream.message_end(message, blocks, facts);
        // An attempt that failed has calls that were never made.
        let made = self.stream.last.as_ref().is_none_or(|last| !matches!(last.reason.as_str(), "error" | "aborted"));
        for block in others {
            if let (true, "toolCall", Some(id)) = (made, &*block.r#type, block.id) {
                self.stream.tools.start(id, block.name, block.arguments, facts);
            }
        }
    }

    fn end_turn(&mut self, facts: &mut Facts<'_>) {
        if std::mem::take(&mut self.in_turn) {
            let stop_reason = self.stream.last.as_ref().map(|last| Cow::Owned(last.reason.clone()));
            facts.push(TurnEnd::default().stop_reason(stop_reason));
        }
    }
}
