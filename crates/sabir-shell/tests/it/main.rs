//! Tests of the runner with damaged disks, misbehaving hubs, and secrets in many encodings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod delivery;
mod hub;
mod outbox;
mod redaction;
mod repair;
mod s3;
mod session;
mod sink;
