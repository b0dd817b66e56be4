//! Running other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A cargo command in the folder of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(crate::root());
    command
}

/// Builds all programs of this workspace with what the tests need: after the tests there is nothing left to build.
pub(crate) fn build_as_for_tests() -> Result<()> {
    run(&mut cargo(&["test", "--quiet", "--workspace", "--no-run"]))
}

/// A program of this workspace, as it was built last.
pub(crate) fn program(name: &str) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), |folder| crate::root().join(folder));
    target.join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Runs a command to its end; an error names it when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Whether a cargo subcommand is installed.
pub(crate) fn has_cargo_subcommand(name: &str) -> bool {
    let mut command = cargo(&[name, "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs a cargo subcommand unless it is there.
pub(crate) fn need_cargo_subcommand(name: &str) -> Result<()> {
    if has_cargo_subcommand(name) {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    eprintln!("{package} is not installed: installing it with cargo install");
    run(&mut cargo(&["install", &package, "--locked"]))
}

/// Leaves a check out because something is missing, where that is [allowed](sabir_test_support::skip).
pub(crate) fn skip(missing: &str, hint: &str) -> Result<()> {
    sabir_test_support::skip(missing, hint).map_err(anyhow::Error::msg)
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let mut text = format!("`{program}");
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text.push('`');
    text
}
