//! An output that is taken by a file: all of it comes, while it is written, and every ending works as with a pipe.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use sabir_core::event::{Event, EventKind, Outcome, Timeout, Unrecognized};
use sabir_core::launch::StdoutCapture;
use sabir_run::{CancelHandle, Limits, RunConfig, RunOutcome, RunSink};

use crate::{INIT, RESULT, config};

/// Does something at each event.
struct Each<F>(F);

impl<F: FnMut(&EventKind<'_>)> RunSink for Each<F> {
    fn event(&mut self, event: &Event<'_>) {
        (self.0)(&event.kind);
    }
}

/// A script whose output is a file. A run that would wait for ever ends, with another outcome than the one that is wanted.
fn file(folder: &tempfile::TempDir, text: &str) -> RunConfig {
    let limits = Limits { run: Some(Duration::from_secs(60)), ..Limits::default() };
    RunConfig { output: StdoutCapture::File, limits, ..config(folder, text) }
}

fn run_with(config: RunConfig, handle: &CancelHandle, each: impl FnMut(&EventKind<'_>)) -> RunOutcome {
    crate::with_reaper();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(sabir_run::run(config, handle.token(), &mut Each(each)))
}

fn run(config: RunConfig, each: impl FnMut(&EventKind<'_>)) -> RunOutcome {
    run_with(config, &CancelHandle::default(), each)
}

/// Lets a script go on that reads a line from the pipe `go`, which it has made.
fn go_on(folder: &Path) {
    let mut pipe = fs::OpenOptions::new().write(true).open(folder.join("go")).expect("the script waits");
    writeln!(pipe, "go").expect("the script reads");
}

#[test]
fn the_file_is_private_and_has_no_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let result = run(
        file(&folder, &format!("exec 3>&1; stat -L -c '%F %a %h' /proc/$$/fd/3 >what; echo '{INIT}'; echo '{RESULT}'")),
        |_| {},
    );
    assert_eq!(result.outcome, Outcome::Completed);
    assert_eq!(fs::read_to_string(folder.path().join("what")).expect("written").trim(), "regular empty file 600 0");
}

#[test]
fn a_line_of_megabytes_just_before_the_exit_comes_whole() {
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
fn an_event_comes_before_the_agent_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    // The agent goes on only when its first line was told.
    let text = format!("mkfifo go; echo '{INIT}'; read word <go; echo '{RESULT}'");
    let result = run(file(&folder, &text), |kind| {
        if matches!(kind, EventKind::Session(_)) {
            go_on(folder.path());
        }
    });
    assert_eq!(result.outcome, Outcome::Completed);
}

#[test]
fn a_flood_comes_whole_and_what_was_read_takes_no_room() {
    const LINES: usize = 14_000;
    let folder = tempfile::tempdir().expect("a folder");
    let long = "x".repeat(1_500);
    let text = format!(
        "mkfifo go; exec 3>&1; echo '{INIT}'; seq -f '{{\"type\":\"new\",\"number\":%.0f,\"text\":\"{long}\"}}' {LINES}; echo '{{\"type\":\"last\"}}'
read word <go; stat -L -c '%b %B %s' /proc/$$/fd/3 >room; echo '{RESULT}'"
    );
    let mut count = 0;
    let result = run(file(&folder, &text), |kind| {
        if let EventKind::Unrecognized(Unrecognized { r#type, .. }) = kind {
            count += 1;
            if r#type.as_deref() == Some("last") {
                go_on(folder.path());
            }
        }
    });
    assert_eq!((result.outcome, count), (Outcome::Completed, LINES + 1));
    let room = fs::read_to_string(folder.path().join("room")).expect("written");
    let figures: Vec<u64> = room.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect();
    let (taken, size) = (figures[0] * figures[1], figures[2]);
    assert!(size > 20_000_000, "{size}");
    if cfg!(target_os = "linux") {
        assert!(taken < 12_000_000, "{taken} of {size}");
    }
}

#[test]
fn a_grandchild_that_goes_on_writing_does_not_keep_the_run_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("setsid sh -c 'while echo \"{{}}\"; do sleep 0.01; done' &\necho '{INIT}'; echo '{RESULT}'");
    let result = run(file(&folder, &text), |_| {});
    assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)));
}

#[test]
fn a_grandchild_that_does_not_hold_the_file_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nothing but the end of the file ends this run: the grace for who holds it is longer than the limit.
    let config = file(&folder, &format!("setsid sleep 1000 >/dev/null 2>&1 &\necho '{INIT}'; echo '{RESULT}'"));
    let grace = sabir_run::Grace { drain: Duration::from_secs(600), ..config.grace };
    let result = run(RunConfig { grace, ..config }, |_| {});
    assert_eq!((result.outcome, result.end.timeout, result.end.quiescent), (Outcome::Completed, None, Some(true)));
}

#[test]
fn a_cancel_ends_it_and_what_was_said_before_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let handle = CancelHandle::default();
    let text = format!("trap 'echo \"{{}}\"; exit 0' INT\necho '{INIT}'\nsleep 1000 &\nwait");
    let mut said = 0;
    let result = run_with(file(&folder, &text), &handle, |kind| match kind {
        EventKind::Session(_) => drop(handle.cancel()),
        EventKind::Unrecognized(_) => said += 1,
        _ => {}
    });
    assert_eq!((result.outcome, result.end.quiescent, said), (Outcome::Cancelled, Some(true), 1));
}

#[test]
fn limits_end_it() {
    let short = Some(Duration::from_millis(300));
    let cases = [
        (format!("echo '{INIT}'; sleep 1000"), Limits { run: short, ..Limits::default() }, Timeout::Run),
        ("sleep 1000".to_owned(), Limits { first_output: short, ..Limits::default() }, Timeout::FirstOutput),
        (format!("echo '{INIT}'; sleep 1000"), Limits { inactivity: short, ..Limits::default() }, Timeout::Inactivity),
        // It can say nothing more, and that is noticed though it lives.
        (
            format!("echo '{INIT}'; exec >&- 2>&-; sleep 1000"),
            Limits { after_result: short, ..Limits::default() },
            Timeout::Inactivity,
        ),
    ];
    for (text, limits, limit) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let result = run(RunConfig { limits, ..file(&folder, &text) }, |_| {});
        assert_eq!((result.outcome, result.end.timeout), (Outcome::TimedOut, Some(limit)), "{text}");
        assert_eq!(result.end.quiescent, Some(true), "{text}");
    }
}

#[test]
fn a_file_that_somebody_emptied_is_read_from_its_start() {
    let folder = tempfile::tempdir().expect("a folder");
    // What was read is longer than what comes after, so that the file is shorter than it was whenever it is looked at.
    let long = "x".repeat(1_000);
    let text = format!("mkfifo go; echo '{long}'; echo '{INIT}'; read word <go; : >/proc/$$/fd/1; echo '{RESULT}'");
    let result = run(file(&folder, &text), |kind| {
        if matches!(kind, EventKind::Session(_)) {
            go_on(folder.path());
        }
    });
    assert_eq!(result.outcome, Outcome::Completed);
}
