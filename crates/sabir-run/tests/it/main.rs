//! Runs of real processes through the library: what its callers rely on and the command does not show.
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

/// Keeps all events.
#[derive(Default)]
struct Kept(Vec<Event<'static>>);

impl RunSink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        self.0.push(event.clone().into_owned());
    }
}

/// Writes an executable file. A shell writes it: a file that this process has open for writing is inherited by what other
/// tests start at the same moment, and can't be executed until they have closed it (`ETXTBSY`).
fn write_program(path: &Path, text: &str) {
    let mut shell = Command::new("/bin/sh");
    let mut shell =
        shell.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped()).spawn().expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    assert!(shell.wait().expect("it ends").success());
}

/// A script in a folder of its own that plays Claude Code.
fn config(folder: &tempfile::TempDir, text: &str) -> RunConfig {
    let registry = sabir_agents::builtin();
    let agent = registry.find("claude-code").expect("an agent").clone();
    let program = folder.path().join("agent");
    write_program(&program, &format!("#!/bin/sh\n{text}\n"));
    let command = agent.command(&Request { prompt: "do it", ..Request::default() }).expect("a command");
    let grace = Grace { drain: Duration::from_millis(300), ..Grace::default() };
    // Processes that hide are found by the id of their run, so each test has its own.
    let run_id = RunId::from(folder.path().display().to_string());
    RunConfig { run_id, grace, ..RunConfig::new(agent, program, command, "do it", folder.path().to_path_buf()) }
}

/// Runs of this process have a reaper.
fn with_reaper() {
    sabir_run::reaper::set_program(env!("CARGO_BIN_EXE_sabir-reaper"));
    sabir_run::supervisor::set_subreaper(false);
}

fn run(config: RunConfig) -> (RunOutcome, Vec<Event<'static>>) {
    with_reaper();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut kept = Kept::default();
    let result = runtime.block_on(sabir_run::run(config, CancelHandle::default().token(), &mut kept));
    (result, kept.0)
}

/// Both ways in which an output can be taken.
const OUTPUTS: [StdoutCapture; 2] = [StdoutCapture::Pipe, StdoutCapture::File];

#[test]
fn a_wrapper_that_dies_does_not_end_its_agent_s_run() {
    let folder = tempfile::tempdir().expect("a folder");
    // The agent answers long after the wrapper is gone and the grace for pipes is over.
    let text = format!(
        "rm -f began; setsid sh -c \"echo '{}'; echo >began; sleep 3; echo '{}'\" &\nwhile [ ! -s began ]; do :; done\nkill -9 $$",
        quoted(INIT),
        quoted(RESULT)
    );
    for output in OUTPUTS {
        let (result, events) = run(RunConfig { output, ..config(&folder, &text) });
        assert_eq!(result.outcome, Outcome::Completed, "{output:?}: {events:#?}");
        assert_eq!((result.end.signal.as_deref(), result.end.quiescent), (None, Some(true)), "{output:?}");
        assert!(
            events.iter().any(|event| matches!(&event.kind, EventKind::Final(Final { text, .. }) if text == "done")),
            "{output:?}"
        );
    }
}

#[test]
fn a_process_that_holds_the_pipe_after_the_result_does_not_keep_the_run_open() {
    let folder = tempfile::tempdir().expect("a folder");
    for output in OUTPUTS {
        let (result, _) = run(RunConfig { output, ..config(&folder, &format!("sleep 1000 &\necho '{INIT}'\necho '{RESULT}'")) });
        assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)), "{output:?}");
    }
}

#[test]
fn a_prompt_in_a_file_is_private_and_gone_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("cp \"$2\" copy; stat -c %a \"$2\" >mode; echo \"$2\" >name; echo '{INIT}'; echo '{RESULT}'");
    let command = CommandLine::default().prompt_by(PromptTransport::File("--message-file"));
    let (result, _) = run(RunConfig { command, ..config(&folder, &text) });
    assert_eq!(result.outcome, Outcome::Completed);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!((read("copy").as_str(), read("mode").trim()), ("do it", "600"));
    assert!(!PathBuf::from(read("name").trim()).exists());
}

#[test]
fn a_last_burst_larger_than_a_pipe_comes_whole() {
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

/// For use inside double quotes of a shell.
fn quoted(text: &str) -> String {
    text.replace('"', "\\\"")
}
