//! Stdout captured in a file: complete, live, and with the same outcomes as a pipe.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use sabir_core::event::{Event, EventKind, Outcome, Timeout, Unrecognized};
use sabir_core::launch::StdoutCapture;
use sabir_run::{CancelHandle, Limits, RunConfig, RunOutcome, RunSink};

use crate::{INIT, RESULT, config};

/// Calls a function for each event.
struct Each<F>(F);

impl<F: FnMut(&EventKind<'_>)> RunSink for Each<F> {
    fn event(&mut self, event: &Event<'_>) {
        (self.0)(&event.kind);
    }
}

/// Configuration for a script whose stdout is a file. The run limit ends a hanging run with a different outcome.
fn file(folder: &tempfile::TempDir, text: &str) -> RunConfig {
    let limits = Limits { run: Some(Duration::from_secs(60)), ..Limits::default() };
    config(folder, text).output(StdoutCapture::File).limits(limits)
}

fn run_with(config: RunConfig, handle: &CancelHandle, each: impl FnMut(&EventKind<'_>)) -> RunOutcome {
    crate::with_reaper();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(sabir_run::run(config, handle.token(), &mut Each(each)))
}

fn run(config: RunConfig, each: impl FnMut(&EventKind<'_>)) -> RunOutcome {
    run_with(config, &CancelHandle::default(), each)
}

/// Unblocks a script that reads a line from the FIFO `go`, which it has created.
fn unblock(folder: &Path) {
    let mut pipe = fs::OpenOptions::new().write(true).open(folder.join("go")).expect("the script waits");
    writeln!(pipe, "go").expect("the script reads");
}

#[test]
fn file_is_private_and_unlinked() {
    let folder = tempfile::tempdir().expect("a folder");
    let result = run(
        file(&folder, &format!("exec 3>&1; stat -L -c '%F %a %h' /proc/$$/fd/3 >what; echo '{INIT}'; echo '{RESULT}'")),
        |_| {},
    );
    assert_eq!(result.outcome, Outcome::Completed);
    assert_eq!(fs::read_to_string(folder.path().join("what")).expect("written").trim(), "regular empty file 600 0");
}

#[test]
fn file_long_last_line_is_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("echo '{INIT}'; echo '{RESULT}'; head -c 3000000 /dev/zero | tr '\\0' x");
    let mut longest = 0;
    let result = run(file(&folder, &text), |kind| {
        if let EventKind::Unrecognized(Unrecognized { raw, .. }) = kind {
            longest = longest.max(raw.len());
        }
    });
    assert_eq!((result.outcome, longest), (Outcome::Completed, 3_000_000));
}

#[test]
fn file_events_are_live() {
    let folder = tempfile::tempdir().expect("a folder");
    // The agent continues only after its first line was reported.
    let text = format!("mkfifo go; echo '{INIT}'; read word <go; echo '{RESULT}'");
    let result = run(file(&folder, &text), |kind| {
        if matches!(kind, EventKind::Session(_)) {
            unblock(folder.path());
        }
    });
    assert_eq!(result.outcome, Outcome::Completed);
}

#[test]
fn file_frees_disk_space_of_read_output() {
    const LINES: usize = 14_000;
    let folder = tempfile::tempdir().expect("a folder");
    let long = "x".repeat(1_500);
    let text = format!(
        "mkfifo go; exec 3>&1; echo '{INIT}'; seq -f '{{\"type\":\"new\",\"number\":%.0f,\"text\":\"{long}\"}}' {LINES}; echo '{{\"type\":\"last\"}}'
read word <go; stat -L -c '%b %B %s' /proc/$$/fd/3 >stat; echo '{RESULT}'"
    );
    let mut count = 0;
    let result = run(file(&folder, &text), |kind| {
        if let EventKind::Unrecognized(Unrecognized { r#type, .. }) = kind {
            count += 1;
            if r#type.as_deref() == Some("last") {
                unblock(folder.path());
            }
        }
    });
    assert_eq!((result.outcome, count), (Outcome::Completed, LINES + 1));
    let stat = fs::read_to_string(folder.path().join("stat")).expect("written");
    let numbers: Vec<u64> = stat.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    let (taken, size) = (numbers[0] * numbers[1], numbers[2]);
    assert!(size > 20_000_000, "{size}");
    if cfg!(target_os = "linux") {
        assert!(taken < 12_000_000, "{taken} of {size}");
    }
}

#[test]
fn file_run_ends_although_orphan_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("setsid sh -c 'while echo \"{{}}\"; do sleep 0.01; done' &\necho '{INIT}'; echo '{RESULT}'");
    let result = run(file(&folder, &text), |_| {});
    assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)));
}

#[test]
fn file_ends_when_no_process_has_it_open() {
    let folder = tempfile::tempdir().expect("a folder");
    // Only the end of the file can end this run: the drain period is longer than the run limit.
    let config = file(&folder, &format!("setsid sleep 1000 >/dev/null 2>&1 &\necho '{INIT}'; echo '{RESULT}'"));
    let grace = sabir_run::Grace { drain: Duration::from_secs(600), ..config.grace };
    let result = run(config.grace(grace), |_| {});
    assert_eq!((result.outcome, result.end.timeout, result.end.quiescent), (Outcome::Completed, None, Some(true)));
}

#[test]
fn file_cancel_keeps_earlier_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let handle = CancelHandle::default();
    let text = format!("trap 'echo \"{{}}\"; exit 0' INT\necho '{INIT}'\nsleep 1000 &\nwait");
    let mut lines = 0;
    let result = run_with(file(&folder, &text), &handle, |kind| match kind {
        EventKind::Session(_) => drop(handle.cancel()),
        EventKind::Unrecognized(_) => lines += 1,
        _ => {}
    });
    assert_eq!((result.outcome, result.end.quiescent, lines), (Outcome::Cancelled, Some(true), 1));
}

#[test]
fn file_limits_apply() {
    let timeout = Some(Duration::from_millis(300));
    let cases = [
        (format!("echo '{INIT}'; sleep 1000"), Limits { run: timeout, ..Limits::default() }, Timeout::Run),
        ("sleep 1000".to_owned(), Limits { first_output: timeout, ..Limits::default() }, Timeout::FirstOutput),
        (format!("echo '{INIT}'; sleep 1000"), Limits { inactivity: timeout, ..Limits::default() }, Timeout::Inactivity),
        // No further events are possible, although the agent is alive.
        (
            format!("echo '{INIT}'; exec >&- 2>&-; sleep 1000"),
            Limits { after_result: timeout, ..Limits::default() },
            Timeout::Inactivity,
        ),
    ];
    for (text, limits, limit) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let result = run(file(&folder, &text).limits(limits), |_| {});
        assert_eq!((result.outcome, result.end.timeout), (Outcome::TimedOut, Some(limit)), "{text}");
        assert_eq!(result.end.quiescent, Some(true), "{text}");
    }
}

#[test]
fn file_truncation_restarts_reading() {
    let folder = tempfile::tempdir().expect("a folder");
    // The data before the truncation is longer than the data after it, so the file is always shorter than the read offset.
    let long = "x".repeat(1_000);
    let text = format!("mkfifo go; echo '{long}'; echo '{INIT}'; read word <go; : >/proc/$$/fd/1; echo '{RESULT}'");
    let result = run(file(&folder, &text), |kind| {
        if matches!(kind, EventKind::Session(_)) {
            unblock(folder.path());
        }
    });
    assert_eq!(result.outcome, Outcome::Completed);
}
