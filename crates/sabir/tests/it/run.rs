//! `sabir run` on real processes: how runs end, and that nothing of them is left.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{sabir, stderr, stdout};

pub(crate) const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m","cwd":"/w","tools":[]}"#;
pub(crate) const RESULT: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1,"duration_ms":5}"#;
const TOOL: &str = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"wait"}}]},"session_id":"s"}"#;

/// A shell script that plays an agent, in a folder of its own.
pub(crate) struct Script {
    pub(crate) folder: tempfile::TempDir,
}

impl Script {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = Self { folder };
        fs::write(script.path(), format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(script.path(), fs::Permissions::from_mode(0o755)).expect("executable");
        script
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// A file beside the script, which is its working folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `sabir run claude-code` with this script as its program, and a journal beside it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = sabir();
        command
            .args(["run", "claude-code", "do it", "--json", "--program"])
            .arg(self.path())
            .arg("--cwd")
            .arg(self.folder.path())
            .env("SABIR_HOME", self.file("home"))
            .env_remove("SABIR_JOURNAL");
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.start(arguments).wait_with_output().expect("it ends")
    }

    /// The process whose number the script wrote into that file is gone.
    fn assert_gone(&self, name: &str) {
        let pid = fs::read_to_string(self.file(name)).expect("a process was started");
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} is left");
    }
}

pub(crate) fn events(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// The last event of a run.
fn exited(output: &Output) -> Value {
    let last = events(output).pop().expect("events");
    assert_eq!(last["kind"], "exited", "{last}");
    last
}

/// Reads events until one of that kind has come; keeps the rest readable.
pub(crate) fn wait_for(child: &mut Child, kind: &str) -> BufReader<std::process::ChildStdout> {
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while reader.read_line(&mut line).expect("readable") > 0 {
        let event: Value = serde_json::from_str(&line).expect("an event");
        if event["kind"] == kind {
            return reader;
        }
        line.clear();
    }
    panic!("no {kind} came");
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), signal).expect("delivered");
}

/// Reads to the end and waits; exit code and last event.
fn rest(mut child: Child, reader: BufReader<std::process::ChildStdout>) -> (Option<i32>, Value) {
    let last = reader.lines().map(|line| line.expect("readable")).last().expect("more events");
    (child.wait().expect("it ends").code(), serde_json::from_str(&last).expect("an event"))
}

#[test]
fn a_run_that_completes_exits_with_0() {
    let script = Script::new(&format!("cat >prompt\necho '{INIT}'\necho careful >&2\nprintf '%s' '{RESULT}'"));
    let output = script.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let exited = exited(&output);
    assert_eq!((exited["outcome"].as_str(), exited["quiescent"].as_bool()), (Some("completed"), Some(true)));
    assert_eq!(fs::read_to_string(script.file("prompt")).expect("a prompt"), "do it");
    let kinds: Vec<String> = events(&output).iter().map(|event| event["kind"].to_string()).collect();
    assert!(kinds.contains(&"\"activity\"".to_owned()) && kinds.contains(&"\"final\"".to_owned()), "{kinds:?}");
}

#[test]
fn a_run_that_fails_exits_with_1_and_one_that_breaks_off_too() {
    let cases = [
        (format!("echo '{INIT}'; echo '{RESULT}'; exit 9"), "failed"),
        (format!("echo '{INIT}'"), "incomplete"),
        (format!("echo '{INIT}'; kill -9 $$"), "crashed"),
        ("exit 7".to_owned(), "failed"),
        (String::new(), "incomplete"),
        ("head -c 4096 /dev/zero".to_owned(), "incomplete"),
    ];
    for (text, outcome) in cases {
        let output = Script::new(&text).run(&[]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(exited(&output)["outcome"], outcome, "{text}");
        assert!(stderr(&output).contains(outcome), "{text}: {}", stderr(&output));
    }
}

#[test]
fn what_an_agent_cannot_promise_is_bad_usage() {
    for (arguments, what) in [
        (&["run", "codex", "--max-turns", "3", "x"][..], "can't limit its turns"),
        (&["run", "bob", "--permission", "read-only", "x"], "can't guarantee"),
        (&["run", "localexec", "--continue", "x"], "can't continue"),
        (&["run", "claude", "--cwd", "/no/such/folder", "x"], "is not a folder"),
        (&["run", "claude", " "], "there is no prompt"),
    ] {
        let output = sabir().args(arguments).output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(what) && stderr(&output).contains("hint:"), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn an_agent_that_is_not_there_exits_with_3() {
    let empty = tempfile::tempdir().expect("a folder");
    let output = sabir().args(["run", "codex", "--json", "x"]).env("PATH", empty.path()).output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("hint: npm install"), "{}", stderr(&output));
    let exited = exited(&output);
    assert_eq!((&exited["outcome"], &exited["cause"]), (&"startFailed".into(), &"agentNotFound".into()));

    fs::write(empty.path().join("codex"), "#!/bin/sh\n").expect("written");
    let output = sabir().args(["run", "codex", "x"]).env("PATH", empty.path()).output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("may not be executed") && stderr(&output).contains("hint: chmod"), "{}", stderr(&output));
}

#[test]
fn a_program_without_its_interpreter_never_began() {
    let script = Script::new("");
    fs::write(script.path(), "#!/no/such/interpreter\n").expect("written");
    let output = script.run(&[]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(exited(&output)["outcome"], "startFailed");
}

#[test]
fn the_first_signal_stops_in_good_order_and_exits_with_4() {
    let script = Script::new(&format!("trap 'exit 0' INT\nsleep 1000 &\necho $! >child\necho '{INIT}'\nwait"));
    let mut child = script.start(&[]);
    let reader = wait_for(&mut child, "session");
    signal(&child, Signal::SIGINT);
    let (code, exited) = rest(child, reader);
    assert_eq!((code, &exited["outcome"], &exited["cancelled"]), (Some(4), &"cancelled".into(), &true.into()));
    assert_eq!(exited["quiescent"], true);
    script.assert_gone("child");
}

#[test]
fn the_second_signal_kills_and_exits_with_130() {
    let script = Script::new(&format!("trap '' INT TERM\necho $$ >pid\necho '{INIT}'\nwhile :; do sleep 1000; done"));
    let mut child = script.start(&[]);
    let reader = wait_for(&mut child, "session");
    // Standard error says when the first one has arrived; two at once would be one.
    let mut talk = BufReader::new(child.stderr.take().expect("a pipe"));
    signal(&child, Signal::SIGINT);
    let mut line = String::new();
    talk.read_line(&mut line).expect("readable");
    assert!(line.contains("stopping"), "{line}");
    signal(&child, Signal::SIGINT);
    let (code, exited) = rest(child, reader);
    assert_eq!((code, &exited["quiescent"]), (Some(130), &true.into()));
    script.assert_gone("pid");
}

#[test]
fn each_limit_ends_a_run_with_5() {
    let cases = [
        (format!("echo '{INIT}'; sleep 1000"), "--timeout", "run"),
        ("sleep 1000".to_owned(), "--first-output-timeout", "firstOutput"),
        (format!("echo '{INIT}'; sleep 1000"), "--idle-timeout", "inactivity"),
        (format!("echo '{INIT}'; echo '{TOOL}'; sleep 1000"), "--tool-timeout", "tool"),
        (format!("echo '{INIT}'; exec >&- 2>&-; sleep 1000"), "--exit-timeout", "inactivity"),
    ];
    for (text, flag, limit) in cases {
        let output = Script::new(&text).run(&[flag, "300ms"]);
        let exited = exited(&output);
        assert_eq!((output.status.code(), &exited["timeout"]), (Some(5), &limit.into()), "{flag}: {exited}");
        assert_eq!((&exited["outcome"], &exited["quiescent"]), (&"timedOut".into(), &true.into()), "{flag}");
        assert!(stderr(&output).contains("hint:"), "{flag}: {}", stderr(&output));
    }
}

#[test]
fn an_open_tool_is_no_silence() {
    // The limit on silence is far below the time that the tool takes; only the limit on tools may end it.
    let script = Script::new(&format!("echo '{INIT}'; echo '{TOOL}'; sleep 1000"));
    let output = script.run(&["--idle-timeout", "4s", "--tool-timeout", "5s"]);
    assert_eq!(exited(&output)["timeout"], "tool");
}

#[test]
fn an_agent_that_hangs_after_its_answer_is_ended_and_has_completed() {
    let script = Script::new(&format!("echo $$ >pid; echo '{INIT}'; echo '{RESULT}'; sleep 1000"));
    let output = script.run(&["--exit-timeout", "200ms"]);
    let exited = exited(&output);
    assert_eq!((output.status.code(), &exited["outcome"]), (Some(0), &"completed".into()), "{exited}");
    assert_eq!((&exited["timeout"], &exited["quiescent"]), (&"afterResult".into(), &true.into()));
    script.assert_gone("pid");
}

/// A grandchild that is in a session of its own, ignores polite signals and holds standard output; the second one has not
/// even our environment.
const STUBBORN: &str = "\
setsid sh -c 'trap \"\" INT TERM; echo $$ >one; while :; do sleep 1000; done' &
setsid env -i /bin/sh -c 'trap \"\" INT TERM; echo $$ >two; while :; do /bin/sleep 1000; done' &
while [ ! -s one ] || [ ! -s two ]; do :; done";

#[test]
fn grandchildren_that_hide_are_ended_when_the_agent_ends() {
    let script = Script::new(&format!("{STUBBORN}\necho '{INIT}'\necho '{RESULT}'"));
    let output = script.run(&[]);
    let exited = exited(&output);
    assert_eq!((output.status.code(), &exited["quiescent"]), (Some(0), &true.into()), "{exited}");
    script.assert_gone("one");
    script.assert_gone("two");
}

#[test]
fn grandchildren_that_hide_are_ended_when_the_run_is_cancelled_or_the_agent_crashes() {
    let script = Script::new(&format!("{STUBBORN}\necho '{INIT}'\nsleep 1000"));
    let mut child = script.start(&[]);
    let reader = wait_for(&mut child, "session");
    signal(&child, Signal::SIGTERM);
    let (code, exited) = rest(child, reader);
    assert_eq!((code, &exited["quiescent"]), (Some(4), &true.into()), "{exited}");
    script.assert_gone("one");
    script.assert_gone("two");

    let script = Script::new(&format!("{STUBBORN}\necho '{INIT}'\nkill -9 $$"));
    let output = script.run(&["--timeout", "30s"]);
    assert_eq!(self::exited(&output)["quiescent"], true);
    script.assert_gone("one");
    script.assert_gone("two");
}

#[test]
fn what_is_left_running_is_left_only_when_asked_for() {
    let script = Script::new(&format!("sleep 1000 >/dev/null 2>&1 &\necho $! >pid\necho '{INIT}'\necho '{RESULT}'"));
    let output = script.run(&["--leave-running"]);
    assert_eq!(exited(&output)["quiescent"], false);
    let pid: i32 = fs::read_to_string(script.file("pid")).expect("a process").trim().parse().expect("a number");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it was left");
    let output = script.run(&[]);
    assert_eq!(exited(&output)["quiescent"], true);
    script.assert_gone("pid");
}

#[test]
fn floods_on_both_pipes_come_through_whole() {
    let text = format!(
        "echo '{INIT}'\nseq -f 'e%06.0f' 200000 >&2 &\ni=0\nseq -f '{{\"type\":\"new\",\"n\":%.0f}}' 200000\nwait\nprintf '%s' '{RESULT}'"
    );
    let output = Script::new(&text).run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let kind = |name: &str| {
        let tag = format!("{{\"kind\":\"{name}\"");
        stdout(&output).lines().filter(|line| line.starts_with(&tag)).count()
    };
    assert_eq!((kind("unrecognized"), kind("activity")), (200_000, 200_000));
}

#[test]
fn secrets_of_the_caller_do_not_reach_the_agent() {
    let script =
        Script::new(&format!("env >variables; tr '\\0' ' ' </proc/$$/cmdline >arguments; echo '{INIT}'; echo '{RESULT}'"));
    let mut command = sabir();
    command.args(["run", "claude-code", "secret-prompt", "-q", "--env", "GIVEN=1", "--program"]).arg(script.path());
    command.arg("--cwd").arg(script.folder.path()).env("ANTHROPIC_API_KEY", "own-key").env("OTHER_TOKEN", "not-yours");
    let output = command.output().expect("it ends");
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "done\n"), "{}", stderr(&output));
    let variables = fs::read_to_string(script.file("variables")).expect("variables");
    assert!(variables.contains("ANTHROPIC_API_KEY=own-key") && variables.contains("GIVEN=1"), "{variables}");
    assert!(!variables.contains("not-yours"), "{variables}");
    let arguments = fs::read_to_string(script.file("arguments")).expect("arguments");
    assert!(!arguments.contains("secret-prompt") && !arguments.contains("own-key"), "{arguments}");
}

#[test]
fn prompts_of_any_size_and_shape_arrive() {
    let script = Script::new(&format!("cat >prompt; echo '{INIT}'; echo '{RESULT}'"));
    let long = "ü".repeat(1 << 20);
    let mut command = sabir();
    command.args(["run", "claude-code", "-", "-q", "--program"]).arg(script.path()).arg("--cwd").arg(script.folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(long.as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(fs::read_to_string(script.file("prompt")).expect("a prompt").len(), long.len());

    let mut command = sabir();
    command.args(["run", "claude-code", "-q", "--program"]).arg(script.path()).arg("--cwd").arg(script.folder.path());
    assert!(command.args(["--", "--dashes first"]).output().expect("it ends").status.success());
    assert_eq!(fs::read_to_string(script.file("prompt")).expect("a prompt"), "--dashes first");
}

#[test]
fn a_reader_that_leaves_ends_the_run() {
    let script = Script::new(&format!("echo $$ >pid\necho '{INIT}'\nwhile echo '{{\"type\":\"new\"}}'; do :; done"));
    let mut child = script.start(&[]);
    drop(wait_for(&mut child, "session"));
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    script.assert_gone("pid");
}

#[test]
fn an_output_that_cannot_be_written_exits_with_6() {
    let script = Script::new(&format!("echo '{INIT}'; echo '{RESULT}'"));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut command = sabir();
    command.args(["run", "claude-code", "x", "--json", "--program"]).arg(script.path());
    let output = command.stdout(full).stderr(Stdio::piped()).output().expect("it ends");
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
}

#[test]
fn fifty_agents_at_once_lose_nothing() {
    const AGENTS: usize = 50;
    const LINES: usize = 400;
    let mut jobs = Vec::new();
    for number in 0..AGENTS {
        writeln!(jobs, r#"{{"agent":"localexec","id":"run-{number}","prompt":"seq {LINES}"}}"#).expect("written");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = sabir()
        .args(["batch", "-", "--jobs", "50"])
        .env("SABIR_HOME", folder.path())
        .env_remove("SABIR_JOURNAL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(&jobs).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let events = events(&output);
    for number in 0..AGENTS {
        let id = format!("run-{number}");
        let of_run: Vec<&Value> = events.iter().filter(|event| event["runId"] == id.as_str()).collect();
        let said: String = of_run.iter().filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(said.lines().count(), LINES, "{id}");
        assert!(of_run.iter().zip(1..).all(|(event, seq)| event["seq"] == seq), "{id}: seq is dense");
        assert_eq!(of_run.last().map(|event| &event["outcome"]), Some(&"completed".into()), "{id}");
        let kept = crate::journal::kept(folder.path(), &id);
        assert!(kept.events.iter().eq(of_run.iter().copied()) && kept.printed.lines().count() == LINES, "{id} is journaled");
    }
}

#[test]
fn a_batch_is_checked_before_its_first_run() {
    for (jobs, what) in [
        ("{\"agent\":\"localexec\",\"prompt\":\"touch made\"}\n{\"agent\":\"nope\",\"prompt\":\"x\"}\n", "no agent named nope"),
        ("{\"agent\":\"localexec\"}\n", "line 1"),
        ("{\"agent\":\"localexec\",\"prompt\":\"x\",\"typo\":1}\n", "typo"),
        (
            "{\"agent\":\"localexec\",\"prompt\":\"a\",\"id\":\"1\"}\n{\"agent\":\"localexec\",\"prompt\":\"b\",\"id\":\"1\"}\n",
            "already",
        ),
        ("\n", "holds no run"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("jobs"), jobs).expect("written");
        let output = sabir().args(["batch", "jobs"]).current_dir(folder.path()).output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{jobs}");
        assert!(stderr(&output).contains(what), "{jobs}: {}", stderr(&output));
        assert!(!folder.path().join("made").exists());
    }
}

#[test]
fn the_doctor_finds_programs_versions_and_keys_and_tells_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("claude");
    fs::write(&program, "#!/bin/sh\necho '2.1.325 (Claude Code)'\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let doctor = |arguments: &[&str], key: Option<&str>| {
        let mut command = sabir();
        command.arg("doctor").args(arguments).env("PATH", folder.path()).env("HOME", folder.path());
        for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"] {
            command.env_remove(name);
        }
        key.map(|key| command.env("ANTHROPIC_API_KEY", key));
        command.output().expect("it ends")
    };
    let output = doctor(&["claude", "--json"], Some("sk-very-secret"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let found = &found[0];
    assert_eq!((&found["version"], &found["recorded"], &found["ready"]), (&"2.1.325".into(), &true.into(), &true.into()));
    assert_eq!(found["key"], "ANTHROPIC_API_KEY");
    assert!(!stdout(&output).contains("sk-very-secret"));
    let output = doctor(&["claude"], None);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("no key") && stdout(&output).contains("ANTHROPIC_API_KEY"), "{}", stdout(&output));
}

#[test]
fn what_the_agent_printed_can_be_kept() {
    let script = Script::new(&format!("cat >/dev/null\nprintf '%s\\r\\n\\n%s' '{INIT}' '{RESULT}'"));
    let file = script.file("raw");
    let output = script.run(&["--raw", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).expect("a file"), format!("{INIT}\r\n\n{RESULT}"));
    let refused = script.run(&["--raw", "/nowhere/raw"]);
    assert_eq!(refused.status.code(), Some(2));
}
