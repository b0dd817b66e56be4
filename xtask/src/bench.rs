//! `cargo xtask bench`: how fast, how large, how soon. Figures, not assertions: what counts are ratios within one run.

mod corpus;
mod hub;
mod journal;
mod latency;
mod loops;
mod measure;
mod page;
mod parse;
mod peers;
mod run;
mod sessions;
mod stream;
mod usage;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use crate::process::{self, cargo};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// `sabir parse --to events` against reading lines, typed parsing, `serde_json::Value` and jq
    Parse(parse::Arguments),
    /// `sabir usage` and its peers over a history whose truth is known
    Usage(usage::Arguments),
    /// Many agents at once in one process: lines lost, memory, CPU and wake-ups
    Run(run::Arguments),
    /// Appending to the journal against loops that only write
    Journal(journal::Arguments),
    /// A hub with one shell, with many, and with people who watch
    Hub(hub::Arguments),
    /// The page in a real browser: how soon it shows something, how smoothly it scrolls
    Page(page::Arguments),
    /// Many shells and watchers, in this process
    #[command(hide = true)]
    HubLoad(hub::LoadArguments),
    /// One of the ways to append, in this process
    #[command(hide = true)]
    Append(journal::AppendArguments),
    /// An agent that prints at a steady pace
    #[command(hide = true)]
    Lines(run::LinesArguments),
    /// Watches agents and reads nothing of what they say
    #[command(hide = true)]
    Bare(run::BareArguments),
    /// One of the loops that are compared, in this process
    #[command(hide = true)]
    Loop(loops::Arguments),
    /// Runs a command and prints what it used
    #[command(hide = true)]
    Measure(measure::Arguments),
}

/// Builds what is measured, and what measures it. All benches do it in the same way, so that it is done once.
fn build() -> Result<()> {
    eprintln!("building for release");
    // Together, so that what both are made of is built once: with the features that both want.
    process::run(&mut cargo(&["build", "--release", "--quiet", "--package", "sabir", "--package", "xtask"]))
}

/// A program that was built.
fn built(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from);
    target.join("release").join(name)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.what {
        What::Parse(arguments) => parse::run(arguments),
        What::Usage(arguments) => usage::run(arguments),
        What::Run(arguments) => run::run(arguments),
        What::Journal(arguments) => journal::run(arguments),
        What::Hub(arguments) => hub::run(arguments),
        What::Page(arguments) => page::run(arguments),
        What::HubLoad(arguments) => hub::load(arguments),
        What::Append(arguments) => journal::append(arguments),
        What::Lines(arguments) => run::lines(arguments),
        What::Bare(arguments) => run::bare(arguments),
        What::Loop(arguments) => loops::run(arguments),
        What::Measure(arguments) => measure::run(arguments),
    }
}
