//! Pieces of speech back to messages.
//!
//! Agents speak in pieces, and sub-agents speak at the same time. Each of them has a lane of its own, so that two that
//! talk across each other still give one text per message and not one per piece.

use crate::dialect::Held;
use crate::event::{Event, EventKind, TextDelta, ThinkingDelta};

/// One message, or as much of it as is whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The call whose sub-agent says it.
    pub(super) parent: Option<String>,
    /// The agent's name for it.
    pub(super) id: Option<String>,
    /// Whether it is reasoning.
    pub(super) thinking: bool,
    pub(super) text: String,
}

/// The messages that are being said, one per lane.
#[derive(Debug, Default)]
pub(super) struct Speech {
    open: Vec<Message>,
}

impl Speech {
    /// Takes a piece of text or reasoning; gives the message that it ends, if any.
    pub(super) fn hear(&mut self, event: &Event<'_>) -> Option<Message> {
        let (thinking, delta, id) = match &event.kind {
            EventKind::Text(TextDelta { delta, message_id, .. }) => (false, delta, message_id.as_deref()),
            EventKind::Thinking(ThinkingDelta { delta, message_id, .. }) => (true, delta, message_id.as_deref()),
            _ => return None,
        };
        let parent = event.parent_tool_call_id.as_deref();
        let message = self.open.iter_mut().find(|message| message.parent.as_deref() == parent);
        let ended = match message {
            Some(message) if message.thinking == thinking && message.id.as_deref() == id => {
                // A message without end is told in parts rather than kept.
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

    /// Ends the message of one lane. A blank one is none.
    pub(super) fn close(&mut self, parent: Option<&str>) -> Option<Message> {
        let index = self.open.iter().position(|message| message.parent.as_deref() == parent)?;
        Some(self.open.remove(index)).filter(|message| !message.text.trim().is_empty())
    }

    /// Ends all messages, in the order in which they began.
    pub(super) fn close_all(&mut self) -> Vec<Message> {
        let mut all = std::mem::take(&mut self.open);
        all.retain(|message| !message.text.trim().is_empty());
        all
    }
}
