//! Output formats that several agents print: forks print what their origin does, and CLIs copy each other.
//!
//! An agent uses families and never another agent, and a family knows no agent.

pub(crate) mod anthropic;
pub(crate) mod multiline_json;
pub(crate) mod opencode;
