//! `cargo xtask bench page`: how soon the page shows the list and a long run, how smoothly that scrolls, and what it takes.
//!
//! `sabir serve` over a history, and a real browser.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::{corpus, measure};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many sessions are in the list
    #[arg(long, default_value_t = 10_000)]
    sessions: u64,
    /// How many events the long run has, about
    #[arg(long, default_value_t = 100_000)]
    events: u64,
}

/// Why the list is looked at twice.
const TURNS: [&str; 2] = ["for the first time", "with the index of histories"];

/// What the browser measured.
#[derive(Deserialize)]
struct Figures {
    /// How many bytes the page was, as it was sent.
    weight: f64,
    /// How long after each load the list was there.
    lists: Vec<f64>,
    #[serde(flatten)]
    run: Option<Run>,
}

#[derive(Deserialize)]
struct Run {
    rows: f64,
    whole: f64,
    p50: f64,
    p99: f64,
    most: f64,
    memory: f64,
    exist: u32,
}

/// `sabir serve` that runs.
struct Serve {
    child: Child,
    address: String,
}

impl Serve {
    fn start(sabir: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(sabir);
        command.args(["serve", "--no-open"]).env("HOME", folder.join("home")).env("SABIR_HOME", folder.join("sabir"));
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("could not start serve")?;
        let mut talk = BufReader::new(child.stderr.take().context("it says something")?);
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            ensure!(talk.read_line(&mut line)? > 0, "serve does not say where the page is");
        }
        let address = line.trim().split(' ').find(|word| word.starts_with("http://")).context("an address")?.to_owned();
        std::thread::spawn(move || std::io::copy(&mut talk, &mut std::io::sink()));
        Ok(Self { child, address })
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    super::build()?;
    crate::page::install()?;
    let browser = crate::page::browser().context("there is no chromium here, and it can't be installed")?;
    let (sabir, bench) = (super::built("sabir"), crate::root().join("target/bench"));
    let look = |folder: &Path, session: &[&str]| -> Result<(Figures, f64)> {
        let serve = Serve::start(&sabir, folder)?;
        let mut node = Command::new("node");
        node.args(["test/figures.mjs", &serve.address]).args(session).env("SABIR_CHROMIUM", &browser);
        let output = node.current_dir(crate::page::folder()).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the browser failed ({})", output.status);
        Ok((serde_json::from_slice(&output.stdout)?, measure::memory_of(serve.child.id()).1))
    };
    eprintln!("writing the histories");
    let many = corpus::sessions(&bench, arguments.sessions)?;
    let (long, bytes) = corpus::long_run(&bench, arguments.events)?;
    // What an earlier bench has left would make the first time another one.
    let index = many.join("sabir");
    if index.exists() {
        fs::remove_dir_all(index)?;
    }
    for turn in TURNS {
        let (figures, peak) = look(&many, &[])?;
        let (first, later) = figures.lists.split_first().context("a load")?;
        if turn == TURNS[0] {
            println!("the page is {:.1} KB as it is sent", figures.weight / 1e3);
        }
        let most = later.iter().copied().fold(0.0, f64::max);
        let mean = later.iter().sum::<f64>() / later.len() as f64;
        println!(
            "{} sessions, {turn}: the list is there {first:.0} ms after the page was loaded by a browser just started,",
            arguments.sessions
        );
        println!("  and {mean:.0} ms after each of {} loads more, {most:.0} at most; peak of serve {peak:.0} MB", later.len());
    }
    let mut export = Command::new(&sabir);
    export
        .args(["export", corpus::LONG_RUN, "--to", "events"])
        .env("HOME", long.join("home"))
        .env("SABIR_HOME", long.join("sabir"));
    let events = export.output()?.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    let (figures, peak) = look(&long, &[corpus::LONG_RUN])?;
    let run = figures.run.context("figures of the run")?;
    println!("\na run of {events} events, {:.0} MB", bytes as f64 / 1e6);
    println!("  first rows {:.0} ms and all of it {:.0} ms after it was asked for", run.rows, run.whole);
    println!("  frames while it scrolls: p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms", run.p50, run.p99, run.most);
    println!("  memory of the page {:.0} MB, {} rows exist; peak of serve {peak:.0} MB", run.memory / 1e6, run.exist);
    Ok(())
}
