//! `cargo xtask bench run`: many agents at once in one process: what they lose, and what it costs to watch them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process::{self, cargo};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many agents run at once
    #[arg(long, default_value_t = 50)]
    agents: usize,
    /// How many lines each prints in a second
    #[arg(long, default_value_t = 200)]
    per_second: u32,
    /// For how many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Without the journal
    #[arg(long)]
    no_journal: bool,
}

#[derive(clap::Args)]
pub(crate) struct LinesArguments {
    #[arg(long)]
    count: u32,
    #[arg(long)]
    per_second: u32,
}

/// Plays an agent that prints at a steady pace.
pub(crate) fn lines(arguments: &LinesArguments) -> Result<()> {
    let start = Instant::now();
    let mut stdout = std::io::stdout().lock();
    for number in 0..arguments.count {
        let due = Duration::from_secs_f64(f64::from(number) / f64::from(arguments.per_second));
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        writeln!(stdout, "line {number} of an agent that has something to say")?;
        stdout.flush()?;
    }
    Ok(())
}

/// What the watching process has used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at: Duration,
    cpu_seconds: f64,
    wake_ups: u64,
    peak_bytes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    eprintln!("building for release");
    process::run(&mut cargo(&["build", "--release", "--quiet", "--package", "sabir"]))?;
    process::run(&mut cargo(&["build", "--release", "--quiet", "--package", "xtask"]))?;
    let binaries = crate::root().join("target/release");
    let xtask = binaries.join("xtask");
    let count = arguments.per_second * arguments.seconds;
    let speak = format!("{} bench lines --count {count} --per-second {}", xtask.display(), arguments.per_second);
    let (samples, said) = watch(&binaries.join("sabir"), arguments, &speak)?;
    let lost: u64 =
        (0..arguments.agents).map(|run| u64::from(count).saturating_sub(*said.get(&run.to_string()).unwrap_or(&0))).sum();
    let all = samples.last().copied().unwrap_or_default();
    let per_second = |sample: Sample| sample.wake_ups as f64 / sample.at.as_secs_f64().max(0.001);
    println!("{} agents, {} lines a second each, {} s", arguments.agents, arguments.per_second, arguments.seconds);
    println!("  lines lost        {lost} of {}", u64::from(count) * arguments.agents as u64);
    println!(
        "  CPU               {:.2} s of {:.1} s ({:.1} % of one core)",
        all.cpu_seconds,
        all.at.as_secs_f64(),
        100.0 * all.cpu_seconds / all.at.as_secs_f64()
    );
    println!("  wake-ups          {:.0} a second", per_second(all));
    println!("  peak memory       {:.1} MB", all.peak_bytes as f64 / 1e6);

    let (samples, _) = watch(&binaries.join("sabir"), arguments, "sleep 8")?;
    // Starting and ending cost something; between them nothing should.
    let within = |from: u64, to: u64| samples.iter().copied().filter(move |sample| (from..to).contains(&sample.at.as_secs()));
    if let (Some(first), Some(last)) = (within(3, 7).next(), within(3, 7).next_back()) {
        let seconds = last.at.as_secs_f64() - first.at.as_secs_f64();
        println!("{} agents that say nothing, {seconds:.1} s", arguments.agents);
        println!("  CPU               {:.3} s", last.cpu_seconds - first.cpu_seconds);
        println!("  wake-ups          {}", last.wake_ups - first.wake_ups);
        println!("  peak memory       {:.1} MB", last.peak_bytes as f64 / 1e6);
    }
    Ok(())
}

/// Runs a command many times at once; samples of the watching process, and how many lines each run told.
fn watch(sabir: &Path, arguments: &Arguments, command: &str) -> Result<(Vec<Sample>, BTreeMap<String, u64>)> {
    let mut jobs = String::new();
    let agents = arguments.agents;
    let home = crate::root().join("target/bench-home");
    // There may be none yet.
    let _ = fs::remove_dir_all(&home);
    for run in 0..agents {
        let _ = writeln!(jobs, "{}", serde_json::json!({"agent": "localexec", "id": run.to_string(), "prompt": command}));
    }
    let mut child = Command::new(sabir)
        .args(["batch", "-", "--jobs", &agents.to_string()])
        .args(arguments.no_journal.then_some("--no-journal"))
        .env("SABIR_HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start sabir")?;
    child.stdin.take().context("no pipe")?.write_all(jobs.as_bytes())?;
    let stdout = child.stdout.take().context("no pipe")?;
    let reader = std::thread::spawn(move || -> Result<BTreeMap<String, u64>> {
        let mut said: BTreeMap<String, u64> = BTreeMap::new();
        for line in BufReader::new(stdout).lines() {
            let event: Value = serde_json::from_str(&line?)?;
            if event["kind"] == "text" {
                *said.entry(event["runId"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        Ok(said)
    });
    let samples = samples(&mut child)?;
    let said = reader.join().map_err(|_| anyhow::anyhow!("the reader failed"))??;
    ensure!(child.wait()?.success(), "sabir failed");
    Ok((samples, said))
}

fn samples(child: &mut Child) -> Result<Vec<Sample>> {
    let start = Instant::now();
    let mut samples = Vec::new();
    while child.try_wait()?.is_none() {
        samples.extend(sample(child.id(), start.elapsed()));
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(samples)
}

/// What `/proc` says of a process; `None` where there is no `/proc`, or the process is gone.
fn sample(pid: u32, at: Duration) -> Option<Sample> {
    let folder = format!("/proc/{pid}");
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let status = fs::read_to_string(format!("{folder}/status")).ok()?;
    let field = |text: &str, name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.split_whitespace().next()?.parse().ok())
    };
    let tasks = fs::read_dir(format!("{folder}/task")).ok()?;
    let wake_ups = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .filter_map(|status| field(&status, "voluntary_ctxt_switches:"))
        .sum();
    // Every Linux that we know counts a hundred ticks a second.
    Some(Sample { at, cpu_seconds: ticks as f64 / 100.0, wake_ups, peak_bytes: field(&status, "VmHWM:")? * 1024 })
}
