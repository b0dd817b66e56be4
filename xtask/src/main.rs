//! The chores of this repository. `cargo xtask --help` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bench;
mod deny;
mod docs;
mod fuzz;
mod lab;
mod page;
mod price;
mod process;
mod schema;
mod screenshots;
mod shapes;
mod targets;
mod test;
mod tidy;
mod typescript;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks everything: format, generated files, clippy, tests, documentation
    Test(test::Arguments),
    /// Checks the layering rules: which crate, module and file may use what
    Tidy(tidy::Arguments),
    CheckTargets(targets::Arguments),
    /// Checks the licences and sources of the dependencies
    Deny(deny::Arguments),
    /// Writes the JSON Schema and the TypeScript types of what Sabir prints to docs/schema
    Schema(schema::Arguments),
    /// Bundles the page that the hub serves, from TypeScript
    Page(page::Arguments),
    Screenshots(screenshots::Arguments),
    /// Writes the tables in the documents that come from the code
    Docs(docs::Arguments),
    /// Measures speed, memory and latency
    Bench(bench::Arguments),
    /// Feeds random and damaged streams to the decoder
    Fuzz(fuzz::Arguments),
    /// Takes the price table from the newest `litellm` wheel on PyPI
    Price(price::Arguments),
    /// Adds what recordings look like to the list that `sabir drift` compares with
    Shapes(shapes::Arguments),
    /// Runs real agent CLIs against a scripted model
    Lab(lab::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Tidy(arguments) => tidy::run(&arguments),
        Chore::CheckTargets(arguments) => targets::run(&arguments),
        Chore::Deny(arguments) => deny::run(&arguments),
        Chore::Schema(arguments) => schema::run(&arguments),
        Chore::Page(arguments) => page::run(&arguments),
        Chore::Screenshots(arguments) => screenshots::run(&arguments),
        Chore::Docs(arguments) => docs::run(&arguments),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Price(arguments) => price::run(&arguments),
        Chore::Shapes(arguments) => shapes::run(&arguments),
        Chore::Lab(arguments) => lab::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
