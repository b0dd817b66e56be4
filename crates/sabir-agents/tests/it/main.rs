//! One test binary: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The core is pure, its tests read files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod detection;
mod fixtures;
mod launch;
mod laws;
mod ledgers;
mod records;
mod run;
mod seeds;
mod views;

/// The built-in agent of that name.
fn agent(name: &str) -> std::sync::Arc<sabir_core::agent::Agent> {
    std::sync::Arc::clone(sabir_agents::builtin().find(name).expect("a known agent"))
}
