//! What people read: help, errors, hints, and output that may be closed.

use std::io::Read as _;
use std::process::Stdio;

use crate::{fixture, run, sabir, stderr, stdout};

/// Exit code and standard error of a command that can't be carried out.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(arguments, b"");
    assert!(output.stdout.is_empty(), "{arguments:?} prints data");
    (output.status.code(), stderr(&output).to_owned())
}

#[test]
fn bad_input_has_an_error_and_a_hint() {
    for (arguments, what, hint) in [
        (&["parse", "no-such-file"][..], "can't read no-such-file", "hint: give the path"),
        (&["parse", "."], ". is a folder", "hint: name the files in it"),
        (&["parse", "--agent", "claud"], "there is no agent named claud", "hint: did you mean claude"),
        (&["parse", "--agent", "zzz"], "there is no agent named zzz", "hint: `sabir agents`"),
        (&["parse", "--prices", "no-such-file"], "can't use the price list", "hint: "),
        (&["prune"], "nothing says which runs may go", "hint: sabir prune --older-than 30d"),
        (&["hub", "--data", "x", "token", "list"], "'token' cannot be used with", "hint: options of a subcommand stand after it"),
        (&["demo", "codx"], "there is no recording of codx", "hint: did you mean codex?"),
    ] {
        let (code, said) = refused(arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(said.contains(what) && said.contains(hint), "{arguments:?}: {said}");
    }
}

#[test]
fn clap_errors_are_bad_usage_too() {
    for arguments in [
        &["--nope"][..],
        &["parse", "--to", "nope"],
        &["parse", "--signal", "NOPE"],
        &["demo", "--speed", "-1"],
        &["prune", "--max-size", "much"],
        &["prune", "--yes", "--dry-run"],
        &["nope"],
    ] {
        let (code, said) = refused(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains("error:"), "{said}");
    }
}

#[test]
fn a_binary_file_is_not_taken_for_a_stream() {
    let (code, said) = refused(&["parse", env!("CARGO_BIN_EXE_sabir")]);
    assert_eq!(code, Some(2));
    assert!(said.contains("is not text") && said.contains("hint:"), "{said}");
}

#[test]
fn an_empty_stream_is_said_and_is_incomplete() {
    let output = run(&["parse", "-"], b"");
    assert!(output.status.success());
    assert!(stderr(&output).contains("stdin is empty"));
    assert!(stdout(&output).lines().last().is_some_and(|line| line.contains(r#""outcome":"incomplete""#)));
}

#[test]
fn a_stream_of_another_agent_is_noticed() {
    let file = fixture("codex/thread-answer");
    let output = run(&["parse", file.to_str().expect("UTF-8"), "--agent", "claude-code"], b"");
    assert!(output.status.success());
    assert!(stderr(&output).contains("try --agent codex"), "{}", stderr(&output));
    assert!(stdout(&output).lines().last().is_some_and(|line| line.contains(r#""outcome":"incomplete""#)));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let big = "{\"type\":\"x\"}\n".repeat(200_000);
    let path = std::env::temp_dir().join(format!("sabir-big-{}.jsonl", std::process::id()));
    std::fs::write(&path, big).expect("written");
    let mut child = sabir()
        .args(["parse", "--agent", "pi"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut first = [0; 100];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
    let output = child.wait_with_output().expect("it ends");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn help_version_and_completions_are_there() {
    assert!(stdout(&run(&["--version"], b"")).starts_with("sabir "));
    let help = run(&["--help"], b"");
    assert!(help.status.success());
    for word in ["parse", "agents", "prune", "demo", "completions", "Exit codes"] {
        assert!(stdout(&help).contains(word), "{word}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&run(&["completions", shell], b"")).contains("sabir"), "{shell}");
    }
    assert!(stdout(&run(&["man"], b"")).starts_with(".ie"));
}

#[test]
fn agents_are_listed_for_people_and_programs() {
    let table = run(&["agents"], b"");
    let json: serde_json::Value = serde_json::from_str(stdout(&run(&["agents", "--json"], b""))).expect("JSON");
    for agent in json.as_array().expect("a list") {
        assert!(stdout(&table).contains(agent["id"].as_str().expect("an id")));
        assert!(!agent["dialects"].as_array().expect("a list").is_empty());
    }
}

#[test]
fn the_demo_plays_three_agents_and_no_colour_reaches_a_pipe() {
    let output = run(&["demo", "--speed", "0", "--no-page"], b"");
    let text = stdout(&output);
    for agent in ["▶ claude-code", "▶ codex", "▶ pi"] {
        assert!(text.contains(agent), "{agent}");
    }
    assert_eq!(text.matches("✓ completed").count(), 3, "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn the_readme_shows_what_the_demo_prints() {
    let readme = include_str!("../../../../README.md");
    let output = run(&["demo", "claude-code", "--speed", "0", "--no-page"], b"");
    let text = stdout(&output);
    assert!(readme.contains(&format!("```text\n{}\n```", text.trim_end())), "{text}");
}

#[test]
fn colour_can_be_had_and_refused() {
    let demo =
        |variable: &str| sabir().args(["demo", "pi", "--speed", "0", "--no-page"]).env(variable, "1").output().expect("it runs");
    assert!(stdout(&demo("CLICOLOR_FORCE")).contains('\u{1b}'));
    assert!(!stdout(&demo("NO_COLOR")).contains('\u{1b}'));
}
