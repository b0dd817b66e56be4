//! One test binary: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
#[path = "../common/mod.rs"]
mod common;
mod detection;
mod launch;
mod laws;
mod logs;
mod records;
mod run;
mod seeds;
mod views;

use common::agent;
