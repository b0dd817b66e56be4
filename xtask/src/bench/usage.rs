//! `cargo xtask bench usage`: `sabir usage` and its peers over a history whose truth is known.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::corpus::{self, Figures, Truth};
use super::measure::{self, Usage};
use super::peers::{self, Peers};
use super::sessions;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size of the history in megabytes
    #[arg(long, default_value_t = 1_000)]
    size: u64,
    /// Size of the one large session in megabytes
    #[arg(long, default_value_t = 2_000)]
    large: u64,
    /// How many sessions there are where sessions are looked for
    #[arg(long, default_value_t = 10_000)]
    sessions: u64,
    /// How often each is measured; the least CPU counts
    #[arg(long, default_value_t = 5)]
    repeat: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    super::build()?;
    let bench = crate::root().join("target/bench");
    eprintln!("writing the history");
    let (folder, truth) = corpus::folder(&bench, arguments.size)?;
    let_go(&folder.join("home"))?;
    let setup = Setup {
        sabir: super::built("sabir"),
        xtask: super::built("xtask"),
        home: folder.join("home"),
        kept: folder.join("sabir"),
        peers: Peers::install(&bench.join("peers")),
        alone: alone(),
    };
    if !setup.alone {
        eprintln!("no network namespace can be made here: the peers may use the network");
    }
    let mut rows: BTreeMap<usize, (&str, Usage)> = BTreeMap::new();
    eprintln!("measuring");
    for _ in 0..arguments.repeat {
        // Turn by turn, so that a slow minute of the machine does not fall on one of them.
        for (place, work) in Work::ALL.into_iter().enumerate() {
            let Some(command) = setup.command(work) else { continue };
            setup.prepare(work)?;
            let usage = setup.measured(&command)?;
            let best = rows.entry(place).or_insert((work.name(), usage));
            if usage.cpu_seconds < best.1.cpu_seconds {
                best.1 = usage;
            }
        }
    }
    print_work(&truth, &rows);
    let index = fs::metadata(setup.kept.join("history.index")).map_or(0, |data| data.len());
    let bytes: u64 = truth.agents.values().map(|agent| agent.bytes).sum();
    println!("\nindex: {:.1} MB, {:.2} % of the history", index as f64 / 1e6, index as f64 / bytes as f64 * 100.0);
    differences(&setup, &truth)?;
    large(&setup, &bench, arguments.large)?;
    let Arguments { sessions: count, repeat, .. } = *arguments;
    sessions::run(&setup.over(&corpus::sessions(&bench, count)?), "sessions", count, repeat)?;
    sessions::run(&setup.over(&corpus::runs(&bench, count)?), "runs of the journal", count, repeat)
}

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Walk,
    Lines,
    StdLines,
    Cold,
    Changed,
    Warm,
    Results,
    Ccusage,
    Codeburn,
}

impl Work {
    const ALL: [Self; 9] = [
        Self::Walk,
        Self::Lines,
        Self::StdLines,
        Self::Cold,
        Self::Changed,
        Self::Warm,
        Self::Results,
        Self::Ccusage,
        Self::Codeburn,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Walk => "look for files, read none",
            Self::Lines => "read and split lines",
            Self::StdLines => "the same with std::io::BufRead",
            Self::Cold => "sabir usage, without an index",
            Self::Changed => "sabir usage, one file changed",
            Self::Warm => "sabir usage, nothing changed",
            Self::Results => "sabir ls --json --results",
            Self::Ccusage => "ccusage daily --json",
            Self::Codeburn => "codeburn models --format json",
        }
    }
}

/// Whose history is looked at, and by what.
pub(super) struct Setup {
    pub(super) sabir: PathBuf,
    pub(super) xtask: PathBuf,
    home: PathBuf,
    kept: PathBuf,
    peers: Peers,
    /// Commands can be run without a network.
    alone: bool,
}

impl Setup {
    /// The same over another history.
    fn over(&self, folder: &Path) -> Self {
        Self {
            sabir: self.sabir.clone(),
            xtask: self.xtask.clone(),
            home: folder.join("home"),
            kept: folder.join("sabir"),
            peers: self.peers.clone(),
            alone: self.alone,
        }
    }

    /// What a command prints in the home of the history, without a network where that can be had.
    pub(super) fn output(&self, asked: &[OsString]) -> Result<Vec<u8>> {
        let mut command: Vec<OsString> = Vec::new();
        if self.alone {
            command.extend(["unshare", "--net", "--map-root-user"].map(OsString::from));
        }
        command.extend(["env".into(), "TZ=UTC".into()]);
        for (name, value) in [("HOME", &self.home), ("SABIR_HOME", &self.kept)] {
            let mut set = OsString::from(format!("{name}="));
            set.push(value);
            command.push(set);
        }
        command.extend_from_slice(asked);
        let (program, arguments) = command.split_first().context("a command")?;
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{asked:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
    }

    /// What a command uses there. What it takes to make a home for it is not measured.
    pub(super) fn measured(&self, asked: &[OsString]) -> Result<Usage> {
        let measuring = [self.xtask.as_os_str(), "bench".as_ref(), "measure".as_ref()].map(OsString::from);
        measure::printed(&self.output(&[&measuring, asked].concat())?)
    }

    fn command(&self, work: Work) -> Option<Vec<OsString>> {
        let home = self.home.to_str()?;
        Some(match work {
            Work::Walk => command(&self.xtask, &["bench", "loop", "walk", home]),
            Work::Lines => command(&self.xtask, &["bench", "loop", "lines", home]),
            Work::StdLines => command(&self.xtask, &["bench", "loop", "std-lines", home]),
            Work::Cold | Work::Changed | Work::Warm => command(&self.sabir, &["usage", "--json"]),
            Work::Results => command(&self.sabir, &["ls", "--json", "--results"]),
            Work::Ccusage => command(self.peers.ccusage.as_ref()?, &["daily", "--json", "--offline"]),
            Work::Codeburn => {
                let (node, script) = self.peers.codeburn.as_ref()?;
                command(node, &[script.to_str()?, "models", "--period", "all", "--format", "json"])
            }
        })
    }

    fn prepare(&self, work: Work) -> Result<()> {
        // A peer keeps what it has read, and would be asked for what it knows; it is no log that others have to read.
        if self.home.join(".cache").exists() {
            fs::remove_dir_all(self.home.join(".cache"))?;
        }
        match work {
            Work::Cold if self.kept.exists() => fs::remove_dir_all(&self.kept)?,
            Work::Changed => {
                // A line that says nothing makes a log one that has grown.
                let mut logs = Vec::new();
                files(&self.home.join(".claude"), &mut logs)?;
                let log = logs.first().context("there is a log")?;
                let mut file = fs::OpenOptions::new().append(true).open(log)?;
                file.write_all(b"\n{\"type\":\"mode\",\"mode\":\"normal\"}\n")?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// A program and its arguments.
pub(super) fn command(program: &Path, arguments: &[&str]) -> Vec<OsString> {
    std::iter::once(program.into()).chain(arguments.iter().map(OsString::from)).collect()
}

/// The files below a folder.
pub(super) fn files(folder: &Path, list: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            files(&entry.path(), list)?;
        } else {
            list.push(entry.path());
        }
    }
    Ok(())
}

/// Makes the system read these files from the disk the next time. What was written in one go lies in memory in large pieces,
/// which are copied out faster, until it is read from the disk one day. Real logs grow line by line, and
/// lie in memory as if they were read.
fn let_go(folder: &Path) -> Result<()> {
    let mut list = Vec::new();
    files(folder, &mut list)?;
    for path in list {
        let file = fs::File::open(path)?;
        file.sync_data()?;
        #[cfg(target_os = "linux")]
        nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    }
    Ok(())
}

/// Whether a process without a network can be made.
fn alone() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--net", "--map-root-user", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn print_work(truth: &Truth, rows: &BTreeMap<usize, (&str, Usage)>) {
    let bytes: u64 = truth.agents.values().map(|agent| agent.bytes).sum();
    let files: u64 = truth.agents.values().map(|agent| agent.files).sum();
    println!("\n{:.0} MB in {files} files", bytes as f64 / 1e6);
    println!(
        "  {:<32} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11}",
        "", "CPU s", "wall s", "peak MB", "of cold", "of lines", "of ccusage"
    );
    let cpu = |name: &str| rows.values().find(|(other, _)| *other == name).map_or(f64::NAN, |(_, usage)| usage.cpu_seconds);
    let [cold, lines, ccusage] = [Work::Cold, Work::Lines, Work::Ccusage].map(|work| cpu(work.name()));
    for (name, usage) in rows.values() {
        println!(
            "  {name:<32} {:>9.3} {:>9.3} {:>9.1} {:>10.3}× {:>10.3}× {:>10.3}×",
            usage.cpu_seconds,
            usage.wall_seconds,
            usage.peak_bytes as f64 / 1e6,
            usage.cpu_seconds / cold,
            usage.cpu_seconds / lines,
            usage.cpu_seconds / ccusage
        );
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    key: String,
    tool_calls: u64,
    tokens: Tokens,
    cost_usd: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    uncached_input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

/// Prints how far each is from the truth.
fn differences(setup: &Setup, truth: &Truth) -> Result<()> {
    #[derive(Deserialize)]
    struct Report {
        rows: Vec<Row>,
    }
    println!("\ndifferences from the truth");
    for (agent, truth) in &truth.agents {
        let ask = |by: &str| -> Result<Vec<Row>> {
            let asked = command(&setup.sabir, &["usage", "--json", "--by", by, "--agent", agent]);
            Ok(serde_json::from_slice::<Report>(&setup.output(&asked)?)?.rows)
        };
        let mut wrong = 0;
        for (by, wanted) in [("model", &truth.models), ("day", &truth.days)] {
            let rows = ask(by)?;
            wrong += rows.len().abs_diff(wanted.len());
            wrong += rows.iter().filter(|row| !wanted.get(&row.key).is_some_and(|wanted| row.is(wanted))).count();
        }
        let calls: u64 = ask("agent")?.iter().map(|row| row.tool_calls).sum();
        println!(
            "  sabir    {agent:<12} {} responses, {} tokens: {wrong} rows by model and day differ, tool calls {calls} of {}",
            truth.responses,
            truth.sum().total(),
            truth.tool_calls
        );
    }
    let (tokens, cost) = truth.agents.values().fold((0, 0.0), |(tokens, cost), agent| {
        let sum = agent.sum();
        (tokens + sum.total(), cost + sum.cost)
    });
    for (name, work, read) in
        [("ccusage", Work::Ccusage, peers::ccusage as peers::Read), ("codeburn", Work::Codeburn, peers::codeburn)]
    {
        let Some(command) = setup.command(work) else { continue };
        let said = read(&setup.output(&command)?)?;
        let more = i128::from(said.tokens) - i128::from(tokens);
        println!("  {name:<8} all          {} tokens of {tokens} ({more:+}), cost {:.2} of {cost:.2}", said.tokens, said.cost);
    }
    Ok(())
}

impl Row {
    fn is(&self, wanted: &Figures) -> bool {
        let Tokens { uncached_input, cache_read, cache_write, output } = self.tokens;
        let tokens = (uncached_input, cache_read, cache_write, output);
        tokens == (wanted.input, wanted.cache_read, wanted.cache_write, wanted.output)
            && self.cost_usd.is_some_and(|cost| (cost - wanted.cost).abs() < 0.01)
    }
}

/// One session as large as that: the memory must not follow.
fn large(setup: &Setup, bench: &Path, megabytes: u64) -> Result<()> {
    let folder = bench.join(format!("large-{megabytes}"));
    let log = folder.join("home/.claude/projects/-home-dev-large/0a0a0a0a-0000-4000-8000-000000000000.jsonl");
    if fs::metadata(&log).map_or(0, |data| data.len()) < megabytes * 1_000_000 {
        eprintln!("writing the large session");
        fs::create_dir_all(log.parent().context("a folder")?)?;
        let mut sessions = Vec::new();
        files(&setup.home.join(".claude"), &mut sessions)?;
        let mut out = std::io::BufWriter::new(fs::File::create(&log)?);
        let mut written = 0;
        for session in sessions.iter().cycle().filter(|path| !path.display().to_string().contains("subagents")) {
            let text = fs::read_to_string(session)?;
            for line in text.lines().filter(|line| line.ends_with('}')) {
                writeln!(out, "{line}")?;
                written += line.len() as u64 + 1;
            }
            if written >= megabytes * 1_000_000 {
                break;
            }
        }
        out.flush()?;
    }
    let setup = setup.over(&folder);
    println!("\none session of {megabytes} MB");
    for work in [Work::Cold, Work::Results, Work::Ccusage] {
        let Some(command) = setup.command(work) else { continue };
        setup.prepare(work)?;
        let usage = setup.measured(&command)?;
        println!("  {:<32} {:>9.3} CPU s {:>9.1} MB peak", work.name(), usage.cpu_seconds, usage.peak_bytes as f64 / 1e6);
    }
    Ok(())
}
