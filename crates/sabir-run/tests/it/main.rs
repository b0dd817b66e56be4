//! Library tests with real processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod output;
#[cfg(target_os = "linux")]
mod quiescence;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sabir_core::event::{Event, EventKind, Final, Outcome, RunId, Unrecognized};
use sabir_core::launch::{CommandLine, PromptTransport, Request, StdoutCapture};
use sabir_run::{CancelHandle, Grace, RunConfig, RunOutcome, RunSink};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/w","tools":[]}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1}"#;

/// Collects all events.
#[derive(Default)]
struct Collected(Vec<Event<'static>>);

impl RunSink for Collected {
    fn event(&mut self, event: &Event<'_>) {
        self.0.push(event.clone().into_owned());
    }
}

/// Writes an executable file through a shell. If this process wrote it, a concurrently started child could inherit the
/// descriptor, and executing the file would fail with `ETXTBSY`.
fn write_program(path: &Path, text: &str) {
    let mut shell = Command::new("/bin/sh");
    let mut shell =
        shell.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped()).spawn().expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    assert!(shell.wait().expect("it ends").success());
}

/// Configuration for a script that imitates Claude Code, in its own directory.
fn config(folder: &tempfile::TempDir, text: &str) -> RunConfig {
    let registry = sabir_agents::builtin();
    let agent = registry.find("claude-code").expect("an agent").clone();
    let program = folder.path().join("agent");
    write_program(&program, &format!("#!/bin/sh\n{text}\n"));
    let command = agent.command(&Request { prompt: "do it", ..Request::default() }).expect("a command");
    let grace = Grace { drain: Duration::from_millis(300), ..Grace::default() };
    // Detached processes are found by the run id, so it must be unique per test.
    let run_id = RunId::from(folder.path().display().to_string());
    RunConfig::new(agent, program, command, "do it", folder.path().to_path_buf()).run_id(run_id).grace(grace)
}

/// Configures the reaper for runs of this process.
fn with_reaper() {
    sabir_run::reaper::set_program(env!("CARGO_BIN_EXE_sabir-reaper"));
    sabir_run::supervisor::set_subreaper(false);
}

fn run(config: RunConfig) -> (RunOutcome, Vec<Event<'static>>) {
    with_reaper();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut collected = Collected::default();
    let result = runtime.block_on(sabir_run::run(config, CancelHandle::default().token(), &mut collected));
    (result, collected.0)
}

/// Both kinds of stdout capture.
const OUTPUTS: [StdoutCapture; 2] = [StdoutCapture::Pipe, StdoutCapture::File];

#[test]
fn run_continues_after_wrapper_exits() {
    let folder = tempfile::tempdir().expect("a folder");
    // The agent answers long after the wrapper exited and the drain period passed.
    let text = format!(
        "rm -f began; setsid sh -c \"echo '{}'; echo >began; sleep 3; echo '{}'\" &\nwhile [ ! -s began ]; do :; done\nkill -9 $$",
        quoted(INIT),
        quoted(RESULT)
    );
    for output in OUTPUTS {
        let (result, events) = run(config(&folder, &text).output(output));
        assert_eq!(result.outcome, Outcome::Completed, "{output:?}: {events:#?}");
        assert_eq!((result.end.signal.as_deref(), result.end.quiescent), (None, Some(true)), "{output:?}");
        assert!(
            events.iter().any(|event| matches!(&event.kind, EventKind::Final(Final { text, .. }) if text == "done")),
            "{output:?}"
        );
    }
}

#[test]
fn run_ends_although_orphan_holds_stdout() {
    let folder = tempfile::tempdir().expect("a folder");
    for output in OUTPUTS {
        let (result, _) = run(config(&folder, &format!("sleep 1000 &\necho '{INIT}'\necho '{RESULT}'")).output(output));
        assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)), "{output:?}");
    }
}

#[test]
fn run_deletes_private_prompt_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("cp \"$2\" copy; stat -c %a \"$2\" >mode; echo \"$2\" >name; echo '{INIT}'; echo '{RESULT}'");
    let command = CommandLine::default().prompt_by(PromptTransport::File("--message-file"));
    let mut config = config(&folder, &text);
    config.command = command;
    let (result, _) = run(config);
    assert_eq!(result.outcome, Outcome::Completed);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!((read("copy").as_str(), read("mode").trim()), ("do it", "600"));
    assert!(!PathBuf::from(read("name").trim()).exists());
}

#[test]
fn run_reads_output_larger_than_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let (result, events) =
        run(config(&folder, &format!("echo '{INIT}'; head -c 900000 /dev/zero | tr '\\0' x; echo; echo '{RESULT}'")));
    assert_eq!(result.outcome, Outcome::Completed);
    let longest = events.iter().filter_map(|event| match &event.kind {
        EventKind::Unrecognized(Unrecognized { raw, .. }) => Some(raw.len()),
        _ => None,
    });
    assert_eq!(longest.max(), Some(900_000));
}

/// Escapes text for double quotes of a shell.
fn quoted(text: &str) -> String {
    text.replace('"', "\\\"")
}
