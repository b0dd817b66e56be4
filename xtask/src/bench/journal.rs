//! `cargo xtask bench journal`: how fast a run can be kept, and what that costs.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use sabir_store::{Home, Journal, Kind};

use super::measure::{Usage, measured};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many events are appended
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// How many bytes each has
    #[arg(long, default_value_t = 300)]
    bytes: usize,
    /// How often everything is measured; the best counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Where to write; it is emptied
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct AppendArguments {
    kind: Way,
    folder: PathBuf,
    #[arg(long)]
    events: u64,
    #[arg(long)]
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// Through the journal
    Journal,
    /// A loop that writes and syncs after 100 events or 20 ms
    Synced,
    /// A loop that writes and never syncs
    Unsynced,
}

const WAYS: [(Way, &str, &str); 3] = [
    (Way::Journal, "journal", "journal"),
    (Way::Synced, "synced", "bare loop, fdatasync after 100 or 20 ms"),
    (Way::Unsynced, "unsynced", "bare loop, no fdatasync"),
];

/// Appends events in one of the ways.
pub(crate) fn append(arguments: &AppendArguments) -> Result<()> {
    let event = vec![b'x'; arguments.bytes];
    if arguments.kind == Way::Journal {
        let journal = Journal::open(&Home::at(&arguments.folder), "bench").map_err(|trouble| anyhow!(trouble))?;
        for _ in 0..arguments.events {
            journal.append(Kind::Event, 0, |out| out.extend_from_slice(&event)).context("the journal failed")?;
        }
        return journal.finish().map_err(|trouble| anyhow!(trouble));
    }
    std::fs::create_dir_all(&arguments.folder)?;
    let mut file = File::create(arguments.folder.join("bare"))?;
    let mut group = Vec::new();
    let mut began = Instant::now();
    for number in 1..=arguments.events {
        group.extend_from_slice(&event);
        if number.is_multiple_of(100) || number == arguments.events || began.elapsed() >= Duration::from_millis(20) {
            file.write_all(&group)?;
            group.clear();
            if arguments.kind == Way::Synced {
                file.sync_data()?;
            }
            began = Instant::now();
        }
    }
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    super::build()?;
    let xtask = crate::root().join("target/release/xtask");
    let folder = arguments.folder.clone().unwrap_or_else(|| crate::root().join("target/bench-journal"));
    let mut best: [Option<Usage>; WAYS.len()] = [None; WAYS.len()];
    for _ in 0..arguments.rounds {
        // One after the other within a round, so that what else the machine does meets all of them.
        for (best, (_, name, _)) in best.iter_mut().zip(WAYS) {
            if folder.exists() {
                std::fs::remove_dir_all(&folder).with_context(|| format!("could not empty {}", folder.display()))?;
            }
            let events = arguments.events.to_string();
            let bytes = arguments.bytes.to_string();
            let words = ["bench", "append", name, "--events", &events, "--bytes", &bytes].map(OsString::from);
            let command: Vec<OsString> =
                std::iter::once(xtask.clone().into()).chain(words).chain([folder.clone().into_os_string()]).collect();
            let usage = measured(&xtask, &command)?;
            if best.is_none_or(|before| usage.wall_seconds < before.wall_seconds) {
                *best = Some(usage);
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!("{} events of {} bytes, the best of {}", arguments.events, arguments.bytes, arguments.rounds);
    println!("  {:<42} {:>12} {:>9} {:>14} {:>10}", "", "events/s", "MB/s", "CPU µs/event", "peak MB");
    let rate = |usage: &Usage| arguments.events as f64 / usage.wall_seconds;
    for (usage, (_, _, about)) in best.iter().zip(WAYS) {
        let Some(usage) = usage else { continue };
        let megabytes = rate(usage) * arguments.bytes as f64 / 1e6;
        let cpu = usage.cpu_seconds * 1e6 / arguments.events as f64;
        println!("  {about:<42} {:>12.0} {megabytes:>9.1} {cpu:>14.2} {:>10.1}", rate(usage), usage.peak_bytes as f64 / 1e6);
    }
    if let [Some(journal), Some(synced), Some(unsynced)] = &best {
        println!("  journal / synced loop    {:.2} × the events", rate(journal) / rate(synced));
        println!("  journal / unsynced loop  {:.2} × the events", rate(journal) / rate(unsynced));
        println!("  journal / unsynced loop  {:.2} × the CPU", journal.cpu_seconds / unsynced.cpu_seconds);
    }
    Ok(())
}
