//! The program without a terminal: messages in, screens and effects out; and what feeds it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hub;
mod keys;
mod local;
mod sample;
mod screens;
mod update;
