//! `cargo xtask bench parse`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use serde::Serialize;

use super::latency::{self, Latency};
use super::measure::{Usage, measured};
use super::stream::{self, Shape};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size of each stream in megabytes
    #[arg(long, default_value_t = 1_000)]
    size: u64,
    /// Size of the smaller stream that memory is compared with
    #[arg(long, default_value_t = 100)]
    small: u64,
    /// Size of the part that jq reads
    #[arg(long, default_value_t = 50)]
    jq: u64,
    /// How often each is measured; the best counts
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Report {
    megabytes: u64,
    streams: Vec<StreamReport>,
    latency: Option<LatencyReport>,
    demands: Vec<Demand>,
}

#[derive(Serialize)]
struct StreamReport {
    stream: &'static str,
    /// By what was done.
    work: BTreeMap<&'static str, Work>,
    small: Usage,
}

#[derive(Serialize, Clone, Copy)]
struct Work {
    /// Megabytes per CPU second.
    speed: f64,
    #[serde(flatten)]
    usage: Usage,
}

#[derive(Serialize)]
struct LatencyReport {
    sabir: Latency,
    cat: Latency,
}

/// What must be reached, and what was.
#[derive(Serialize)]
struct Demand {
    what: String,
    wanted: String,
    got: String,
    met: bool,
}

const EVENTS: &str = "sabir parse --to events";
const TYPED: &str = "lines + typed parse";
const WIRE: &str = "lines + parse, texts left as JSON";
const LINES: &str = "lines";
const VALUE: &str = "serde_json::Value in and out";
const JQ: &str = "jq -c .";
/// The order of the table.
const ORDER: [&str; 6] = [LINES, WIRE, TYPED, EVENTS, VALUE, JQ];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let talk = |text: &str| eprintln!("{text}");
    talk("building for release");
    super::build()?;
    let binaries = crate::root().join("target/release");
    let programs = Programs { sabir: binaries.join("sabir"), xtask: binaries.join("xtask"), jq: jq() };
    let folder = crate::root().join("target/bench");

    let mut streams = Vec::new();
    for shape in Shape::ALL {
        talk(&format!("{}: writing the stream", shape.name()));
        let whole = stream::file(&folder, shape, arguments.size)?;
        let small = stream::file(&folder, shape, arguments.small)?;
        let for_jq = stream::file(&folder, shape, arguments.jq)?;
        talk(&format!("{}: measuring", shape.name()));
        let mut work: BTreeMap<&'static str, Work> = BTreeMap::new();
        // Turn by turn, so that a slow minute of the machine does not fall on one of them.
        for _ in 0..arguments.repeat {
            for (name, command, file) in programs.commands(&whole, &for_jq) {
                let usage = measured(&programs.xtask, &command)?;
                let megabytes = std::fs::metadata(file)?.len() as f64 / 1e6;
                let new = Work { speed: megabytes / usage.cpu_seconds, usage };
                let best = work.entry(name).or_insert(new);
                if new.speed > best.speed {
                    *best = new;
                }
            }
        }
        let small = measured(&programs.xtask, &programs.events(&small))?;
        streams.push(StreamReport { stream: shape.name(), work, small });
    }
    talk("latency");
    let latency = if cfg!(unix) {
        Some(LatencyReport { cat: latency::of_cat()?, sabir: latency::of_sabir(&programs.sabir)? })
    } else {
        None
    };
    let demands = demands(&streams, latency.as_ref());
    let report = Report { megabytes: arguments.size, streams, latency, demands };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report, arguments);
    }
    Ok(())
}

struct Programs {
    sabir: PathBuf,
    xtask: PathBuf,
    jq: bool,
}

/// Whether jq is there; Debian's package is installed when it is not and that is possible.
fn jq() -> bool {
    let there = || Command::new("jq").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if there() {
        return true;
    }
    eprintln!("jq is not installed: trying apt-get");
    let _ = Command::new("apt-get").args(["install", "--yes", "--quiet", "jq"]).stdout(Stdio::null()).status();
    there()
}

impl Programs {
    fn events(&self, file: &Path) -> Vec<OsString> {
        let mut command = vec![self.sabir.clone().into_os_string()];
        command.extend(["parse", "--agent", "claude-code", "--to", "events"].map(OsString::from));
        command.push(file.into());
        command
    }

    /// What is compared, with the file that each reads.
    fn commands<'f>(&self, file: &'f Path, for_jq: &'f Path) -> Vec<(&'static str, Vec<OsString>, &'f Path)> {
        let of_loop = |kind: &str| {
            let words = ["bench", "loop", kind].map(OsString::from);
            [self.xtask.clone().into_os_string()].into_iter().chain(words).chain([file.into()]).collect::<Vec<_>>()
        };
        let mut commands = vec![
            (LINES, of_loop("lines"), file),
            (WIRE, of_loop("wire"), file),
            (TYPED, of_loop("typed"), file),
            (EVENTS, self.events(file), file),
            (VALUE, of_loop("value"), file),
        ];
        if self.jq {
            commands.push((JQ, vec!["jq".into(), "-c".into(), ".".into(), for_jq.into()], for_jq));
        }
        commands
    }
}

fn demands(streams: &[StreamReport], latency: Option<&LatencyReport>) -> Vec<Demand> {
    let mut demands = Vec::new();
    for StreamReport { stream, work, small } in streams {
        let Some(events) = work.get(EVENTS) else { continue };
        for (other, factor) in [(TYPED, 0.65), (JQ, 15.0), (VALUE, 2.5)] {
            let Some(other_work) = work.get(other) else { continue };
            let ratio = events.speed / other_work.speed;
            demands.push(Demand {
                what: format!("{stream}: events out, as many times the speed of {other}"),
                wanted: format!("≥ {factor}"),
                got: format!("{ratio:.2}"),
                met: ratio >= factor,
            });
        }
        let megabytes = |usage: &Usage| usage.peak_bytes as f64 / 1e6;
        let (whole, small) = (megabytes(&events.usage), megabytes(small));
        demands.push(Demand {
            what: format!("{stream}: peak memory in MB"),
            wanted: "≤ 16".to_owned(),
            got: format!("{whole:.1}"),
            met: whole <= 16.0,
        });
        demands.push(Demand {
            what: format!("{stream}: peak memory, whole stream against the small one"),
            wanted: "the same (within 1 MB)".to_owned(),
            got: format!("{whole:.1} against {small:.1}"),
            met: (whole - small).abs() <= 1.0,
        });
    }
    if let Some(LatencyReport { sabir, cat }) = latency {
        let added = sabir.p99 - cat.p99;
        demands.push(Demand {
            what: "99 % of lines: microseconds more than through cat, when idle".to_owned(),
            wanted: "≤ 100".to_owned(),
            got: format!("{added:.0}"),
            met: added <= 100.0,
        });
    }
    demands
}

fn print(report: &Report, arguments: &Arguments) {
    for StreamReport { stream, work, small } in &report.streams {
        println!("\n{stream}, {} MB", report.megabytes);
        println!("  {:<34} {:>10} {:>9} {:>9} {:>9} {:>10}", "", "MB/CPU s", "CPU s", "wall s", "peak MB", "of typed");
        let typed = work.get(TYPED).map_or(f64::NAN, |typed| typed.speed);
        for (name, Work { speed, usage }) in ORDER.iter().filter_map(|name| Some((name, work.get(name)?))) {
            println!(
                "  {name:<34} {speed:>10.1} {:>9.2} {:>9.2} {:>9.1} {:>9.0}%",
                usage.cpu_seconds,
                usage.wall_seconds,
                usage.peak_bytes as f64 / 1e6,
                speed / typed * 100.0
            );
        }
        println!(
            "  {EVENTS} of {} MB: peak {:.1} MB; jq reads {} MB",
            arguments.small,
            small.peak_bytes as f64 / 1e6,
            arguments.jq
        );
    }
    if let Some(LatencyReport { sabir, cat }) = &report.latency {
        println!("\nlatency of one line, µs            median       99 %");
        println!("  {:<30} {:>8.0} {:>10.0}", "cat", cat.median, cat.p99);
        println!("  {:<30} {:>8.0} {:>10.0}", "sabir parse -", sabir.median, sabir.p99);
    }
    println!("\ndemands");
    for Demand { what, wanted, got, met } in &report.demands {
        println!("  {} {what}: {got} (wanted {wanted})", if *met { "met   " } else { "MISSED" });
    }
}
