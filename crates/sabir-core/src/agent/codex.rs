//! Codex: `codex exec`, from its first JSON to today's.
//!
//! | version | `--json` | `--experimental-json` | standard output without either |
//! |---|---|---|---|
//! | to 0.41 | legacy | | transcript with times |
//! | 0.42 | legacy | thread, with other names and no turns | transcript with times |
//! | 0.44 | thread | thread | transcript without times |
//! | from 0.47 | thread | thread | the answer alone; the transcript goes to standard error |
//!
//! `history` is the log that it keeps in `sessions/`, of all of them.

mod answer;
mod command;
mod counter;
mod history;
mod legacy;
mod report;
mod shell;
mod thread;
mod transcript;
mod trouble;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("codex"),
    aliases: &["codex-cli"],
    title: "Codex",
    dialects: &[
        DialectEntry {
            name: "thread",
            about: "exec --json since 0.44 and --experimental-json of 0.42: threads, turns and items",
            form: Form::Json,
            detect: thread::detect,
            reader: || Box::new(thread::Thread::default()),
        },
        DialectEntry {
            name: "legacy",
            about: "exec --json up to 0.42: numbered messages of the core protocol",
            form: Form::Json,
            detect: legacy::detect,
            reader: || Box::new(legacy::Legacy::default()),
        },
        DialectEntry {
            name: "transcript",
            about: "text with sections for people: messages, commands, patches",
            form: Form::Text,
            detect: transcript::detect,
            reader: || Box::new(transcript::Transcript::default()),
        },
        history::DIALECT,
        text::DIALECT,
    ],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: Some(history::HISTORY),
    shapes: include_str!("codex/shapes.txt"),
};
