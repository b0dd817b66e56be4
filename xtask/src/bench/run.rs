//! `cargo xtask bench run`: many agents at once in one process: what they lose, and what it costs to watch them.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

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
        writeln!(stdout, "line {number} {WORDS}")?;
        stdout.flush()?;
    }
    Ok(())
}

/// What a line of such an agent says.
const WORDS: &str = "of an agent that has something to say";

#[derive(clap::Args)]
pub(crate) struct BareArguments {
    #[arg(long)]
    agents: usize,
    #[arg(long)]
    command: String,
}

/// Starts a command many times and passes on what comes, as bytes: the least that watching them can cost.
#[cfg(unix)]
pub(crate) fn bare(arguments: &BareArguments) -> Result<()> {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    let mut children = Vec::new();
    for _ in 0..arguments.agents {
        children.push(Command::new("sh").args(["-c", &arguments.command]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    }
    let mut pipes: Vec<_> = children.iter_mut().filter_map(|child| child.stdout.take()).collect();
    let mut stdout = std::io::stdout().lock();
    let mut buffer = vec![0; 64 * 1024];
    while !pipes.is_empty() {
        let mut waiting: Vec<PollFd<'_>> = pipes.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut waiting, PollTimeout::NONE)?;
        let ready: Vec<bool> = waiting.iter().map(|pipe| pipe.any().unwrap_or(true)).collect();
        let mut index = 0;
        let mut failed = None;
        pipes.retain_mut(|pipe| {
            index += 1;
            if !ready[index - 1] {
                return true;
            }
            let passed = pipe.read(&mut buffer).and_then(|count| stdout.write_all(&buffer[..count]).map(|()| count));
            passed.map_or_else(
                |error| {
                    failed = Some(error);
                    false
                },
                |count| count > 0,
            )
        });
        stdout.flush()?;
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    for child in &mut children {
        child.wait()?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn bare(_: &BareArguments) -> Result<()> {
    anyhow::bail!("watching is only measured on Unix")
}

/// What the watching process has used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at: Duration,
    cpu_seconds: f64,
    wake_ups: u64,
    peak_bytes: u64,
}

/// Who watches.
#[derive(Clone, Copy)]
enum Watcher<'a> {
    Sabir(&'a Path),
    Bare(&'a Path),
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    super::build()?;
    let binaries = crate::root().join("target/release");
    let (sabir, xtask) = (binaries.join("sabir"), binaries.join("xtask"));
    let watchers = [Watcher::Sabir(&sabir), Watcher::Bare(&xtask)];
    let count = arguments.per_second * arguments.seconds;
    let all = u64::from(count) * arguments.agents as u64;
    let speak = format!("exec {} bench lines --count {count} --per-second {}", xtask.display(), arguments.per_second);
    println!("{} agents, {} lines a second each, {} s", arguments.agents, arguments.per_second, arguments.seconds);
    let busy = watchers.map(|watcher| watch(watcher, arguments.agents, &speak));
    let [Ok((sabir_busy, sabir_lines)), Ok((bare_busy, bare_lines))] = busy else {
        return busy.into_iter().try_for_each(|result| result.map(drop));
    };
    heading();
    row("lines lost", |lines: u64| format!("{} of {all}", all.saturating_sub(lines)), sabir_lines, bare_lines);
    // Starting and ending cost something else than watching.
    let seconds = u64::from(arguments.seconds);
    figures((within(&sabir_busy, 1, seconds), peak(&sabir_busy)), (within(&bare_busy, 1, seconds), peak(&bare_busy)));

    println!("\n{} agents that say nothing", arguments.agents);
    let idle = watchers.map(|watcher| watch(watcher, arguments.agents, "exec sleep 9"));
    let [Ok((sabir_idle, _)), Ok((bare_idle, _))] = idle else {
        return idle.into_iter().try_for_each(|result| result.map(drop));
    };
    heading();
    figures((within(&sabir_idle, 3, 8), peak(&sabir_idle)), (within(&bare_idle, 3, 8), peak(&bare_idle)));
    Ok(())
}

fn heading() {
    println!("  {:<24}{:>16}{:>16}", "", "sabir batch", "bare reader");
}

fn row<T>(name: &str, shown: impl Fn(T) -> String, sabir: T, bare: T) {
    println!("  {name:<24}{:>16}{:>16}", shown(sabir), shown(bare));
}

/// What was used in a time, and the most memory of all times.
fn figures((sabir, sabir_peak): (Option<Sample>, u64), (bare, bare_peak): (Option<Sample>, u64)) {
    let shown = |sample: Option<Sample>, of: fn(Sample) -> String| sample.map_or_else(|| "unknown".to_owned(), of);
    row(
        "CPU, % of one core",
        |sample| shown(sample, |used| format!("{:.2}", 100.0 * used.cpu_seconds / used.at.as_secs_f64())),
        sabir,
        bare,
    );
    row(
        "wake-ups a second",
        |sample| shown(sample, |used| format!("{:.1}", used.wake_ups as f64 / used.at.as_secs_f64())),
        sabir,
        bare,
    );
    row("peak memory, MB", |bytes: u64| format!("{:.1}", bytes as f64 / 1e6), sabir_peak, bare_peak);
}

/// What was used between two seconds; the time in it is how long that really was.
fn within(samples: &[Sample], from: u64, to: u64) -> Option<Sample> {
    let mut inside = samples.iter().filter(|sample| (from..to).contains(&sample.at.as_secs()));
    let (first, last) = (inside.next()?, inside.next_back()?);
    Some(Sample {
        at: last.at.saturating_sub(first.at),
        cpu_seconds: last.cpu_seconds - first.cpu_seconds,
        wake_ups: last.wake_ups.saturating_sub(first.wake_ups),
        peak_bytes: last.peak_bytes,
    })
}

fn peak(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.peak_bytes).max().unwrap_or(0)
}

/// Runs a command many times at once; samples of the watching process, and how many lines it told.
fn watch(watcher: Watcher<'_>, agents: usize, agent: &str) -> Result<(Vec<Sample>, u64)> {
    let mut jobs = String::new();
    let mut command = match watcher {
        Watcher::Sabir(sabir) => {
            let home = crate::root().join("target/bench-home");
            // There may be none yet.
            let _ = fs::remove_dir_all(&home);
            for run in 0..agents {
                let _ = writeln!(jobs, "{}", serde_json::json!({"agent": "localexec", "id": run.to_string(), "prompt": agent}));
            }
            let mut command = Command::new(sabir);
            command.args(["batch", "-", "--jobs", &agents.to_string()]).env("SABIR_HOME", home);
            command
        }
        Watcher::Bare(xtask) => {
            let mut command = Command::new(xtask);
            command.args(["bench", "bare", "--agents", &agents.to_string(), "--command", agent]);
            command
        }
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("could not start the watcher")?;
    child.stdin.take().context("no pipe")?.write_all(jobs.as_bytes())?;
    let stdout = child.stdout.take().context("no pipe")?;
    let reader = std::thread::spawn(move || -> Result<u64> {
        let mut said = 0;
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            // The answer says all of it again.
            if !line.starts_with(r#"{"kind":"final""#) {
                said += line.matches(WORDS).count() as u64;
            }
        }
        Ok(said)
    });
    let samples = samples(&mut child)?;
    let said = reader.join().map_err(|_| anyhow::anyhow!("the reader failed"))??;
    ensure!(child.wait()?.success(), "the watcher failed");
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
