//! Bob.

use super::{Accounting, Agent, AgentId, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("bob"),
    aliases: &[],
    title: "Bob",
    dialects: &[text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
};
