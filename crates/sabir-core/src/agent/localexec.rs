//! Any command as an agent: its standard output is the answer, its exit code the verdict.

use super::{Accounting, Agent, AgentId, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("localexec"),
    aliases: &["local", "text"],
    title: "Any command",
    dialects: &[text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
};
