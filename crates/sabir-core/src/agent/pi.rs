//! Pi.

use super::{Accounting, Agent, AgentId, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("pi"),
    aliases: &[],
    title: "Pi",
    dialects: &[text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
};
