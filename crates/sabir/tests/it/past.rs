//! Looking back: the logs of agents and the journal, through the commands that people type.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::{fixture, sabir, stderr, stdout};

const CLAUDE: &str = "6f0c1f8e-0000-4000-8000-000000000001";
const CODEX: &str = "01a1e067-03b6-7ba1-9a5c-80b1e06e7ab3";

/// A home folder with the logs of two agents.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a folder") };
        home.log(".claude/projects/-home-user-project", &format!("{CLAUDE}.jsonl"), "claude-code/history-sub-agent");
        let codex = format!("rollout-2026-11-15T18-10-09-{CODEX}.jsonl");
        home.log(".codex/sessions/2026/11/15", &codex, "codex/history-0.44");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self, folder: &str, name: &str, input: &str) {
        fs::create_dir_all(self.path(folder)).expect("made");
        fs::copy(fixture(input), self.path(folder).join(name)).expect("copied");
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("it ends")
    }

    fn command(&self) -> Command {
        let mut command = sabir();
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path()).env("SABIR_HOME", self.path("sabir")).env("TZ", "UTC").env("COLUMNS", "100");
        command.current_dir(self.folder.path());
        command
    }

    /// What a question answers that must have an answer.
    fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    }

    fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        self.answer(arguments).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn a_shell_that_asks_is_told_the_ids_of_sessions() {
    let home = Home::new();
    let offered = |begins: &str| {
        let mut command = home.command();
        // As the script for bash asks.
        command.env("SABIR_COMPLETE", "bash").env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", "2");
        let output = command.args(["--", "sabir", "show", begins]).output().expect("it ends");
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
        stdout(&output).to_owned()
    };
    let all = offered("");
    assert!(all.contains(CLAUDE) && all.contains(CODEX), "{all}");
    assert_eq!(offered("01a1").trim(), CODEX);
    assert_eq!(offered("x"), "");
}

#[test]
fn what_was_spent_is_the_same_with_and_without_an_index_and_however_it_is_cut() {
    let home = Home::new();
    let report = |arguments: &[&str]| -> Value { serde_json::from_str(&home.answer(arguments)).expect("JSON") };
    let cold = report(&["usage", "--json", "--by", "agent"]);
    assert!(home.path("sabir/history.sqlite").exists());
    assert_eq!(report(&["usage", "--json", "--by", "agent"]), cold);
    assert_eq!(report(&["usage", "--json", "--by", "agent", "--no-index"]), cold);
    let total = |report: &Value| -> u64 {
        let rows = report["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["tokens"]["total"].as_u64().expect("a number")).sum()
    };
    assert!(total(&cold) > 0);
    for by in ["day", "week", "month", "session", "model", "project"] {
        assert_eq!(total(&report(&["usage", "--json", "--by", by])), total(&cold), "{by}");
    }
    let table = home.answer(&["usage", "--by", "agent"]);
    assert!(table.contains("claude-code") && table.contains("codex"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    fs::write(home.path("sabir/history.sqlite"), "not a database").expect("written");
    assert_eq!(report(&["usage", "--json", "--by", "agent"]), cold, "a broken index is made anew");
}

#[test]
fn sessions_are_listed_shown_and_found_by_the_beginning_of_their_id() {
    let home = Home::new();
    let list = home.objects(&["ls", "--json", "--results"]);
    assert_eq!(
        list.iter().map(|one| one["id"].as_str().expect("an id")).collect::<Vec<_>>(),
        [CODEX, CLAUDE],
        "the latest first"
    );
    for session in &list {
        assert_eq!(session["result"]["agent"], session["agent"]);
        assert_eq!(session["result"]["tokens"]["total"], session["totalTokens"]);
        assert_eq!(session["result"]["toolCalls"].as_array().map(|calls| calls.len() as u64), session["toolCalls"].as_u64());
    }
    assert_eq!(home.objects(&["ls", "--json", "--agent", "codex"]).len(), 1);
    assert_eq!(home.objects(&["ls", "--json", "--since", "2026-11-15T12:00:00Z"]).len(), 1);
    assert!(home.objects(&["ls", "--json", "--project", "elsewhere"]).is_empty());
    let shown = home.answer(&["show", &CLAUDE[..8]]);
    assert!(shown.contains("Count the files"), "{shown}");
    let events = home.objects(&["show", &CODEX[..8], "--json"]);
    assert_eq!((events[0]["kind"].as_str(), events[0]["agent"].as_str()), (Some("started"), Some("codex")));
    assert_eq!(events.last().expect("events")["kind"], "exited");
    assert_eq!(home.answer(&["show", CODEX, "--raw"]), fs::read_to_string(fixture("codex/history-0.44")).expect("a fixture"));
    let output = home.ask(&["show", "f00"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint:"), "{}", stderr(&output));
    let output = home.ask(&["show", ""]);
    assert_ne!(output.status.code(), Some(0), "the beginning of several");
}

#[test]
fn words_are_found_and_questions_are_answered() {
    let home = Home::new();
    let places = home.objects(&["search", "COUNT", "files", "--json"]);
    assert!(places.iter().any(|place| place["session"] == CLAUDE), "{places:?}");
    assert_eq!(home.ask(&["search", "no-such-word-anywhere"]).status.code(), Some(1));
    let rows = home.objects(&["query", "SELECT agent, count(*) AS n FROM sessions GROUP BY agent ORDER BY agent", "--json"]);
    assert_eq!(rows.iter().map(|row| row["agent"].as_str()).collect::<Vec<_>>(), [Some("claude-code"), Some("codex")]);
    let calls = home.objects(&["query", "SELECT count(*) AS n FROM tool_calls", "--json"]);
    let listed: u64 = home.objects(&["ls", "--json"]).iter().filter_map(|one| one["toolCalls"].as_u64()).sum();
    assert_eq!(calls[0]["n"].as_u64(), Some(listed));
    let refused = home.ask(&["query", "DELETE FROM sessions"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(home.answer(&["query", "--tables"]).contains("file_changes"));
}

#[test]
fn a_session_is_exported_and_played_again() {
    let home = Home::new();
    let result: Value = serde_json::from_str(&home.answer(&["export", &CODEX[..8]])).expect("JSON");
    assert_eq!(result["sessionId"], CODEX);
    let messages = home.objects(&["export", CODEX, "--to", "envelope"]);
    assert_eq!(messages[0]["type"], "init");
    assert_eq!(messages[0]["payload"]["adapter"], "codex");
    home.answer(&["export", CODEX, "--to", "events", "--output", "events.jsonl"]);
    assert_eq!(fs::read_to_string(home.path("events.jsonl")).expect("a file"), home.answer(&["replay", CODEX, "--to", "events"]));
}

#[test]
fn jobs_have_every_event_in_a_file_of_its_own() {
    let home = Home::new();
    let refused = home.ask(&["jobs"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("hint:"));
    let jobs = home.objects(&["jobs", &CODEX[..8], "--json"]);
    assert_eq!(jobs.len(), 1);
    let job = home.path("perstack/jobs").join(CODEX);
    assert_eq!(json(&job.join("job.json"))["status"], "completed");
    let names = |folder: PathBuf| -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
    };
    let run = job.join("runs").join(CODEX);
    let events = names(run.clone()).into_iter().filter(|name| name.starts_with("event-")).count();
    assert_eq!(events, home.objects(&["export", CODEX, "--to", "perstack"]).len());
    assert_eq!(json(&run.join("run-setting.json"))["jobId"], CODEX);
    let checkpoints = names(job.join("checkpoints"));
    assert!(!checkpoints.is_empty());
    assert_eq!(jobs[0]["files"].as_u64(), Some((events + checkpoints.len() + 2) as u64));
    assert_eq!(home.objects(&["jobs", "--all", "--json"]).len(), 2);
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_there() {
    let home = Home::new();
    let log = home.path(".claude/projects/-home-user-project").join("7f0c1f8e-0000-4000-8000-000000000002.jsonl");
    let mut text = fs::read(fixture("claude-code/history-sub-agent")).expect("a fixture");
    text.truncate(text.len() - 20);
    text.extend_from_slice(b"\n{\"type\":\"telepathy\",\"sessionId\":\"x\"}\nnot JSON \xff\xfe\n{\"type\":\"assistant\",\"message\":{\"usage\":{\"inp");
    fs::write(&log, text).expect("written");
    assert_eq!(home.objects(&["ls", "--json"]).len(), 3);
    // A clock that went backwards, and another machine's copy of the same session, count nothing twice.
    let before: Value = serde_json::from_str(&home.answer(&["usage", "--json", "--by", "agent"])).expect("JSON");
    home.log(".claude/projects/-home-other-project", &format!("{CLAUDE}.jsonl"), "claude-code/history-sub-agent");
    let after: Value = serde_json::from_str(&home.answer(&["usage", "--json", "--by", "agent"])).expect("JSON");
    assert_eq!(before["rows"][0]["tokens"], after["rows"][0]["tokens"]);
    assert_eq!(before["rows"].as_array().map(Vec::len), after["rows"].as_array().map(Vec::len));
}
