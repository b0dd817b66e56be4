//! Which session an event is of, and what is open in it.
//!
//! A server tells of all its sessions in one stream. The run is the first one without a parent; sub-agents have sessions
//! of their own, tied to the tool call that started them. Sessions of other people are left out.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use sabir_core::dialect::{Facts, Held, Said};
use sabir_core::event::{TextDelta, ThinkingDelta};

/// How many sub-agents are remembered. Their calls last long, but not many run at a time.
const CHILDREN: usize = 256;

/// All sessions of the run.
#[derive(Default)]
pub(super) struct Sessions {
    main: Option<String>,
    /// Whether the main session has done anything.
    working: bool,
    children: VecDeque<Child>,
    /// What is open in each session that has something open.
    open: BTreeMap<String, OpenSession>,
}

struct Child {
    id: String,
    /// The tool call that started it, once that is known.
    call: Option<String>,
}

/// What a session is to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Main,
    Child,
}

#[derive(Default)]
struct OpenSession {
    /// Whether a message was announced. Before that, the stream was joined in the middle of one.
    announced: bool,
    message: Option<OpenMessage>,
}

/// A message of the model that is being written.
#[derive(Default)]
pub(super) struct OpenMessage {
    pub(super) id: String,
    pub(super) model: Option<String>,
    /// It sums the conversation up for the model, and is not for people.
    pub(super) summary: bool,
    pub(super) parts: Vec<OpenPart>,
    /// The tool calls that run, with what was told of their output.
    pub(super) tools: BTreeMap<String, Said>,
}

/// A part of an open message.
pub(super) struct OpenPart {
    pub(super) id: String,
    pub(super) kind: PartKind,
    pub(super) said: Said,
    pub(super) text: Held,
}

/// What is told of a part in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Thinking,
    Step,
}

impl Sessions {
    /// The main session's id.
    pub(super) fn main(&self) -> Option<&str> {
        self.main.as_deref()
    }

    /// A session is there.
    pub(super) fn created(&mut self, id: &str, parent: Option<&str>) {
        match parent {
            Some(parent) if self.role(parent).is_some() => self.child(id, None),
            // What came before may be the last words of a session that was over when the stream began.
            None if !self.working => self.main = Some(id.to_owned()),
            _ => {}
        }
    }

    /// A tool call runs a session.
    pub(super) fn started_by(&mut self, id: &str, call: &str) {
        self.child(id, Some(call));
    }

    fn child(&mut self, id: &str, call: Option<&str>) {
        if self.main() == Some(id) {
            return;
        }
        if !self.children.iter().any(|child| child.id == id) {
            self.children.push_back(Child { id: id.to_owned(), call: None });
        }
        if let (Some(call), Some(child)) = (call, self.children.iter_mut().find(|child| child.id == id)) {
            child.call = Some(call.to_owned());
        }
        if self.children.len() > CHILDREN
            && let Some(child) = self.children.pop_front()
        {
            self.open.remove(&child.id);
        }
    }

    /// What a session is to the run; `None` when it is somebody else's.
    fn role(&self, id: &str) -> Option<Role> {
        if self.main() == Some(id) {
            return Some(Role::Main);
        }
        self.children.iter().any(|child| child.id == id).then_some(Role::Child)
    }

    /// Sets the head of the facts to a session of the run; `None` when it is somebody else's.
    pub(super) fn enter(&mut self, id: &str, facts: &mut Facts<'_>) -> Option<Role> {
        if self.main.is_none() {
            self.main = Some(id.to_owned());
        }
        if self.main() == Some(id) {
            return Some(Role::Main);
        }
        let child = self.children.iter().find(|child| child.id == id)?;
        facts.parent = Some(Cow::Owned(child.call.as_ref().unwrap_or(&child.id).clone()));
        Some(Role::Child)
    }

    /// The main session does something, so it is the run.
    pub(super) fn works(&mut self) {
        self.working = true;
    }

    /// A message was announced: `Some` when the model writes it, and it is not complete.
    pub(super) fn announce(&mut self, session: &str, message: Option<&str>) -> Option<&mut OpenMessage> {
        let open = self.open.entry(session.to_owned()).or_default();
        open.announced = true;
        let id = message?;
        let message = open.message.get_or_insert_default();
        if message.id != id {
            *message = OpenMessage { id: id.to_owned(), ..OpenMessage::default() };
        }
        Some(message)
    }

    /// A message is complete; all that was open of it is forgotten.
    pub(super) fn complete(&mut self, session: &str, message: &str) {
        if let Some(open) = self.open.get_mut(session) {
            open.message.take_if(|open| open.id == message);
        }
    }

    /// The open message of that id. Parts of others are of the person, or old ones that are tidied up.
    pub(super) fn message(&mut self, session: &str, id: &str) -> Option<&mut OpenMessage> {
        self.open.get_mut(session)?.message.as_mut().filter(|message| message.id == id)
    }

    /// Opens a message that was announced before the stream began.
    pub(super) fn join(&mut self, session: &str, id: &str) {
        if !self.open.get(session).is_some_and(|open| open.announced) {
            self.announce(session, Some(id));
        }
    }

    /// A session is gone, or done for now.
    pub(super) fn forget(&mut self, session: &str) {
        self.open.remove(session);
        self.children.retain(|child| child.id != session);
    }
}

impl OpenMessage {
    /// The part of that id, if it was seen.
    pub(super) fn part(&mut self, id: &str) -> Option<&mut OpenPart> {
        self.parts.iter_mut().find(|part| part.id == id)
    }

    /// The part of that id, and whether it is new.
    pub(super) fn part_or_new(&mut self, id: &str, kind: PartKind) -> (&mut OpenPart, bool) {
        let place = self.parts.iter().position(|part| part.id == id);
        let index = place.unwrap_or(self.parts.len());
        if place.is_none() {
            self.parts.push(OpenPart { id: id.to_owned(), kind, said: Said::default(), text: Held::default() });
        }
        (&mut self.parts[index], place.is_none())
    }

    /// The texts of the open step, in order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| part.kind == PartKind::Text).map(|part| part.text.as_str())
    }
}

impl OpenPart {
    /// Says a piece of it.
    pub(super) fn say<'a>(&mut self, delta: Cow<'a, str>, message_id: Cow<'a, str>, facts: &mut Facts<'a>) {
        let message_id = Some(message_id);
        match self.kind {
            PartKind::Text => facts.push(TextDelta::new(delta).message_id(message_id)),
            PartKind::Thinking => facts.push(ThinkingDelta::new(delta).message_id(message_id)),
            PartKind::Step => {}
        }
    }
}
