//! Cursor's CLI (`cursor-agent`, later `agent`): `--output-format stream-json` with and without partial output, `json`,
//! and plain text.

mod call;
mod command;
mod stream;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("cursor"),
    aliases: &["cursor-agent"],
    title: "Cursor",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON event per line, with or without partial output; of `json` the result only",
            form: Form::Json,
            detect: stream::detect,
            reader: || Box::new(stream::Stream::default()),
        },
        text::DIALECT,
    ],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: None,
    shapes: "",
};
