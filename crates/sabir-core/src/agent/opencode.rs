//! OpenCode.

use super::{Accounting, Agent, AgentId, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("opencode"),
    aliases: &[],
    title: "OpenCode",
    dialects: &[text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
};
