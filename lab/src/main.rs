//! The command of the lab, as `cargo xtask lab` calls it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use sabir_lab::cli::{self, Recipe};
use sabir_lab::install::{self, Installed};
use sabir_lab::scenario;

/// A scripted model server, and real agent CLIs that talk to it.
#[derive(Parser)]
#[command(name = "cargo xtask lab", bin_name = "cargo xtask lab", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Installs the CLIs at their pinned versions, by npm
    Install {
        /// The CLIs, such as `codex` or `codex@0.36.0`; all of them if none is named
        names: Vec<String>,
        /// Where to put them; the default is target/lab
        #[arg(long, value_name = "FOLDER", env = "SABIR_LAB_CACHE")]
        cache: Option<PathBuf>,
    },
    /// Runs the CLIs through `sabir run` and compares what it tells with what was served
    Run(run::Arguments),
    /// Lists the CLIs and the scenarios
    List,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Install { names, cache } => install(&names, cache),
        Chore::Run(arguments) => run::run(&arguments),
        Chore::List => {
            list();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn install(names: &[String], cache: Option<PathBuf>) -> Result<()> {
    let cache = cache.unwrap_or_else(install::cache);
    let mut failed = Vec::new();
    for recipe in chosen(names)? {
        let name = format!("{} {}", recipe.id, recipe.version);
        match install::install(&cache, recipe) {
            Ok(Installed::Before) => println!("{name}: is there"),
            Ok(Installed::Now) => println!("{name}: installed"),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("not installed: {}", failed.join(", "));
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Recipe>> {
    if names.is_empty() {
        return Ok(cli::ALL.iter().collect());
    }
    let mut recipes = Vec::new();
    for name in names {
        let found = cli::named(name);
        if found.is_empty() {
            bail!("there is no recipe for `{name}`; `cargo xtask lab list` shows them");
        }
        recipes.extend(found);
    }
    Ok(recipes)
}

fn list() {
    println!("CLIs:");
    for recipe in cli::ALL {
        println!("  {:<12} {:<8}  {}", recipe.id, recipe.version, recipe.package);
    }
    println!("\nScenarios:");
    for scenario in scenario::ALL {
        println!("  {:<21} {}", scenario.name, scenario.about);
    }
}
