//! The agents: one file (or folder) each, and one table of all.
//!
//! An agent is described, never run, here: what it is called, which dialects it speaks, what it can do. The command
//! line's list, detection and the docs' tables all come from [`ALL`].

pub mod aider;
pub mod bob;
pub mod claude_code;
pub mod cline;
pub mod codex;
pub mod copilot;
pub mod cursor;
pub mod droid;
pub mod gemini;
pub mod goose;
pub mod kilo;
pub mod localexec;
pub mod openai;
pub mod opencode;
mod parts;
pub mod pi;
mod printed;
pub mod qwen;
pub mod text;

use std::fmt;

use crate::dialect::Dialect;
use crate::history::History;
use crate::launch::Launch;

/// Names an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(pub &'static str);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// One agent, as data.
#[derive(Debug, Clone, Copy)]
pub struct Agent {
    /// What users type and events carry.
    pub id: AgentId,
    /// Other names that users type.
    pub aliases: &'static [&'static str],
    /// Its name for people.
    pub title: &'static str,
    /// The formats it prints, the most telling first and plain text last.
    pub dialects: &'static [DialectEntry],
    /// How it counts tokens itself.
    pub accounting: Accounting,
    /// How it is found and started.
    pub launch: Launch,
    /// The log that it keeps of its sessions, where we read it.
    pub history: Option<History>,
    /// What its lines look like, for [drift](crate::drift); empty where that is not known.
    pub shapes: &'static str,
}

/// One format, and how to tell it from others.
#[derive(Debug, Clone, Copy)]
pub struct DialectEntry {
    /// Its name, unique in its agent.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What its output consists of.
    pub form: Form,
    /// Confidence that a stream with this line is in this dialect.
    pub detect: fn(&str) -> Match,
    /// A new reader of it.
    pub reader: fn() -> Box<dyn Dialect>,
}

/// What the output of a dialect consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON values: one per line, printed over several lines, or as elements of one array.
    Json,
    /// Lines of text, which are read as they come.
    Text,
}

/// Confidence in a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// Not this one.
    No,
    /// It may be, unless another one is sure.
    Maybe,
    /// No other dialect here prints this, but CLIs that imitate the agent do: enough to decide, as a guess.
    Likely,
    /// No other dialect prints this.
    Yes,
}

impl Match {
    /// `Yes` or `No`.
    pub fn yes_if(sure: bool) -> Self {
        if sure { Self::Yes } else { Self::No }
    }
}

/// What an agent's own figures include, so that they can be shown as it shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Its input figure contains the cached tokens.
    pub input_includes_cache: bool,
    /// Its output figure leaves reasoning out.
    pub output_excludes_reasoning: bool,
}

/// Every agent. The order is that of the lists that people see.
pub const ALL: &[Agent] = &[
    claude_code::AGENT,
    codex::AGENT,
    gemini::AGENT,
    cursor::AGENT,
    opencode::AGENT,
    kilo::AGENT,
    pi::AGENT,
    qwen::AGENT,
    droid::AGENT,
    copilot::AGENT,
    cline::AGENT,
    goose::AGENT,
    aider::AGENT,
    bob::AGENT,
    openai::AGENT,
    localexec::AGENT,
];

/// The agent of that id or alias.
pub fn find(name: &str) -> Option<&'static Agent> {
    ALL.iter().find(|agent| agent.id.0 == name || agent.aliases.contains(&name))
}
