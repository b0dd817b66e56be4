//! How long a line takes through `sabir parse -` when nothing else is waiting.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::stream;

const LINES: usize = 2_000;
/// The wait between two lines, so that each finds an idle process.
const SPACE: Duration = Duration::from_millis(2);

/// Times from writing a line to reading what came of it, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Latency {
    pub(super) median: f64,
    pub(super) p99: f64,
}

/// Through `sabir parse`.
pub(super) fn of_sabir(sabir: &Path) -> Result<Latency> {
    let mut command = Command::new(sabir);
    command.args(["parse", "--agent", "claude-code", "--to", "events", "-"]);
    through(&mut command, "\"kind\":\"text\"")
}

/// Through a process that only passes bytes on: what pipes and the scheduler take.
pub(super) fn of_cat() -> Result<Latency> {
    through(&mut Command::new("cat"), "\"text_delta\"")
}

fn through(command: &mut Command, answer: &str) -> Result<Latency> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("could not start what is measured")?;
    let mut input = child.stdin.take().context("it has an input")?;
    let mut output = BufReader::new(child.stdout.take().context("it has an output")?);
    input.write_all(stream::opening_lines().as_bytes())?;
    let mut times = Vec::with_capacity(LINES);
    let mut line = String::new();
    for number in 0..LINES {
        let delta = stream::delta_line(&format!("piece {number} "));
        std::thread::sleep(SPACE);
        let start = Instant::now();
        input.write_all(delta.as_bytes())?;
        loop {
            line.clear();
            ensure!(output.read_line(&mut line)? > 0, "it ended early");
            if line.contains(answer) {
                break;
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    drop(input);
    child.wait()?;
    times.sort_by(f64::total_cmp);
    Ok(Latency { median: times[LINES / 2], p99: times[LINES * 99 / 100] })
}
