//! Many sessions: how soon they are listed, found and shown.

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::usage::{Setup, command};

#[derive(Deserialize)]
struct Listed {
    id: String,
}

/// Asks for sessions that there are so many of, of that kind.
pub(super) fn run(setup: &Setup, kind: &str, count: u64, repeat: u32) -> Result<()> {
    let list = setup.output(&command(&setup.sabir, &["ls", "--json"]))?;
    let middle = list.split(|byte| *byte == b'\n').nth(usize::try_from(count / 2)?).context("a session in the middle")?;
    let Listed { id } = serde_json::from_slice(middle)?;
    let ticket = format!("ticket-{:06}", count / 2);
    println!("\n{count} {kind}, after the first look");
    println!("  {:<32} {:>9} {:>9} {:>9}", "", "CPU s", "wall s", "peak MB");
    let commands: [(&str, &[&str]); 6] = [
        ("sabir ls -n 20", &["ls", "-n", "20"]),
        ("sabir ls --json (all)", &["ls", "--json"]),
        ("sabir ls --model opus -n 20", &["ls", "--model", "opus", "-n", "20"]),
        ("sabir search, in all", &["search", "usage", "tokens"]),
        ("sabir search, in one", &["search", &ticket]),
        ("sabir show ID", &["show", &id]),
    ];
    for (name, arguments) in commands {
        let asked = command(&setup.sabir, arguments);
        let mut best = setup.measured(&asked)?;
        for _ in 1..repeat {
            let usage = setup.measured(&asked)?;
            if usage.wall_seconds < best.wall_seconds {
                best = usage;
            }
        }
        let (cpu, wall, peak) = (best.cpu_seconds, best.wall_seconds, best.peak_bytes as f64 / 1e6);
        println!("  {name:<32} {cpu:>9.3} {wall:>9.3} {peak:>9.1}");
    }
    Ok(())
}
