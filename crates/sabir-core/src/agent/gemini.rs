//! Gemini CLI: `--output-format stream-json`, `--output-format json`, and plain text.

mod command;
mod ending;
mod object;
mod stream;
mod tokens;

use super::printed::PrintedObject;
use super::text::PlainText;
use super::{Accounting, Agent, AgentId, DialectEntry, text};
use crate::dialect::{Dialect, End, Facts, Verdict};
use crate::line::Line;

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("gemini"),
    aliases: &["gemini-cli"],
    title: "Gemini CLI",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON event per line: init, message, tool_use, tool_result, result",
            detect: stream::detect,
            reader: || Box::new(stream::Stream::default()),
        },
        DialectEntry {
            name: "json",
            about: "one JSON object, printed over many lines at the end",
            detect: object::detect,
            reader: || Box::new(PrintedObject::<object::Object>::default()),
        },
        DialectEntry { reader: || Box::new(Text::default()), ..text::DIALECT },
    ],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: true },
    launch: command::LAUNCH,
};

/// Plain text whose exit code says more than that it failed.
#[derive(Default)]
struct Text(PlainText);

impl Dialect for Text {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        self.0.line(line, facts);
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = self.0.end(end, facts);
        ending::with_exit_code(verdict, end)
    }
}
