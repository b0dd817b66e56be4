//! `cargo xtask bench`: how fast, how large, how soon. Figures, not assertions: what counts are ratios within one run.

mod latency;
mod loops;
mod measure;
mod parse;
mod run;
mod stream;

use anyhow::Result;
use clap::Subcommand;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// `sabir parse --to events` against reading lines, typed parsing, `serde_json::Value` and jq
    Parse(parse::Arguments),
    /// Many agents at once in one process: lines lost, memory, CPU and wake-ups
    Run(run::Arguments),
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

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.what {
        What::Parse(arguments) => parse::run(arguments),
        What::Run(arguments) => run::run(arguments),
        What::Lines(arguments) => run::lines(arguments),
        What::Bare(arguments) => run::bare(arguments),
        What::Loop(arguments) => loops::run(arguments),
        What::Measure(arguments) => measure::run(arguments),
    }
}
