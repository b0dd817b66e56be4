//! Bob: the stream of 1.x (a fork of Gemini CLI's) and of 2.x, the `json` result of both, and plain text.

mod command;
mod narration;
mod object;
mod stream;
mod text;
mod usage;

use crate::family::multiline_json::MultilineJson;
use sabir_core::agent::{Accounting, Agent, DialectSpec};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("bob", "Bob")
        .aliases(["bob-shell"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON event per line, 1.x and 2.x; of `--format json` the last one only",
            stream::detect,
            stream::Stream::default,
        ))
        .dialect(DialectSpec::json(
            "json",
            "one JSON object, printed over many lines at the end (1.x)",
            object::detect,
            MultilineJson::<object::Object>::default,
        ))
        .dialect(sabir_core::dialect::text::dialect_of(text::Text::default))
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
}

/// The tool whose argument is the answer.
const COMPLETION: &str = "attempt_completion";
