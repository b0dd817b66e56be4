//! Which message is the answer.
//!
//! Codex prints every message whole and says of none that it is the last: preambles look the same. So the last message
//! is held until the turn is over. Some callers tell the model to write a marker before its last message; then that
//! one is the answer, and the marker is never a part of the text.

use std::borrow::Cow;

use sabir_core::dialect::Held;

/// What callers tell the model to write before (or after) its last message.
pub(super) const MARKER: &str = "___LAST_MESSAGE_MARKER___";

/// The message that is the answer if nothing follows.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: Held,
    marked: bool,
    /// Tools ran after the message: it announced them and was not the last word.
    overtaken: bool,
}

impl Answer {
    /// Takes note of a whole message and gives it back without the marker.
    pub(super) fn message<'a>(&mut self, message: Cow<'a, str>) -> Cow<'a, str> {
        let Some((shown, answer)) = unmarked(&message) else {
            self.set(&message, false);
            return message;
        };
        self.set(&answer, true);
        Cow::Owned(shown)
    }

    /// Takes note of a text that is known to hold no marker, or to stand behind one.
    pub(super) fn set(&mut self, text: &str, marked: bool) {
        if marked || !self.marked {
            self.text.set(text);
            self.marked |= marked;
            self.overtaken = false;
        }
    }

    /// The marker came behind the message.
    pub(super) fn mark(&mut self) {
        self.marked = true;
        self.overtaken = false;
    }

    /// A tool runs.
    pub(super) fn overtake(&mut self) {
        self.overtaken = !self.marked;
    }

    /// A new turn begins: it will have an answer of its own.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a message was the last thing that happened.
    pub(super) fn stands(&self) -> bool {
        !self.overtaken && !self.text.is_blank()
    }

    /// The answer, if there is one.
    pub(super) fn as_str(&self) -> Option<&str> {
        (!self.text.is_blank()).then(|| self.text.as_str())
    }
}

/// The message without its markers, and the answer in it: what stands behind the last marker or, when that is nothing,
/// before it. `None` when there is no marker.
pub(super) fn unmarked(message: &str) -> Option<(String, String)> {
    let mut shown = String::new();
    let mut behind = None;
    let mut rest = message;
    while let Some((before, after)) = split_at_marker(rest) {
        shown.push_str(before);
        behind = Some(shown.len());
        rest = after;
    }
    let behind = behind?;
    shown.push_str(rest);
    let answer = shown.get(behind..).filter(|text| !text.trim().is_empty()).unwrap_or(&shown).trim().to_owned();
    Some((shown, answer))
}

/// The text before and behind the first marker. The white space between the marker and what follows goes with it.
pub(super) fn split_at_marker(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(MARKER)?;
        let before = text.get(..at)?;
        let after = text.get(at + MARKER.len()..)?;
        // In quotes it is spoken of, not used.
        if !before.ends_with(['`', '"', '\'']) {
            return Some((before, after.trim_start()));
        }
        from = at + MARKER.len();
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, unmarked};

    fn both(message: &str) -> Option<(String, String)> {
        unmarked(message)
    }

    #[test]
    fn the_answer_stands_behind_the_marker_or_before_it() {
        assert_eq!(both("___LAST_MESSAGE_MARKER___Done."), Some(("Done.".into(), "Done.".into())));
        assert_eq!(both("Looking.\n\n___LAST_MESSAGE_MARKER___\nDone."), Some(("Looking.\n\nDone.".into(), "Done.".into())));
        assert_eq!(both("Done.\n___LAST_MESSAGE_MARKER___\n"), Some(("Done.\n".into(), "Done.".into())));
        assert_eq!(both("Done."), None);
    }

    #[test]
    fn a_marker_in_quotes_is_text() {
        assert_eq!(both("The prompt has `___LAST_MESSAGE_MARKER___` in it."), None);
    }

    #[test]
    fn a_marked_message_stays_the_answer() {
        let mut answer = Answer::default();
        assert_eq!(answer.message("___LAST_MESSAGE_MARKER___ All done".into()), "All done");
        assert_eq!(answer.message("Bye.".into()), "Bye.");
        assert_eq!(answer.as_str(), Some("All done"));
    }

    #[test]
    fn a_message_before_a_tool_does_not_stand() {
        let mut answer = Answer::default();
        answer.message("I will look.".into());
        assert!(answer.stands());
        answer.overtake();
        assert!(!answer.stands());
    }
}
