//! The events of a run without their secrets.
//!
//! What is said in pieces is looked at as one text for each message and each output. The end of a piece that may be the beginning
//! of a secret waits for the next piece; it comes out with it, or alone when the message is over. So there may be a piece more or
//! less than the agent printed, and events are numbered anew; what they say together is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use sabir_core::event::{Event, EventKind, Text, TextDelta, ThinkingDelta, ToolEnd, ToolUpdate};
use sabir_core::time::Timestamp;

use super::{Before, Only, Redactor};

/// So much is held back of one message at most.
const MOST_HELD: usize = 64 * 1024;

/// Fields whose values name things.
const NAMES: &[&str] = &["toolCallId", "messageId", "sessionId", "requestId", "id"];

/// Takes the secrets out of the events of one run.
#[derive(Debug)]
pub struct Stream {
    redactor: Arc<Redactor>,
    lanes: BTreeMap<Lane, Held>,
    seq: u64,
}

/// One text that comes in pieces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// What an agent says: whose sub-agent it is, whether it is reasoning, and which message.
    Speech { parent: Option<String>, thinking: bool, message: Option<String> },
    /// What a tool call prints.
    Output { call: String },
}

#[derive(Debug, Default)]
struct Held {
    text: String,
    /// What it follows.
    before: Before,
    at: Option<Timestamp>,
    line: Option<u64>,
    /// Of an output: the call whose sub-agent made the call.
    parent: Option<String>,
}

impl Stream {
    /// The stream of a run that has not begun.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, lanes: BTreeMap::new(), seq: 0 }
    }

    /// Takes an event and tells those that it completes.
    pub fn event(&mut self, event: &Event<'_>, tell: &mut dyn FnMut(&Event<'_>)) {
        let ended = self.ended_by(event);
        for lane in ended {
            self.flush(&lane, event, tell);
        }
        let mut event = event.clone();
        if let Some(lane) = lane_of(&event) {
            self.piece(lane, event, tell);
            return;
        }
        self.clean(&mut event);
        self.tell(event, tell);
    }

    /// An event without its secrets, but for the piece that it may be.
    fn clean(&self, event: &mut Event<'_>) {
        let redactor = &self.redactor;
        event.kind.change_texts(&mut |key, text| match key {
            "delta" | "outputDelta" => None,
            "input" => super::json::redact(redactor, text),
            key if NAMES.contains(&key) => redactor.whole(text, Only::Secrets),
            _ => redactor.whole(text, Only::All),
        });
        if let Some(parent) = &event.parent_tool_call_id
            && let Some(new) = redactor.whole(parent, Only::Secrets)
        {
            event.parent_tool_call_id = Some(new.into());
        }
    }

    fn tell(&mut self, mut event: Event<'_>, tell: &mut dyn FnMut(&Event<'_>)) {
        self.seq += 1;
        event.seq = self.seq;
        tell(&event);
    }

    fn piece(&mut self, lane: Lane, mut event: Event<'_>, tell: &mut dyn FnMut(&Event<'_>)) {
        let held = self.lanes.entry(lane).or_default();
        (held.at, held.line) = (event.at, event.line);
        held.parent = event.parent_tool_call_id.as_deref().map(str::to_owned);
        let Some(delta) = delta(&mut event.kind) else { return };
        let out = if held.text.is_empty() {
            held.take(delta, &self.redactor)
        } else {
            let mut text = std::mem::take(&mut held.text);
            text.push_str(delta);
            Some(held.take(&text, &self.redactor).unwrap_or(text))
        };
        if let Some(out) = out {
            *delta = Text::from(out);
        }
        let says_something = !delta.is_empty();
        self.clean(&mut event);
        if says_something || has_more(&event.kind) {
            self.tell(event, tell);
        }
    }

    /// Tells what is held of a text that is over.
    fn flush(&mut self, lane: &Lane, by: &Event<'_>, tell: &mut dyn FnMut(&Event<'_>)) {
        let Some(held) = self.lanes.remove(lane).filter(|held| !held.text.is_empty()) else { return };
        let seen = self.redactor.look(&held.text, held.before, true, Only::All);
        let delta = Text::from(self.redactor.without(&held.text, &seen.spans));
        let kind = match lane.clone() {
            Lane::Speech { thinking: false, message, .. } => EventKind::Text(TextDelta::new(delta).message_id(message)),
            Lane::Speech { message, .. } => EventKind::Thinking(ThinkingDelta::new(delta).message_id(message)),
            Lane::Output { call } => EventKind::ToolUpdate(ToolUpdate::new(call).output_delta(delta)),
        };
        let mut event = Event {
            run_id: by.run_id.clone(),
            seq: 0,
            at: held.at,
            line: held.line,
            parent_tool_call_id: held.parent.map(Into::into),
            kind,
        };
        self.clean(&mut event);
        self.tell(event, tell);
    }

    /// The texts that an event shows to be over.
    fn ended_by(&self, event: &Event<'_>) -> Vec<Lane> {
        if self.lanes.is_empty() {
            return Vec::new();
        }
        let own = lane_of(event);
        let parent = event.parent_tool_call_id.as_deref();
        let is_over = |lane: &&Lane| match (lane, &event.kind) {
            (_, EventKind::Exited(_)) => true,
            (Lane::Output { call }, EventKind::ToolEnd(ToolEnd { tool_call_id, .. })) => *call == **tool_call_id,
            (Lane::Output { .. }, _) => false,
            (Lane::Speech { parent: lane_parent, .. }, EventKind::ToolEnd(ToolEnd { tool_call_id, .. })) => {
                lane_parent.as_deref() == parent || lane_parent.as_deref() == Some(&**tool_call_id)
            }
            (Lane::Speech { parent: lane_parent, .. }, kind) => {
                lane_parent.as_deref() == parent
                    && own.as_ref() != Some(*lane)
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
        self.lanes.keys().filter(is_over).cloned().collect()
    }
}

impl Held {
    /// Takes the text, which follows what was told; what can be told of it now, or `None` for all of it as it is.
    fn take(&mut self, text: &str, redactor: &Redactor) -> Option<String> {
        let mut seen = redactor.look(text, self.before, false, Only::All);
        if seen.open.is_some_and(|open| text.len() - open > MOST_HELD) {
            seen = redactor.look(text, self.before, true, Only::All);
        }
        let end = seen.open.unwrap_or(text.len());
        self.before = self.before.then(&text.as_bytes()[..end]);
        if end == text.len() && seen.spans.is_empty() {
            return None;
        }
        text[end..].clone_into(&mut self.text);
        Some(redactor.without(&text[..end], &seen.spans))
    }
}

fn lane_of(event: &Event<'_>) -> Option<Lane> {
    let own = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let speech = |thinking, message| Lane::Speech { parent: own(&event.parent_tool_call_id), thinking, message };
    match &event.kind {
        EventKind::Text(TextDelta { message_id, .. }) => Some(speech(false, own(message_id))),
        EventKind::Thinking(ThinkingDelta { message_id, .. }) => Some(speech(true, own(message_id))),
        EventKind::ToolUpdate(ToolUpdate { tool_call_id, output_delta: Some(_), .. }) => {
            Some(Lane::Output { call: tool_call_id.to_string() })
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

/// Whether an event without its piece still says something.
fn has_more(kind: &EventKind<'_>) -> bool {
    matches!(kind, EventKind::ToolUpdate(ToolUpdate { input: Some(_), .. }))
}
