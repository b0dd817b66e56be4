//! Goose.
//!
//! All its modes print a banner of three lines first, which alone says session, model and whether the session is an old
//! one. `stream-json` prints messages as they grow, `json` all of them at the end; the messages are the same.

mod banner;
mod command;
mod conversation;
mod object;
mod stream;
mod text;
mod tools;
mod wire;

use crate::family::multiline_json::MultilineJson;
use sabir_core::agent::{Accounting, Agent, DialectSpec};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("goose", "Goose")
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON event per line: message, notification, error, complete",
            stream::detect,
            stream::Stream::default,
        ))
        .dialect(DialectSpec::json(
            "json",
            "one JSON object, printed over many lines at the end",
            object::detect,
            MultilineJson::<object::Object>::default,
        ))
        .dialect(DialectSpec::text(
            "text",
            "text for people; the answer is what follows the last tool call, whose output nothing divides from it",
            text::detect,
            text::Text::default,
        ))
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
        .shapes(include_str!("goose/shapes.txt"))
}
