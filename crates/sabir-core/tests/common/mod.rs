//! Shared by the two test binaries: `fixtures`, one test per fixture, and `it`, everything else.
// Neither binary uses all of it.
#![allow(dead_code)]

pub(crate) mod fixture;
pub(crate) mod invariants;
pub(crate) mod layout;
pub(crate) mod writers;
