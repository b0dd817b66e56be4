//! Gemini CLI.
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `--output-format stream-json` |
//! | json | `--output-format json` |
//! | history | the log that it keeps in `chats/` |
//! | text | `--output-format text` |

mod command;
mod ending;
mod history;
mod object;
mod stream;
mod tokens;

use super::printed::PrintedObject;
use super::{Accounting, Agent, AgentId, DialectEntry, Form, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("gemini"),
    aliases: &["gemini-cli"],
    title: "Gemini CLI",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON event per line: init, message, tool_use, tool_result, result",
            form: Form::Json,
            detect: stream::detect,
            reader: || Box::new(stream::Stream::default()),
        },
        DialectEntry {
            name: "json",
            about: "one JSON object, printed over many lines at the end",
            form: Form::Json,
            detect: object::detect,
            reader: || Box::new(PrintedObject::<object::Object>::default()),
        },
        history::DIALECT,
        DialectEntry { reader: || Box::new(text::WithEnding::new(ending::with_exit_code)), ..text::DIALECT },
    ],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: true },
    launch: command::LAUNCH,
    history: Some(history::HISTORY),
    shapes: include_str!("gemini/shapes.txt"),
};
