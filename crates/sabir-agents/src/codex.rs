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

use sabir_core::agent::{Accounting, Agent, DialectSpec};
use sabir_core::dialect::text;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("codex", "Codex")
        .aliases(["codex-cli"])
        .dialect(DialectSpec::json(
            "thread",
            "exec --json since 0.44 and --experimental-json of 0.42: threads, turns and items",
            thread::detect,
            thread::Thread::default,
        ))
        .dialect(DialectSpec::json(
            "legacy",
            "exec --json up to 0.42: numbered messages of the core protocol",
            legacy::detect,
            legacy::Legacy::default,
        ))
        .dialect(DialectSpec::text(
            "transcript",
            "text with sections for people: messages, commands, patches",
            transcript::detect,
            transcript::Transcript::default,
        ))
        .log(history::log())
        .dialect(text::dialect())
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
        .shapes(include_str!("codex/shapes.txt"))
}
