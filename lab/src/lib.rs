//! The lab: a scripted model server on the loopback interface, and the recipes that point real agent CLIs at it.
//!
//! A [`scenario`] says what the model does in words that no CLI owns ("run this command", "write this file"). The
//! [recipe](cli::Recipe) of a CLI turns it into a [`script`] of tool names and arguments that this CLI knows, and into the files and
//! the environment that make the CLI talk to the [server](server::Server). The server keeps the [`truth`]: what it really served.
//! Whatever is read from the CLI's output can be compared with that.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod anthropic;
mod chat;
pub mod check;
pub mod cli;
mod gemini;
pub mod install;
pub mod isolation;
pub mod left;
pub mod news;
pub mod place;
pub mod record;
pub mod report;
mod responses;
pub mod scenario;
pub mod script;
pub mod server;
mod sse;
pub mod trial;
pub mod truth;
