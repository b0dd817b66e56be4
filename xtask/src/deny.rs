//! `cargo xtask deny`: licences, duplicates and sources of the dependencies, by cargo-deny.

use anyhow::Result;

use crate::process::{self, cargo};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Check for known vulnerabilities too; needs the network
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    process::need_cargo_subcommand("deny")?;
    let mut checks = vec!["deny", "--all-features", "check", "licenses", "bans", "sources"];
    if arguments.advisories {
        checks.push("advisories");
    }
    process::run(&mut cargo(&checks))
}
