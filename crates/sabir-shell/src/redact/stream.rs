//! Redaction of event streams.
//!
//! Deltas are redacted as one text per message and per tool output. The end of a delta that may begin a secret is held back
//! until the next delta, or until the message ends. Deltas may therefore be split differently than the agent printed them, and
//! events are renumbered; the concatenated text is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use sabir_core::event::{Event, EventKind, Text, TextDelta, ThinkingDelta, ToolEnd, ToolUpdate};
use sabir_core::time::Timestamp;

use super::{Kinds, Preceding, Redactor};

/// Maximum size of held-back text per message.
const MAX_PENDING_BYTES: usize = 64 * 1024;

/// Fields that contain identifiers.
const ID_FIELDS: &[&str] = &["toolCallId", "messageId", "sessionId", "requestId", "id"];

/// Redacts the events of one run.
#[derive(Debug)]
pub struct EventRedactor {
    redactor: Arc<Redactor>,
    pending: BTreeMap<TextKey, PendingText>,
    seq: u64,
}

/// Identifies a text that is streamed in deltas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum TextKey {
    /// Text or reasoning of an agent: parent tool call of a sub-agent, kind, and message id.
    Speech { parent: Option<String>, thinking: bool, message: Option<String> },
    /// Output of a tool call.
    Output { call: String },
}

#[derive(Debug, Default)]
struct PendingText {
    buffer: String,
    /// The text before `buffer`.
    preceding: Preceding,
    at: Option<Timestamp>,
    line: Option<u64>,
    /// Parent tool call id of the event.
    parent: Option<String>,
}

impl EventRedactor {
    /// A redactor at the beginning of a run.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, pending: BTreeMap::new(), seq: 0 }
    }

    /// Redacts an event and emits the events that it completes.
    pub fn event(&mut self, event: &Event<'_>, emit: &mut dyn FnMut(&Event<'_>)) {
        let completed = self.completed_by(event);
        for key in completed {
            self.flush(&key, event, emit);
        }
        let mut event = event.clone();
        if let Some(key) = text_key(&event) {
            self.append_delta(key, event, emit);
            return;
        }
        self.redact_fields(&mut event);
        self.emit(event, emit);
    }

    /// Redacts all fields except a delta.
    fn redact_fields(&self, event: &mut Event<'_>) {
        let redactor = &self.redactor;
        event.kind.change_texts(&mut |key, text| match key {
            "delta" | "outputDelta" => None,
            "input" => super::json::redact(redactor, text),
            key if ID_FIELDS.contains(&key) => redactor.redact_text(text, Kinds::KnownSecrets),
            _ => redactor.redact_text(text, Kinds::All),
        });
        if let Some(parent) = &event.parent_tool_call_id
            && let Some(new) = redactor.redact_text(parent, Kinds::KnownSecrets)
        {
            event.parent_tool_call_id = Some(new.into());
        }
    }

    fn emit(&mut self, mut event: Event<'_>, emit: &mut dyn FnMut(&Event<'_>)) {
        self.seq += 1;
        event.seq = self.seq;
        emit(&event);
    }

    fn append_delta(&mut self, key: TextKey, mut event: Event<'_>, emit: &mut dyn FnMut(&Event<'_>)) {
        let pending = self.pending.entry(key).or_default();
        (pending.at, pending.line) = (event.at, event.line);
        pending.parent = event.parent_tool_call_id.as_deref().map(str::to_owned);
        let Some(delta) = delta(&mut event.kind) else { return };
        let redacted = if pending.buffer.is_empty() {
            pending.push(delta, &self.redactor)
        } else {
            let mut text = std::mem::take(&mut pending.buffer);
            text.push_str(delta);
            Some(pending.push(&text, &self.redactor).unwrap_or(text))
        };
        if let Some(redacted) = redacted {
            *delta = Text::from(redacted);
        }
        let has_text = !delta.is_empty();
        self.redact_fields(&mut event);
        if has_text || has_other_fields(&event.kind) {
            self.emit(event, emit);
        }
    }

    /// Emits the held-back text of a completed text.
    fn flush(&mut self, key: &TextKey, by: &Event<'_>, emit: &mut dyn FnMut(&Event<'_>)) {
        let Some(text) = self.pending.remove(key).filter(|text| !text.buffer.is_empty()) else { return };
        let matches = self.redactor.find(&text.buffer, text.preceding, true, Kinds::All);
        let delta = Text::from(self.redactor.replace(&text.buffer, &matches.spans));
        let kind = match key.clone() {
            TextKey::Speech { thinking: false, message, .. } => EventKind::Text(TextDelta::new(delta).message_id(message)),
            TextKey::Speech { message, .. } => EventKind::Thinking(ThinkingDelta::new(delta).message_id(message)),
            TextKey::Output { call } => EventKind::ToolUpdate(ToolUpdate::new(call).output_delta(delta)),
        };
        let mut event = Event {
            run_id: by.run_id.clone(),
            seq: 0,
            at: text.at,
            line: text.line,
            parent_tool_call_id: text.parent.map(Into::into),
            kind,
        };
        self.redact_fields(&mut event);
        self.emit(event, emit);
    }

    /// Texts that this event completes.
    fn completed_by(&self, event: &Event<'_>) -> Vec<TextKey> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let own = text_key(event);
        let parent = event.parent_tool_call_id.as_deref();
        let is_completed = |key: &&TextKey| match (key, &event.kind) {
            (_, EventKind::Exited(_)) => true,
            (TextKey::Output { call }, EventKind::ToolEnd(ToolEnd { tool_call_id, .. })) => *call == **tool_call_id,
            (TextKey::Output { .. }, _) => false,
            (TextKey::Speech { parent: key_parent, .. }, EventKind::ToolEnd(ToolEnd { tool_call_id, .. })) => {
                key_parent.as_deref() == parent || key_parent.as_deref() == Some(&**tool_call_id)
            }
            (TextKey::Speech { parent: key_parent, .. }, kind) => {
                key_parent.as_deref() == parent
                    && own.as_ref() != Some(*key)
                    && matches!(
                        kind,
                        EventKind::Text(_)
                            | EventKind::Thinking(_)
                            | EventKind::ToolStart(_)
                            | EventKind::TurnStart(_)
                            | EventKind::TurnEnd(_)
                            | EventKind::Final(_)
                            | EventKind::Error(_)
                    )
            }
        };
        self.pending.keys().filter(is_completed).cloned().collect()
    }
}

impl PendingText {
    /// Appends text. Returns text that can be emitted now; `None` if that is `text` unchanged.
    fn push(&mut self, text: &str, redactor: &Redactor) -> Option<String> {
        let mut matches = redactor.find(text, self.preceding, false, Kinds::All);
        if matches.undecided.is_some_and(|open| text.len() - open > MAX_PENDING_BYTES) {
            matches = redactor.find(text, self.preceding, true, Kinds::All);
        }
        let end = matches.undecided.unwrap_or(text.len());
        self.preceding = self.preceding.followed_by(&text.as_bytes()[..end]);
        if end == text.len() && matches.spans.is_empty() {
            return None;
        }
        text[end..].clone_into(&mut self.buffer);
        Some(redactor.replace(&text[..end], &matches.spans))
    }
}

fn text_key(event: &Event<'_>) -> Option<TextKey> {
    let own = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let speech = |thinking, message| TextKey::Speech { parent: own(&event.parent_tool_call_id), thinking, message };
    match &event.kind {
        EventKind::Text(TextDelta { message_id, .. }) => Some(speech(false, own(message_id))),
        EventKind::Thinking(ThinkingDelta { message_id, .. }) => Some(speech(true, own(message_id))),
        EventKind::ToolUpdate(ToolUpdate { tool_call_id, output_delta: Some(_), .. }) => {
            Some(TextKey::Output { call: tool_call_id.to_string() })
        }
        _ => None,
    }
}

fn delta<'e, 'a>(kind: &'e mut EventKind<'a>) -> Option<&'e mut Text<'a>> {
    match kind {
        EventKind::Text(TextDelta { delta, .. }) | EventKind::Thinking(ThinkingDelta { delta, .. }) => Some(delta),
        EventKind::ToolUpdate(ToolUpdate { output_delta, .. }) => output_delta.as_mut(),
        _ => None,
    }
}

/// Returns whether an event has content besides its delta.
fn has_other_fields(kind: &EventKind<'_>) -> bool {
    matches!(kind, EventKind::ToolUpdate(ToolUpdate { input: Some(_), .. }))
}
