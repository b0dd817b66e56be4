//! Assembly of text and thinking deltas into messages, one at a time per sub-agent.

use crate::dialect::Held;
use crate::event::{Event, EventKind, TextDelta, ThinkingDelta};

/// A complete message, or a part of one that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The tool call whose sub-agent wrote it.
    pub parent: Option<String>,
    /// The agent's id of it.
    pub id: Option<String>,
    /// Whether it is reasoning.
    pub thinking: bool,
    /// Its text.
    pub text: String,
}

/// Assembles messages from deltas.
#[derive(Debug, Default)]
pub struct MessageAssembler {
    open: Vec<Message>,
}

impl MessageAssembler {
    /// Appends a delta; returns the message that it completes, if any.
    pub fn push(&mut self, event: &Event<'_>) -> Option<Message> {
        let (thinking, delta, id) = match &event.kind {
            EventKind::Text(TextDelta { delta, message_id, .. }) => (false, delta, message_id.as_deref()),
            EventKind::Thinking(ThinkingDelta { delta, message_id, .. }) => (true, delta, message_id.as_deref()),
            _ => return None,
        };
        let parent = event.parent_tool_call_id.as_deref();
        let message = self.open.iter_mut().find(|message| message.parent.as_deref() == parent);
        let ended = match message {
            Some(message) if message.thinking == thinking && message.id.as_deref() == id => {
                // An endless message is split rather than held.
                if message.text.len() + delta.len() <= Held::LIMIT {
                    message.text.push_str(delta);
                    return None;
                }
                self.close(parent)
            }
            Some(_) => self.close(parent),
            None => None,
        };
        let (parent, id) = (parent.map(str::to_owned), id.map(str::to_owned));
        self.open.push(Message { parent, id, thinking, text: delta.to_string() });
        ended
    }

    /// Completes the message of the main agent or of a sub-agent, unless it is blank.
    pub fn close(&mut self, parent: Option<&str>) -> Option<Message> {
        let index = self.open.iter().position(|message| message.parent.as_deref() == parent)?;
        Some(self.open.remove(index)).filter(|message| !message.text.trim().is_empty())
    }

    /// Completes all messages, in the order in which they started.
    pub fn close_all(&mut self) -> Vec<Message> {
        let mut all = std::mem::take(&mut self.open);
        all.retain(|message| !message.text.trim().is_empty());
        all
    }
}
