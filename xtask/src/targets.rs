//! `cargo xtask check-targets`: type checks the workspace for systems and a Rust version that the tests do not run on.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{self, cargo};

const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Type checks the product for Windows, for macOS, and with the oldest supported Rust
///
/// Needs rustup, which installs what is missing: the standard library for each target, and the toolchain that `rust-version` in
/// Cargo.toml names. Nothing is linked, so no C compiler for these systems is needed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Check only what contains this: a target, or `msrv`
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let is_chosen = |name: &str| arguments.only.as_deref().is_none_or(|part| name.contains(part));
    for target in TARGETS.into_iter().filter(|target| is_chosen(target)) {
        println!("── {target}");
        rustup(&["target", "add", target])?;
        // A function that does nothing on one system keeps the signature that it has elsewhere, which pedantic lints object to.
        let lints = ["--", "-A", "clippy::pedantic", "-D", "warnings"];
        let mut clippy = cargo(&[&["clippy", "--quiet", "--target", target][..], &lints].concat());
        process::run(without_c(&mut clippy, target))?;
    }
    if is_chosen("msrv") {
        let oldest = oldest_rust()?;
        println!("── msrv: {oldest}");
        // Asked first, because an installation wants the network even where there is nothing to install.
        let is_there = Command::new("rustup").args(["run", &oldest, "rustc", "--version"]).output();
        if !is_there.is_ok_and(|output| output.status.success()) {
            rustup(&["toolchain", "install", &oldest, "--profile", "minimal", "--no-self-update"])?;
        }
        let mut check = Command::new("rustup");
        check.args(["run", &oldest, "cargo", "check", "--quiet"]).current_dir(crate::root());
        // They name the toolchain that runs this program.
        for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            check.env_remove(variable);
        }
        process::run(&mut check)?;
    }
    Ok(())
}

fn rustup(arguments: &[&str]) -> Result<()> {
    process::run(Command::new("rustup").args(arguments).current_dir(crate::root()))
}

/// Has build scripts compile no C: a check needs no object file, and there is hardly ever a compiler for another system.
fn without_c<'c>(command: &'c mut Command, target: &str) -> &'c mut Command {
    let target = target.replace('-', "_");
    command.env(format!("CC_{target}"), "true").env(format!("AR_{target}"), "true").env("SDKROOT", "/")
}

/// `rust-version` of the workspace.
fn oldest_rust() -> Result<String> {
    let manifest = std::fs::read_to_string(crate::root().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    line.map(|version| version.trim_matches('"').to_owned()).context("Cargo.toml has no rust-version")
}
