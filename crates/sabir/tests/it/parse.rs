//! `sabir parse`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::Value;

use crate::{fixture, run, sabir, stderr, stdout};

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an event is JSON")).collect()
}

#[test]
fn events_come_out_while_the_stream_is_open() {
    let mut child = sabir().args(["parse", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    // Each event is waited for before the next line is written: an event that is held back would hang here.
    writeln!(stdin, r#"{{"type":"thread.started","thread_id":"t1"}}"#).expect("written");
    assert!(next().contains(r#""kind":"started""#));
    assert!(next().contains(r#""sessionId":"t1""#));
    writeln!(stdin, r#"{{"type":"turn.started"}}"#).expect("written");
    assert!(next().contains(r#""kind":"turnStart""#));
    drop(stdin);
    while lines.next().is_some() {}
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn the_last_line_counts_without_an_end() {
    let output = run(&["parse", "--agent", "claude-code", "--to", "result"], br#"{"type":"result","content":"Hello World"}"#);
    let result: Value = serde_json::from_str(stdout(&output)).expect("a result");
    assert_eq!(result["text"], "Hello World");
}

#[test]
fn an_agent_that_is_only_likely_is_told_as_a_guess() {
    let stream = concat!(
        r#"{"type":"system","subtype":"init","session_id":"s","tools":[],"slash_commands":[],"other_version":"1"}"#,
        "\n",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","total_cost_usd":0}"#,
        "\n",
    );
    let output = run(&["parse", "-"], stream.as_bytes());
    let first = &events(stdout(&output))[0];
    assert_eq!((first["agent"].as_str(), first["detection"].as_str()), (Some("claude-code"), Some("guess")));
    assert!(
        stderr(&output).contains("a guess: other agents print the same fields as claude-code")
            && stderr(&output).contains("--agent"),
        "{}",
        stderr(&output)
    );
    let output = run(&["parse", "-", "--to", "result"], stream.as_bytes());
    let result: Value = serde_json::from_str(stdout(&output)).expect("a result");
    assert_eq!((result["detection"].as_str(), result["text"].as_str()), (Some("guess"), Some("Done.")));
    let output = run(&["parse", "-", "--agent", "claude-code"], stream.as_bytes());
    assert_eq!((events(stdout(&output))[0].get("detection"), stderr(&output)), (None, ""));
}

#[test]
fn how_the_process_ended_decides_too() {
    for (arguments, status) in [
        (&["--exit-code", "0"][..], "success"),
        (&["--exit-code", "3"], "error"),
        (&["--signal", "9"], "error"),
        (&["--signal", "TERM", "--cancelled"], "cancelled"),
    ] {
        let output = run(&[&["parse", "-", "--agent", "localexec", "--to", "result"], arguments].concat(), b"done\n");
        let result: Value = serde_json::from_str(stdout(&output)).expect("a result");
        assert_eq!((result["status"].as_str(), output.status.code()), (Some(status), Some(0)), "{arguments:?}");
    }
}

#[test]
fn several_files_are_several_runs_and_a_bad_one_spoils_none() {
    let good = fixture("claude-code/answer");
    let other = fixture("pi/answer");
    let other = if other.exists() { other } else { fixture("localexec/echo") };
    let files = [good.to_str().expect("UTF-8"), "no-such-file", other.to_str().expect("UTF-8")];
    let output = run(&[&["parse", "--to", "result"], &files[..]].concat(), b"");
    assert_eq!(stdout(&output).lines().count(), 2);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no-such-file"), "{}", stderr(&output));
    let output = run(&["parse", files[0], files[2]], b"");
    let runs: std::collections::BTreeSet<String> =
        events(stdout(&output)).iter().map(|event| event["runId"].to_string()).collect();
    assert_eq!(runs.len(), 2);
}

#[test]
fn every_output_of_the_help_can_be_made() {
    let file = fixture("claude-code/tools");
    for to in ["events", "result", "human", "runner", "perstack", "perstack-checkpoint", "perstack-output", "envelope"] {
        let output = run(&["parse", file.to_str().expect("UTF-8"), "--to", to], b"");
        assert!(output.status.success() && !output.stdout.is_empty(), "{to}: {}", stderr(&output));
        if to != "human" {
            events(stdout(&output));
        }
    }
}

#[test]
fn a_long_line_is_cut_and_said() {
    let mut input = vec![b'x'; 5_000];
    input.extend_from_slice(b"\nshort\n");
    let output = run(&["parse", "-", "--agent", "localexec", "--max-line", "1000"], &input);
    let text: Vec<usize> = events(stdout(&output)).iter().filter_map(|event| event["delta"].as_str()).map(str::len).collect();
    assert_eq!(text, [1_001, 6]);
    assert!(stderr(&output).contains("4000 bytes"), "{}", stderr(&output));
}

#[test]
fn a_private_price_list_counts() {
    let prices = std::env::temp_dir().join(format!("sabir-prices-{}.json", std::process::id()));
    let table = r#"{"taken":"2026-01-01","source":"test","providers":{"p":{"models":{"our-model":{"input":1,"output":2,"cacheRead":0}}}}}"#;
    std::fs::write(&prices, table).expect("written");
    let stream = br#"{"type":"thread.started","thread_id":"t"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hi"}}
{"type":"turn.completed","usage":{"input_tokens":1000000,"cached_input_tokens":0,"output_tokens":500000}}
"#;
    let arguments = ["parse", "-", "--to", "result", "--model", "our-model", "--prices", prices.to_str().expect("UTF-8")];
    let output = run(&arguments, stream);
    std::fs::remove_file(&prices).expect("removed");
    let result: Value = serde_json::from_str(stdout(&output)).expect("a result");
    assert_eq!((result["cost"]["total"].as_f64(), result["cost"]["source"].as_str()), (Some(2.0), Some("computed")));
}
