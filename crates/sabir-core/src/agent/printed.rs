//! One JSON object printed over many lines: how CLIs print their only result when they indent it.

use crate::dialect::{Dialect, End, Facts, Verdict};
use crate::event::EventKind;
use crate::json;
use crate::line::Line;

/// Gathers the lines of such an object.
#[derive(Debug, Default)]
pub(super) struct Printed {
    text: String,
}

/// What a line turned out to be.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// The object is not whole yet.
    Part,
    /// The line made it whole; this is its text.
    Whole(String),
    /// The line is not of an object.
    Outside,
    /// More than is kept of one object.
    TooLong,
}

impl Printed {
    /// How much of one object is kept.
    const LIMIT: usize = 64 * 1024 * 1024;

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str) -> Piece {
        let opens = self.text.is_empty();
        if opens && !line.trim_start().starts_with('{') {
            return Piece::Outside;
        }
        if self.text.len().saturating_add(line.len()) > Self::LIMIT {
            return Piece::TooLong;
        }
        if !opens {
            self.text.push('\n');
        }
        self.text.push_str(line);
        // The last brace of an indented object is not indented; looking only then keeps the work linear.
        let closes = if opens { line.trim_end().ends_with('}') } else { line.starts_with('}') };
        if closes && serde_json::from_str::<serde::de::IgnoredAny>(&self.text).is_ok() {
            return Piece::Whole(std::mem::take(&mut self.text));
        }
        Piece::Part
    }

    /// What is left of an object that never became whole.
    pub(super) fn rest(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.text)).filter(|text| !text.is_empty())
    }
}

/// Reads such objects, once they are whole.
pub(super) trait ReadObject: Send {
    /// Reads one object.
    fn object(&mut self, text: &str, facts: &mut Facts<'_>);
    /// See [`Dialect::end`].
    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict;
}

/// A dialect that is one printed object, and lines for people around it.
#[derive(Debug, Default)]
pub(super) struct PrintedObject<R> {
    printed: Printed,
    reader: R,
}

impl<R: ReadObject> Dialect for PrintedObject<R> {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        match self.printed.line(&line.text) {
            Piece::Part => {}
            Piece::Whole(text) => self.reader.object(&text, facts),
            Piece::Outside if line.text.trim().is_empty() => {}
            Piece::Outside => facts.push(EventKind::Activity { message: line.text.clone() }),
            Piece::TooLong => facts.unrecognized(None, line),
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        if let Some(text) = self.printed.rest() {
            facts.push(json::broken_off(&text));
        }
        self.reader.end(end, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, Printed};

    #[test]
    fn an_object_is_whole_at_its_last_brace() {
        let mut printed = Printed::default();
        assert_eq!(printed.line("Loaded settings."), Piece::Outside);
        for line in ["{", "  \"a\": {", "    \"b\": \"}\"", "  }"] {
            assert_eq!(printed.line(line), Piece::Part, "{line}");
        }
        assert!(matches!(printed.line("}"), Piece::Whole(text) if text.lines().count() == 5));
        assert!(matches!(printed.line(r#"{"a":1}"#), Piece::Whole(_)));
        assert_eq!(printed.rest(), None);
    }

    #[test]
    fn what_is_cut_off_is_left() {
        let mut printed = Printed::default();
        assert_eq!(printed.line("{"), Piece::Part);
        assert_eq!(printed.line("  \"a\": \"cut"), Piece::Part);
        assert_eq!(printed.rest().as_deref(), Some("{\n  \"a\": \"cut"));
    }
}
