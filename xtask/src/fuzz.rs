//! `cargo xtask fuzz`: runs the fuzz targets, the decoder's over each group of agents, and counts what they tried.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{self, cargo, shown};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long each group runs
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Run only this group; may be given several times
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
}

/// Agents that share words are in one group, so that one can be found from the other's recordings.
const GROUPS: &[(&str, &[&str])] = &[
    ("claude", &["claude-code", "cursor", "qwen"]),
    ("codex", &["codex"]),
    ("droid", &["droid"]),
    ("gemini", &["gemini", "bob"]),
    ("opencode", &["opencode", "kilo"]),
    ("copilot", &["copilot", "cline"]),
    ("pi", &["pi"]),
    ("goose", &["goose"]),
    ("text", &["aider"]),
    ("events", &["openai"]),
    ("auto", &["auto", "localexec"]),
];

/// Targets of input from the network, which have no agents: batches and frames, and whole sessions of a runner with a hub.
const NETWORK: &[&str] = &["batch", "session"];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for name in &arguments.group {
        ensure!(groups().any(|group| group == name), "there is no group `{name}`; there are {}", names());
    }
    process::need_cargo_subcommand("fuzz")?;
    let is_chosen = |name: &str| arguments.group.is_empty() || arguments.group.iter().any(|group| group == name);
    let mut counts = Vec::new();
    for (name, agents) in GROUPS.iter().filter(|(name, _)| is_chosen(name)) {
        let corpus = seed(name, agents)?;
        println!("── {name}: {}", agents.join(", "));
        counts.push((name, fuzz("decode", agents, &corpus, arguments.minutes)?));
    }
    for name in NETWORK.iter().filter(|name| is_chosen(name)) {
        let corpus = crate::root().join("fuzz/corpus").join(name);
        std::fs::create_dir_all(&corpus)?;
        println!("── {name}");
        counts.push((name, fuzz(name, &[], &corpus, arguments.minutes)?));
    }
    println!("\nNo finding.");
    for (name, executions) in counts {
        println!("  {name:<10} {executions:>12} executions in {} minutes", arguments.minutes);
    }
    Ok(())
}

fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name).chain(NETWORK.iter().copied())
}

fn names() -> String {
    groups().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Fills a group's corpus with the fixtures: those of its own agents, or all of them for `auto`.
fn seed(name: &str, agents: &[&str]) -> Result<PathBuf> {
    let corpus = crate::root().join("fuzz/corpus").join(name);
    std::fs::create_dir_all(&corpus)?;
    for agent in &sabir_agents::builtin() {
        let own = agents.iter().position(|name| *name == agent.id.as_str());
        let Some(index) = own.or_else(|| agents.iter().position(|name| *name == "auto")) else { continue };
        let fixtures = crate::root().join("crates/sabir-agents/fixtures").join(agent.id.as_str());
        for case in std::fs::read_dir(fixtures).into_iter().flatten() {
            let case = case?.path();
            let Ok(input) = std::fs::read(case.join("input")) else { continue };
            let file = format!("{}-{}", agent.id, case.file_name().unwrap_or_default().display());
            let head = [u8::try_from(index)?, 0x5f];
            std::fs::write(corpus.join(file), [&head[..], &input].concat())?;
        }
    }
    Ok(corpus)
}

/// Runs a target and gives the number of executions.
fn fuzz(target: &str, agents: &[&str], corpus: &Path, minutes: f64) -> Result<u64> {
    // There is no unsafe code to sanitize; what is looked for are panics, overflows and broken laws.
    let mut command = cargo(&["fuzz", "run", "--sanitizer", "none", target]);
    command.arg(corpus).args(["--", &format!("-max_total_time={:.0}", minutes * 60.0)]);
    // Recordings are a few kilobytes; a longer input costs more time than it finds.
    command.args(["-max_len=16384", "-timeout=20", "-rss_limit_mb=1024", "-print_final_stats=1", "-verbosity=1"]);
    // cargo-fuzz wants flags that stable toolchains keep behind this variable.
    command.env("RUSTC_BOOTSTRAP", "1").env("SABIR_FUZZ_AGENTS", agents.join(","));
    let mut child = command.stderr(Stdio::piped()).spawn().with_context(|| format!("could not start {}", shown(&command)))?;
    let mut executions = 0;
    let mut tail = std::collections::VecDeque::new();
    for line in BufReader::new(child.stderr.take().context("the fuzzer has a standard error")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = count.trim().parse()?;
        }
        if line.contains("pulse") || line.contains("DONE") {
            println!("   {line}");
        }
        tail.push_back(line);
        if tail.len() > 60 {
            tail.pop_front();
        }
    }
    if !child.wait()?.success() {
        let tail: Vec<String> = tail.into();
        bail!("the fuzzer found something, or could not run:\n{}", tail.join("\n"));
    }
    Ok(executions)
}
