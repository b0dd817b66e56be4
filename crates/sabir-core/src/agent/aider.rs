//! Aider, which prints text for people and nothing else.

mod command;
mod edits;
mod lines;
mod transcript;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, Match, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("aider"),
    aliases: &["aider-chat"],
    title: "Aider",
    dialects: &[TRANSCRIPT, text::DIALECT],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: None,
    shapes: "",
};

const TRANSCRIPT: DialectEntry = DialectEntry {
    name: "transcript",
    about: "text for people: answers, edits, commits, costs, errors",
    form: Form::Text,
    detect: |line| Match::yes_if(lines::version(line).is_some()),
    reader: || Box::new(transcript::Transcript::default()),
};
