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

use super::printed::PrintedObject;
use super::{Accounting, Agent, AgentId, DialectEntry, Form};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("goose"),
    aliases: &[],
    title: "Goose",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON event per line: message, notification, error, complete",
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
        DialectEntry {
            name: "text",
            about: "text for people; the answer is what follows the last tool call, whose output nothing divides from it",
            form: Form::Text,
            detect: text::detect,
            reader: || Box::new(text::Text::default()),
        },
    ],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: None,
    shapes: include_str!("goose/shapes.txt"),
};
