//! Droid (`droid exec`).
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `-o stream-json`; `-o json` prints a result object alone |
//! | history | the log that it keeps in `sessions/` |
//! | text | `-o text` |

mod command;
mod ending;
mod history;
mod stream;
mod tools;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("droid"),
    aliases: &["factory"],
    title: "Droid",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON event per line; of `json` the result only",
            form: Form::Json,
            detect: stream::detect,
            reader: || Box::new(stream::Stream::default()),
        },
        history::DIALECT,
        text::DIALECT,
    ],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: Some(history::HISTORY),
    shapes: include_str!("droid/shapes.txt"),
};
