//! Shared by the two test binaries: `fixtures`, one test per fixture, and `it`, everything else.
// Neither binary uses all of it.
#![allow(dead_code)]

pub(crate) mod fixture;
pub(crate) mod invariants;
pub(crate) mod layout;
pub(crate) mod writers;

/// The built-in agent of that name.
pub(crate) fn agent(name: &str) -> std::sync::Arc<sabir_core::agent::Agent> {
    std::sync::Arc::clone(sabir_agents::builtin().find(name).expect("a known agent"))
}
