//! The shell against disks that are pulled, hubs that misbehave, and secrets in all their forms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod delivery;
mod hub;
mod outbox;
mod redaction;
mod repair;
mod s3;
mod session;
mod sink;
