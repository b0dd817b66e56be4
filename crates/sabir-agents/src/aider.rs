//! Aider, which prints text for people and nothing else.

mod command;
mod edits;
mod lines;
mod transcript;

use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("aider", "Aider")
        .aliases(["aider-chat"])
        .dialect(transcript())
        .dialect(text::dialect())
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
}

fn transcript() -> DialectSpec {
    DialectSpec::text(
        "transcript",
        "text for people: answers, edits, commits, costs, errors",
        |line| Confidence::certain_if(lines::version(line).is_some()),
        transcript::Transcript::default,
    )
}
