//! `cargo xtask lab`: real CLIs against a scripted model. The lab is a crate of its own, so that the other chores need not build it.

use std::process::Command;

use anyhow::Result;

use crate::process::{self, cargo};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the lab shall do: `run`, `install`, `list`; `--help` after it says more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = lab();
    command.args(&arguments.arguments);
    let runs = arguments.arguments.first().is_some_and(|chore| chore == "run");
    if runs && !arguments.arguments.iter().any(|argument| argument == "--sabir" || argument.starts_with("--sabir=")) {
        with_sabir(&mut command)?;
    }
    process::run(&mut command)
}

/// The handful of cells that every change must pass.
pub(crate) fn quick() -> Result<()> {
    let mut command = lab();
    command.args(["run", "--quick"]);
    with_sabir(&mut command)?;
    process::run(&mut command)
}

fn lab() -> Command {
    cargo(&["run", "--quiet", "--package", "sabir-lab", "--"])
}

/// Builds the program that the lab looks at, and names it.
fn with_sabir(command: &mut Command) -> Result<()> {
    process::run(&mut cargo(&["build", "--quiet", "--package", "sabir"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), |folder| crate::root().join(folder));
    command.arg("--sabir").arg(target.join("debug").join(format!("sabir{}", std::env::consts::EXE_SUFFIX)));
    Ok(())
}
