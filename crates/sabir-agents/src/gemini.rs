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

use crate::family::multiline_json::MultilineJson;
use sabir_core::agent::{Accounting, Agent, DialectSpec};
use sabir_core::dialect::text;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("gemini", "Gemini CLI")
        .aliases(["gemini-cli"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON event per line: init, message, tool_use, tool_result, result",
            stream::detect,
            stream::Stream::default,
        ))
        .dialect(DialectSpec::json(
            "json",
            "one JSON object, printed over many lines at the end",
            object::detect,
            MultilineJson::<object::Object>::default,
        ))
        .log(history::log())
        .dialect(text::dialect_of(|| text::WithEnding::new(ending::with_exit_code)))
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: true })
        .launch(command::launch())
        .shapes(include_str!("gemini/shapes.txt"))
}
