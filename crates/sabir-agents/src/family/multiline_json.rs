//! One JSON object with the whole result, which CLIs print at the end, indented over many lines. The decoder joins its lines.

use sabir_core::dialect::{Dialect, End, Facts, Verdict};
use sabir_core::event::Activity;
use sabir_core::json;
use sabir_core::line::Line;

/// Reads the object of one agent.
pub(crate) trait ObjectReader: Send {
    /// Reads one object.
    fn object(&mut self, text: &str, facts: &mut Facts<'_>);
    /// Reads a line of plain text.
    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if !line.text.trim().is_empty() {
            facts.push(Activity::new(line.text.clone()));
        }
    }
    /// See [`Dialect::end`].
    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict;
}

/// A dialect of one JSON object and lines of plain text around it.
#[derive(Debug, Default)]
pub(crate) struct MultilineJson<R> {
    reader: R,
}

impl<R: ObjectReader> Dialect for MultilineJson<R> {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let is_object = line.text.trim_ascii_start().starts_with('{');
        if is_object && json::parse::<serde::de::IgnoredAny>(&line.text).is_some() {
            self.reader.object(&line.text, facts);
        } else if is_object && !line.terminated {
            facts.push(json::broken_off(&line.text));
        } else {
            self.reader.other(line, facts);
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        self.reader.end(end, facts)
    }
}
