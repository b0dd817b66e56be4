//! What the loop prints: one event per line, at once.

use std::borrow::Cow;
use std::io::{self, Write};

use sabir_core::event::EventKind;

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
    pub(crate) fn tell(&mut self, kind: &EventKind<'_>) -> io::Result<()> {
        self.line.clear();
        kind.write_json(&mut self.line);
        self.line.push(b'\n');
        self.to.write_all(&self.line)?;
        self.to.flush()
    }

    /// Prints a piece of the answer.
    pub(crate) fn text(&mut self, delta: &str, message_id: Option<&str>) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        self.tell(&EventKind::Text { delta: delta.into(), message_id: message_id.map(Cow::Borrowed) })
    }

    /// Prints a piece of reasoning.
    pub(crate) fn thinking(&mut self, delta: &str, message_id: Option<&str>) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        self.tell(&EventKind::Thinking { delta: delta.into(), message_id: message_id.map(Cow::Borrowed) })
    }

    /// Prints a line for people.
    pub(crate) fn activity(&mut self, message: &str) -> io::Result<()> {
        self.tell(&EventKind::Activity { message: Cow::Borrowed(message) })
    }
}
