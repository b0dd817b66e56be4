//! What the loop prints: one event per line, at once.

use std::io::{self, Write};

use sabir_core::event::{Activity, EventKind, TextDelta, ThinkingDelta};

/// Where events go.
pub(crate) struct Out<'w> {
    to: &'w mut dyn Write,
    line: Vec<u8>,
}

impl<'w> Out<'w> {
    pub(crate) fn new(to: &'w mut dyn Write) -> Self {
        Self { to, line: Vec::new() }
    }

    /// Prints an event.
    pub(crate) fn tell<'a>(&mut self, kind: impl Into<EventKind<'a>>) -> io::Result<()> {
        self.line.clear();
        kind.into().write_json(&mut self.line);
        self.line.push(b'\n');
        self.to.write_all(&self.line)?;
        self.to.flush()
    }

    /// Prints a piece of the answer.
    pub(crate) fn text(&mut self, delta: &str, message_id: Option<&str>) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        self.tell(TextDelta::new(delta).message_id(message_id))
    }

    /// Prints a piece of reasoning.
    pub(crate) fn thinking(&mut self, delta: &str, message_id: Option<&str>) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        self.tell(ThinkingDelta::new(delta).message_id(message_id))
    }

    /// Prints a line for people.
    pub(crate) fn activity(&mut self, message: &str) -> io::Result<()> {
        self.tell(Activity::new(message))
    }
}
