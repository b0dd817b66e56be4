//! Bob: the stream of 1.x (a fork of Gemini CLI's) and of 2.x, the `json` result of both, and plain text.

mod command;
mod narration;
mod object;
mod stream;
mod text;
mod usage;

use super::printed::PrintedObject;
use super::{Accounting, Agent, AgentId, DialectEntry, Form};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("bob"),
    aliases: &["bob-shell"],
    title: "Bob",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON event per line, 1.x and 2.x; of `--format json` the last one only",
            form: Form::Json,
            detect: stream::detect,
            reader: || Box::new(stream::Stream::default()),
        },
        DialectEntry {
            name: "json",
            about: "one JSON object, printed over many lines at the end (1.x)",
            form: Form::Json,
            detect: object::detect,
            reader: || Box::new(PrintedObject::<object::Object>::default()),
        },
        DialectEntry { reader: || Box::new(text::Text::default()), ..super::text::DIALECT },
    ],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: None,
    shapes: "",
};

/// The tool whose argument is the answer.
const COMPLETION: &str = "attempt_completion";
