//! What a process used. The kernel adds up all children that a process has waited for and gives the largest of their
//! sizes, so each command is run by a process of its own that has no other child.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// What one process used.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    /// User and system time together.
    pub(super) cpu_seconds: f64,
    pub(super) wall_seconds: f64,
    /// The most memory that was resident at a time.
    pub(super) peak_bytes: u64,
}

/// The memory of a process that runs, in MB: now, and the most that it was.
pub(super) fn memory_of(process: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) * 1024.0 / 1e6
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Runs a command under a measuring process; its standard output goes nowhere.
pub(super) fn measured(xtask: &Path, command: &[OsString]) -> Result<Usage> {
    let output =
        Command::new(xtask).args(["bench", "measure"]).args(command).output().context("could not start the measuring")?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    printed(&output.stdout)
}

/// What a measuring process printed.
pub(super) fn printed(output: &[u8]) -> Result<Usage> {
    serde_json::from_slice(output).with_context(|| format!("the measuring printed {:?}", String::from_utf8_lossy(output)))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (program, rest) = arguments.command.split_first().context("a command is needed")?;
    let start = Instant::now();
    let status = Command::new(program).args(rest).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start {}", program.display()))?;
    let wall_seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{} failed ({status})", program.display());
    let (cpu_seconds, peak_bytes) = children()?;
    println!("{}", serde_json::to_string(&Usage { cpu_seconds, wall_seconds, peak_bytes })?);
    Ok(())
}

#[cfg(unix)]
fn children() -> Result<(f64, u64)> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    // Linux counts kilobytes, macOS bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    Ok((seconds(usage.user_time()) + seconds(usage.system_time()), u64::try_from(usage.max_rss())? * unit))
}

#[cfg(not(unix))]
fn children() -> Result<(f64, u64)> {
    anyhow::bail!("what a process used is only measured on Unix")
}
