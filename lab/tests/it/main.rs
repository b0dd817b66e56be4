//! Tests of the lab.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod anthropic;
mod chat;
mod check;
mod client;
mod gemini;
mod pace;
mod recipes;
mod record;
mod responses;
