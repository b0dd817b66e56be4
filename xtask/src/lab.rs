//! `cargo xtask lab`: real CLIs against a scripted model. The lab is a crate of its own, so that the other chores need not build it.

use anyhow::Result;

use crate::process::{self, cargo};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the lab shall do: `install`, `list`; `--help` after it says more
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    process::run(cargo(&["run", "--quiet", "--package", "sabir-lab", "--"]).args(&arguments.arguments))
}
