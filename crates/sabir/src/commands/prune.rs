//! `sabir prune`: removes old runs from the journal.

use std::time::{Duration, SystemTime};

use sabir_core::time::Timestamp;
use sabir_store::prune::{self, Rules, Stored};
use sabir_store::{Home, RunFolder};
use serde::Serialize;

use crate::cli::PruneArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::json::{Out, object};
use crate::print::{self, table};
use crate::when;

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pruned<'a> {
    schema: &'static str,
    home: String,
    /// Nothing was removed.
    dry_run: bool,
    runs: Vec<Listed<'a>>,
    /// What they take, or took, on the disk.
    bytes: u64,
    /// What stays.
    left: Left,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    run_id: &'a str,
    bytes: u64,
    written: Option<Timestamp>,
}

#[derive(Serialize)]
struct Left {
    runs: usize,
    bytes: u64,
    live: usize,
}

pub(crate) fn run(arguments: &PruneArguments) -> Result<Exit, Failure> {
    let older_than = arguments.older_than.as_deref().map(age).transpose()?;
    let rules = Rules { older_than, max_bytes: arguments.max_size, keep: arguments.keep };
    if rules == Rules::default() {
        return Err(Failure::usage("nothing says which runs may go")
            .hint("sabir prune --older-than 30d, or --max-size 2GB, or --keep 100; without --yes nothing is removed"));
    }
    let home = Home::find().map_err(|trouble| Failure::usage(trouble.what).hint("SABIR_HOME names the folder"))?;
    let stored = prune::stored(&home).map_err(|error| unreadable(&home, &error))?;
    let mut chosen = prune::choose(&stored, &rules, SystemTime::now());
    let mut exit = Exit::Completed;
    if arguments.yes {
        prune::sweep(&home).map_err(|error| unreadable(&home, &error))?;
        chosen.retain(|run| match remove(&run.folder) {
            Ok(removed) => removed,
            Err(failure) => {
                print::failure(&failure);
                exit = failure.exit;
                false
            }
        });
    }
    let bytes = chosen.iter().map(|run| run.bytes).sum();
    let left = Left {
        runs: stored.len() - chosen.len(),
        bytes: stored.iter().map(|run| run.bytes).sum::<u64>() - bytes,
        live: stored.iter().filter(|run| run.live).count(),
    };
    if arguments.json {
        let mut out = Out::default();
        let runs = chosen.iter().map(|run| Listed { run_id: run.folder.id(), bytes: run.bytes, written: time(run) }).collect();
        let home = home.path().display().to_string();
        object(&Pruned { schema: "sabir.prune/1", home, dry_run: !arguments.yes, runs, bytes, left }, out.buffer())?;
        out.write()?;
        return Ok(exit);
    }
    if !chosen.is_empty() {
        let written = |run: &Stored| time(run).map_or_else(|| "?".to_owned(), |at| at.to_string());
        let rows: Vec<_> = chosen.iter().map(|run| vec![run.folder.id().to_owned(), written(run), readable(run.bytes)]).collect();
        table::print(&["RUN", "LAST WRITTEN", "SIZE"], &rows)?;
    }
    let did = if arguments.yes { "removed" } else { "would remove" };
    print::note(&format!(
        "{did} {} of {} runs, {} of {}; {} going on",
        chosen.len(),
        stored.len(),
        readable(bytes),
        readable(bytes + left.bytes),
        left.live
    ));
    if !arguments.yes && !chosen.is_empty() {
        print::hint("--yes removes them");
    }
    Ok(exit)
}

/// How long ago a time was that the user gave.
fn age(text: &str) -> Result<Duration, Failure> {
    let then = when::parse(text, &when::zone(None)?, false)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ago = i64::try_from(since.as_millis()).ok().and_then(|now| u64::try_from(now.checked_sub(then)?).ok());
    ago.map(Duration::from_millis)
        .ok_or_else(|| Failure::usage(format!("`{text}` is in the future")).hint("use an age (30d) or a past date"))
}

/// Removes a run; false when it goes on again.
fn remove(run: &RunFolder) -> Result<bool, Failure> {
    prune::remove(run).map_err(|error| Failure::io(format_args!("can't remove {}", run.path().display()), &error))
}

/// Says which journal can't be read.
pub(crate) fn unreadable(home: &Home, error: &std::io::Error) -> Failure {
    Failure::io(format_args!("can't read the journal in {}", home.path().display()), error)
        .hint("SABIR_HOME names the folder that it is in")
}

fn time(run: &Stored) -> Option<Timestamp> {
    let since = run.written.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?)
}

/// A size like 500MB, 2GB or 1.5GiB; a bare number is bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => f64::NAN,
    };
    let bytes = number.parse::<f64>().map_or(f64::NAN, |number| number * unit);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked whether it fits")]
    if (0.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err("give a size like 500MB, 2GB or 1GiB".to_owned()) }
}

/// A size as people read it.
fn readable(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(unit, _)| bytes as f64 >= *unit);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit))
}

#[cfg(test)]
mod tests {
    use super::{readable, size};

    #[test]
    fn sizes_are_read_and_written_as_people_do() {
        assert_eq!((size("2GB"), size("500 mb"), size("1.5GiB")), (Ok(2_000_000_000), Ok(500_000_000), Ok(1_610_612_736)));
        assert_eq!((size("0"), size("12b")), (Ok(0), Ok(12)));
        assert!(["", "GB", "-1", "1XB", "1e99", "nan"].iter().all(|text| size(text).is_err()));
        assert_eq!(
            [0, 999, 1_500, 2_000_000, 3_450_000_000].map(readable),
            ["0 B", "999 B", "1.5 kB", "2.0 MB", "3.5 GB"].map(str::to_owned)
        );
    }
}
