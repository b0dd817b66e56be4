//! `sabir shell` as a program: what it takes from the environment, what it says, how it ends, and what a kill leaves.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sabir_store::{Home, Kind, Reader};
use serde_json::Value;

use crate::run::Script;
use crate::{sabir, stderr, stdout, until};

fn shell(home: &Path) -> Command {
    let mut command = sabir();
    command.arg("shell").env("SABIR_HOME", home);
    for name in
        ["RUNNER_ADAPTER", "WS_URL", "WS_INSECURE", "AUTH_TOKEN", "SESSION_ID", "OUTPUT_REPO", "INPUT_REPO", "WORKSPACE_SLUG"]
    {
        command.env_remove(name);
    }
    command
}

/// The messages of a session's log.
fn messages(home: &Path, session: &str) -> Vec<Value> {
    let mut reader = Reader::of(Home::at(home).outbox(session).expect("a folder")).expect("a log");
    let mut messages: Vec<Value> = Vec::new();
    while let Some(record) = reader.next().expect("readable") {
        if record.kind == Kind::Message {
            messages.push(serde_json::from_slice(record.payload).expect("JSON"));
        }
    }
    for (message, seq) in messages.iter().zip(1_u64..) {
        assert_eq!(message["seq"], seq);
    }
    messages
}

fn types(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["type"].as_str()).collect()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{}", stderr(output)))
}

#[test]
fn the_environment_of_a_runner_is_all_that_is_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    let output = shell(&home)
        .args(["--json", "--", "echo $MY_TOKEN; echo auth=$AUTH_TOKEN"])
        .env("RUNNER_ADAPTER", "localexec")
        .env("SESSION_ID", "s/1")
        .env("WORKSPACE_SLUG", "team")
        .env("OUTPUT_REPO", "https://me:s3cr3tpassword@example.org/a/b")
        .env("OUTPUT_BRANCH", "topic")
        .env("MY_TOKEN", "hunter2-hunter2")
        .env("AUTH_TOKEN", "the-token-of-the-hub-1")
        .output()
        .expect("it ends");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let end: Value = serde_json::from_str(stdout(&output).lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&end["type"], &end["session"], &end["outcome"], &end["unsent"]),
        (&"end".into(), &"s/1".into(), &"completed".into(), &0.into())
    );
    let log = messages(&home, "s/1");
    let text = serde_json::to_string(&log).expect("JSON");
    for secret in ["hunter2-hunter2", "s3cr3tpassword", "the-token-of-the-hub-1"] {
        assert!(!text.contains(secret) && !stderr(&output).contains(secret), "{secret}");
    }
    assert!(text.contains("[secret MY_TOKEN]") && text.contains("auth=\\n"), "the agent has no token of the hub: {text}");
    assert_eq!((&log[0]["type"], &log[0]["payload"]["branch"]), (&"init".into(), &"topic".into()));
    assert_eq!(log[0]["payload"]["meta"]["workspace"], "team");
    assert!(types(&log).ends_with(&["result", "status"]));
    assert!(!home.join("runs").exists(), "nothing with its secrets is kept");
}

#[test]
fn a_damaged_outbox_is_repaired_and_what_is_lost_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    let output = shell(&home).args(["--session", "s", "--", "localexec", "echo hello"]).output().expect("it ends");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let repair = |arguments: &[&str]| shell(&home).arg("repair").args(arguments).output().expect("it ends");
    let lines = |output: &Output| -> Vec<Value> {
        stdout(output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let sound = repair(&["--json"]);
    assert_eq!((code(&sound), &lines(&sound)[0]["state"]), (0, &"undamaged".into()), "{}", stderr(&sound));

    let count = messages(&home, "s").len() as u64;
    let segment = Home::at(&home).outbox("s").expect("a folder").segment(1);
    let mut bytes = std::fs::read(&segment).expect("a segment");
    let at = bytes.windows(9).rposition(|window| window == b"\"result\",").expect("the result");
    bytes[at + 1] ^= 1;
    std::fs::write(&segment, &bytes).expect("written");
    let looked = repair(&["--dry-run", "--json"]);
    assert_eq!((code(&looked), &lines(&looked)[0]["state"]), (6, &"damaged".into()), "{}", stderr(&looked));
    assert_eq!(std::fs::read(&segment).expect("a segment"), bytes, "--dry-run changes nothing");
    let table = repair(&["--dry-run"]);
    assert!(stdout(&table).contains("damaged") && stdout(&table).contains("1 message is lost"), "{}", stdout(&table));

    let repaired = repair(&["s", "--json"]);
    let line = &lines(&repaired)[0];
    assert_eq!((code(&repaired), &line["state"], &line["lostMessages"]), (6, &"repaired".into(), &1.into()), "{line}");
    assert_eq!((&line["messages"], &line["lost"][0][0]), (&count.into(), &(count - 1).into()), "{line}");
    assert_eq!(code(&repair(&[])), 0);
    // The session goes on.
    let output = shell(&home).args(["--session", "s", "--json", "--", "localexec", "echo again"]).output().expect("it ends");
    let end: Value = serde_json::from_str(stdout(&output).lines().last().expect("a line")).expect("JSON");
    assert!(end["messages"].as_u64() > Some(count) && end.get("repaired").is_none(), "{end}");
    assert_eq!(code(&repair(&["nobody"])), 2);
}

#[test]
fn raw_lines_are_kept_on_this_machine_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    let mut command = shell(&home);
    command.args(["--keep-raw", "--session", "s", "--", "localexec", "echo hunter2-hunter2"]).env("MY_TOKEN", "hunter2-hunter2");
    let output = command.output().expect("it ends");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let runs = Home::at(&home).runs().expect("readable");
    let kept = crate::journal::kept(&home, runs[0].id());
    assert_eq!(kept.printed, "hunter2-hunter2\n");
    assert!(!serde_json::to_string(&messages(&home, "s")).expect("JSON").contains("hunter2"));
}

#[test]
fn a_hub_that_is_not_there_is_told_and_the_log_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    // Nobody listens there any more.
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut command = shell(&home);
    command.args(["--session", "s", "--flush", "0s", "--hub", &format!("ws://{address}"), "--", "localexec", "echo x"]);
    let output = command.output().expect("it ends");
    assert_eq!(code(&output), 6, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("not acknowledged") && said.contains("hint:") && said.contains("--session s"), "{said}");
    assert!(types(&messages(&home, "s")).contains(&"result"));
}

#[test]
fn a_token_that_is_not_known_is_told_at_once_and_never_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let refusing = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a shell");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            head.push(byte[0]);
        }
        let body = r#"{"type":"error","code":"unauthorized","message":"this token is not known"}"#;
        let answer = format!("HTTP/1.1 401 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).expect("answered");
        String::from_utf8(head).expect("text")
    });
    let script = Script::new("touch began");
    std::fs::write(script.file("token"), "sesame-sesame\n").expect("written");
    let mut command = shell(&script.file("home"));
    command.args(["--session", "s", "--hub", &format!("ws://{address}"), "--token-file"]).arg(script.file("token"));
    let output = command.args(["--", "localexec", "echo x"]).output().expect("it ends");
    assert_eq!(code(&output), 6, "{}", stderr(&output));
    assert!(stderr(&output).contains("this token is not known") && !stderr(&output).contains("sesame"), "{}", stderr(&output));
    assert!(refusing.join().expect("answered").contains("Bearer sesame-sesame"));
}

#[test]
fn token_is_not_sent_unencrypted_to_another_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    // A name that is never resolved, and nothing is waited for.
    let run = |hub: &str, token: Option<&str>, insecure: Option<&str>| {
        let mut command = shell(folder.path());
        command.args(["--flush", "0s", "--hub", hub]).args(insecure).envs(token.map(|token| ("AUTH_TOKEN", token)));
        command.args(["--", "localexec", "true"]).output().expect("it ends")
    };
    let refused = run("ws://hub.invalid", Some("sesame-sesame"), None);
    let said = stderr(&refused);
    assert_eq!(code(&refused), 2, "{said}");
    assert!(
        said.contains("refusing to send the token to hub.invalid without encryption") && said.contains("--insecure"),
        "{said}"
    );
    for (hub, token, insecure) in [
        ("ws://hub.invalid", Some("sesame-sesame"), Some("--insecure")),
        ("ws://hub.invalid", None, None),
        ("ws://127.0.0.1:1", Some("sesame-sesame"), None),
    ] {
        let output = run(hub, token, insecure);
        assert!(!stderr(&output).contains("without encryption") && code(&output) != 2, "{hub}: {}", stderr(&output));
    }
}

#[test]
fn bad_usage_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, want) in [
        (&[][..], "there is no agent"),
        (&["--", "localexec"], "no prompt"),
        (&["--", "nobody", "x"], "nobody"),
        (&["--session", "..", "--", "localexec", "x"], "a session id has"),
        (&["--hub", "ftp://h", "--", "localexec", "x"], "ws or wss"),
        (&["--hub", "ws://u:p@h", "--", "localexec", "x"], "a user or a password"),
    ] {
        let output = shell(folder.path()).args(arguments).output().expect("it ends");
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(want), "{arguments:?}: {}", stderr(&output));
    }
}

/// Says its id, says something, and waits.
const WORK: &str = "echo $$ > new; mv new id; echo begun; exec sleep 1000";

#[test]
fn a_shell_that_is_killed_leaves_a_log_that_the_next_one_ends() {
    let script = Script::new("");
    let home = script.file("home");
    let mut command = shell(&home);
    command.args(["--session", "s", "--", "localexec", WORK]).current_dir(script.folder.path());
    let mut child = command.spawn().expect("it starts");
    until(|| script.file("id").exists());
    until(|| messages(&home, "s").iter().any(|message| message["payload"]["json"]["kind"] == "text"));
    kill(Pid::from_raw(i32::try_from(child.id()).expect("an id")), Signal::SIGKILL).expect("killed");
    child.wait().expect("it is gone");
    // Its reaper ends the agent.
    let agent = std::fs::read_to_string(script.file("id")).expect("its id");
    until(|| !Path::new("/proc").join(agent.trim()).exists());
    let before = messages(&home, "s");
    assert!(!types(&before).contains(&"result"));
    let mut command = shell(&home);
    command.args(["--session", "s", "--", "localexec", WORK]);
    let output = command.output().expect("it ends");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("the earlier run of localexec ended: incomplete"), "{}", stderr(&output));
    let after = messages(&home, "s");
    assert_eq!(after[..before.len()], before);
    assert!(types(&after).ends_with(&["result", "status"]));
}

#[test]
fn a_signal_stops_the_agent_and_the_end_is_told() {
    let script = Script::new("");
    let home = script.file("home");
    let mut command = shell(&home);
    command.args(["--session", "s", "--", "localexec", "touch began; exec sleep 1000"]).current_dir(script.folder.path());
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    until(|| script.file("began").exists());
    kill(Pid::from_raw(i32::try_from(child.id()).expect("an id")), Signal::SIGTERM).expect("asked");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(types(&messages(&home, "s")).ends_with(&["result", "status"]));
}
