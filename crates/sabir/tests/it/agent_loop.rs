//! `sabir agent-loop`: the agent as a process.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{run, sabir, stderr, stdout};
use sabir_test_support::openai_server::{Server, calls, says};

/// Starts the loop in a folder of its own, with a prompt.
fn start(server: &Server, folder: &std::path::Path, arguments: &[&str]) -> Child {
    let mut command = sabir();
    command.arg("agent-loop").args(arguments).current_dir(folder);
    command.env("OPENAI_BASE_URL", &server.url).env("OPENAI_API_KEY", "sk-very-secret").env("OPENAI_MODEL", "from-environment");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the loop starts");
    child.stdin.take().expect("a pipe").write_all(b"Do it.").expect("the prompt is taken");
    child
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("sabir-loop-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn it_runs_reads_and_keeps_its_key_to_itself() {
    let look = "env; cat /proc/$PPID/environ; echo looked";
    let server = Server::new([calls(&[("shell", json!({"command": look}))]), says("Done.")]);
    let folder = folder("key");
    let output = start(&server, &folder, &["--permission", "full"]).wait_with_output().expect("it ends");
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let asked = server.asked();
    assert_eq!(asked[0].body["model"], "from-environment");
    assert!(asked[0].head.contains("sk-very-secret"));
    let seen = asked[1].body["input"][2]["output"].as_str().expect("what the command saw").to_owned();
    assert!(seen.contains("looked"), "{seen}");
    if !stdout(&output).contains("commands are not confined") {
        assert!(!seen.contains("sk-very-secret"), "{seen}");
    }
    // Its lines are found out and read like those of any agent.
    let parsed = run(&["parse", "-", "--to", "result"], &output.stdout);
    let result: Value = serde_json::from_str(stdout(&parsed)).expect("a result");
    assert_eq!((&result["agent"], &result["text"], &result["outcome"]), (&json!("openai"), &json!("Done."), &json!("completed")));
}

#[test]
fn a_failure_is_exit_code_one_and_bad_arguments_are_two() {
    let folder = folder("failure");
    let output = start(&Server::new([]), &folder, &["--model", "m"]).wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).lines().last().is_some_and(|line| line.contains(r#""outcome":"failed""#)), "{}", stdout(&output));
    for arguments in [["--permission", "all"], ["--api", "soap"], ["--max-turns", "0"]] {
        assert_eq!(run(&[&["agent-loop"], &arguments[..]].concat(), b"").status.code(), Some(2), "{arguments:?}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_signal_ends_its_commands_too() {
    let folder = folder("signal");
    let made = Command::new("mkfifo").arg(folder.join("ready")).arg(folder.join("alive")).status().expect("mkfifo");
    assert!(made.success());
    let server = Server::new([calls(&[("shell", json!({"command": "echo > ready; exec 3> alive; exec tail -f /dev/null"}))])]);
    let child = start(&server, &folder, &["--permission", "full"]);
    // Both wait for the command: the first until it runs, the second for as long as it lives.
    std::fs::read(folder.join("ready")).expect("it runs");
    let mut alive = std::fs::File::open(folder.join("alive")).expect("it lives");
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill").success());
    assert_eq!(alive.read_to_end(&mut Vec::new()).expect("it is over"), 0);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), None, "the signal ends the loop itself");
    std::fs::remove_dir_all(&folder).expect("removed");
}
