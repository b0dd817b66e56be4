//! `cargo xtask lab`: real CLIs against a scripted model. The lab is a crate of its own, so that the other chores need not build it.

use std::process::Command;

use anyhow::Result;

use crate::process::{self, cargo, program};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the lab shall do: `run`, `install`, `list`; `--help` after it says more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runs = arguments.arguments.first().is_some_and(|chore| chore == "run");
    let named = arguments.arguments.iter().any(|argument| argument == "--sabir" || argument.starts_with("--sabir="));
    let words: Vec<&str> = arguments.arguments.iter().map(String::as_str).collect();
    // Both at once: cargo builds what they share anew for each set of packages that it is asked for.
    process::run(&mut cargo(&["build", "--quiet", "--package", "sabir", "--package", "sabir-lab", "--bins"]))?;
    process::run(&mut lab(&words, runs && !named))
}

/// The handful of cells that every change must pass.
pub(crate) fn quick() -> Result<()> {
    process::build_as_for_tests()?;
    process::run(&mut lab(&["run", "--quick"], true))
}

/// The lab as it was built last with these words, and with the `sabir` of this repository where it needs one.
fn lab(words: &[&str], with_sabir: bool) -> Command {
    let mut command = Command::new(program("sabir-lab"));
    command.args(words).current_dir(crate::root());
    if with_sabir {
        command.arg("--sabir").arg(program("sabir"));
    }
    command
}
