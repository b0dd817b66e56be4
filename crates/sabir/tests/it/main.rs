//! The command as users meet it: what goes in, what comes out, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(unix)]
mod agent_loop;
#[cfg(unix)]
mod command_line;
#[cfg(unix)]
mod delivered;
mod drift;
#[cfg(unix)]
mod earlier_build;
#[cfg(unix)]
mod export;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod hub;
#[cfg(target_os = "linux")]
mod hub_limits;
#[cfg(unix)]
mod journal;
#[cfg(unix)]
mod page;
mod parse;
#[cfg(unix)]
mod past;
mod run;
#[cfg(unix)]
mod second_client;
#[cfg(target_os = "linux")]
mod secrecy;
#[cfg(unix)]
mod secured;
#[cfg(unix)]
mod shell;
mod talk;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use sabir_test_support::fixture;

/// The command, with nothing of the machine that could change what it prints, and no journal outside the test's own folder.
fn sabir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
    command
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("SABIR_HOME")
        .env("SABIR_JOURNAL", "off")
        .stdin(Stdio::null());
    command
}

/// Runs the command with a standard input of its own.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = sabir();
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // The command may end before it has read all of it, which is its right.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the input was written");
    output
}

/// Waits for something to be so.
#[cfg(unix)]
fn until(is_so: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "it does not happen");
        std::thread::yield_now();
    }
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}
