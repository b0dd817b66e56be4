//! Looking back: the logs of agents and the journal, through the commands that people type.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::{fixture, sabir, stderr, stdout};

pub(crate) const CLAUDE: &str = "6f0c1f8e-0000-4000-8000-000000000001";
pub(crate) const CODEX: &str = "01a1e067-03b6-7ba1-9a5c-80b1e06e7ab3";

/// A home folder with the logs of two agents.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a folder") };
        home.log(".claude/projects/-home-user-project", &format!("{CLAUDE}.jsonl"), "claude-code/history-sub-agent");
        let codex = format!("rollout-2026-11-15T18-10-09-{CODEX}.jsonl");
        home.log(".codex/sessions/2026/11/15", &codex, "codex/history-0.44");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn log(&self, folder: &str, name: &str, input: &str) {
        fs::create_dir_all(self.path(folder)).expect("made");
        fs::copy(fixture(input), self.path(folder).join(name)).expect("copied");
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("it ends")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = sabir();
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "SABIR_JOURNAL"] {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path()).env("SABIR_HOME", self.path("sabir")).env("TZ", "UTC").env("COLUMNS", "100");
        command.current_dir(self.folder.path());
        command
    }

    /// The same where no file can have more than about a thousand bytes.
    pub(crate) fn ask_on_a_full_disk(&self, arguments: &[&str]) -> Output {
        let ask = self.command();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"]).arg(ask.get_program()).args(arguments);
        for (name, value) in ask.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(self.folder.path()).output().expect("it ends")
    }

    /// The same for somebody who may not read what is closed: the superuser may read everything, so somebody else asks then.
    #[cfg(target_os = "linux")]
    fn somebody(&self) -> Command {
        use std::os::unix::process::CommandExt as _;
        /// Whom every system has, and who may nothing.
        const NOBODY: u32 = 65534;
        let (command, closed) = (self.command(), self.path("closed"));
        fs::write(&closed, "").expect("written");
        mode(&closed, 0o000);
        if fs::read(&closed).is_err() {
            return command;
        }
        let program = self.path("sabir-copy");
        fs::copy(command.get_program(), &program).expect("copied");
        mode(&program, 0o755);
        let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(self.folder.path()).status();
        assert!(owned.expect("it starts").success());
        let mut other = Command::new(program);
        other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        for (name, _) in command.get_envs().filter(|(_, value)| value.is_none()) {
            other.env_remove(name);
        }
        other.current_dir(self.folder.path()).uid(NOBODY).gid(NOBODY);
        other
    }

    /// What a question answers that must have an answer.
    pub(crate) fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    }

    pub(crate) fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        self.answer(arguments).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

#[cfg(unix)]
fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
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
    assert!(home.path("sabir/history.index").exists());
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
    fs::write(home.path("sabir/history.index"), "not a database").expect("written");
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
        assert_eq!(session["result"]["cost"]["total"], session["costUsd"]);
        assert_eq!(session["result"]["cost"]["source"], session["costSource"]);
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
    for command in ["show", "tail"] {
        let output = home.ask(&[command, ""]);
        assert_eq!(output.status.code(), Some(2), "the beginning of several");
        assert_eq!(stderr(&output), "error: the id is empty\nhint: `sabir ls` lists the sessions\n", "{command}");
    }
}

#[test]
fn a_list_has_at_least_one_place() {
    let home = Home::new();
    for arguments in [&["ls", "-n", "0"][..], &["search", "count", "-n", "0"]] {
        let output = home.ask(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains("give a number, 1 or more"), "{}", stderr(&output));
    }
    assert_eq!(home.objects(&["ls", "--json", "-n", "1"]).len(), 1);
}

#[test]
fn a_day_that_something_is_asked_until_is_meant_to_its_end() {
    let home = Home::new();
    assert_eq!(home.objects(&["ls", "--json", "--until", "2026-11-15"]).len(), 2);
    assert_eq!(home.objects(&["ls", "--json", "--until", "2026-11-14"]).len(), 0);
    assert!(home.answer(&["ls", "--help"]).contains("a day or a month is meant to its end"));
}

#[test]
fn an_agent_that_there_is_not_has_a_hint_that_helps_here() {
    let home = Home::new();
    for command in [&["ls"][..], &["usage"], &["search", "x"], &["query", "SELECT 1"], &["jobs"]] {
        let refused = |agent: &str| {
            let output = home.ask(&[command, &["--agent", agent]].concat());
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            stderr(&output).to_owned()
        };
        assert_eq!(refused("zzz"), "error: there is no agent named zzz\nhint: `sabir agents` lists them all\n");
        assert!(refused("codx").contains("did you mean codex?"));
        let said = refused("auto");
        assert!(said.contains("`sabir parse`") && said.contains("`sabir agents` lists"), "{said}");
    }
    let file = fixture("codex/thread-answer").display().to_string();
    home.answer(&["parse", "--agent", "auto", &file]);
    home.answer(&["drift", "--agent", "auto", &file]);
}

#[test]
fn what_is_not_told_is_not_taken_for_nothing() {
    let home = Home::new();
    let old = CODEX.replace("-7ba1-", "-7bb2-");
    home.log(".codex/sessions/2025/08/09", &format!("rollout-2025-08-09T10-00-00-{old}.jsonl"), "codex/history-0.20");
    let said = |arguments: &[&str]| {
        let output = home.ask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        stderr(&output).to_owned()
    };
    let note = |unknown: usize, all: usize| {
        format!("note: {unknown} of {all} sessions do not tell their tokens; what they spent is not known\n")
    };
    assert_eq!(said(&["usage"]), note(1, 3));
    assert_eq!(said(&["usage", "--since", "2026-11-15T18:00:00Z", "--until", "2026-11-15T18:09:00Z"]), note(1, 1));
    assert_eq!(said(&["usage", "--until", "2025-12"]), "note: nothing that was spent is like that\n");
    assert_eq!(said(&["usage", "--json"]), "");
    let report = &home.objects(&["usage", "--json", "--since", "2026-11-15T18:00:00Z", "--until", "2026-11-15T18:09:00Z"])[0];
    assert_eq!((&report["total"]["tokens"], &report["total"]["costUsd"]), (&Value::Null, &Value::Null), "{report}");
    assert_eq!(report["sessionsWithoutTokens"], 1, "{report}");
}

#[test]
fn a_transcript_says_who_once_and_what_was_changed() {
    let home = Home::new();
    let shown = home.answer(&["show", CLAUDE]);
    assert_eq!(shown.matches(CLAUDE).count(), 1, "{shown}");
    assert_eq!(shown.matches("claude-sonnet-4-5-20250929").count(), 2, "where it begins, and in the table: {shown}");
    let change = shown.lines().skip_while(|line| !line.contains("+ /home/user/project/count.txt")).nth(1);
    assert!(change.is_some_and(|line| line.trim().starts_with("@@")), "{shown}");
    assert!(shown.lines().any(|line| line == "  There are 3 files."), "a sub-agent's words stand apart: {shown}");
}

#[test]
fn ids_are_shown_as_far_as_they_tell_sessions_apart() {
    let home = Home::new();
    let other = CODEX.replace("-7ba1-", "-7bb2-");
    home.log(".codex/sessions/2026/11/15", &format!("rollout-2026-11-15T18-10-10-{other}.jsonl"), "codex/history-0.36-resumed");
    let list = home.answer(&["ls"]);
    let mut ids: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["01a1e067-03b6-7ba", "01a1e067-03b6-7bb", "6f0c1f8e"]);
    for id in ids {
        home.answer(&["show", id]);
    }
    let output = home.ask(&["show", "01a1"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("2 sessions") && said.contains("01a1e067-03b6-7ba") && said.contains("01a1e067-03b6-7bb"), "{said}");
}

#[test]
fn of_sessions_with_one_id_the_furthest_is_shown_and_each_is_a_job() {
    let home = Home::new();
    for (folder, time, text) in [("-one", "10:00:01", "said here"), ("-two", "10:00:02", "said there")] {
        let folder = home.path(".claude/projects").join(folder);
        fs::create_dir_all(&folder).expect("made");
        let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
        let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
        let message = format!(r#"{{"id":"m{time}","role":"assistant","model":"m","content":{content},"usage":{usage}}}"#);
        let line = format!(
            r#"{{"type":"assistant","sessionId":"apart","uuid":"{time}","timestamp":"2026-11-15T{time}.000Z","message":{message}}}"#
        );
        fs::write(folder.join("apart.jsonl"), line + "\n").expect("written");
    }
    for prefix in ["apart", "apa"] {
        let output = home.ask(&["show", prefix]);
        assert!(stdout(&output).contains("said there") && !stdout(&output).contains("said here"), "{}", stdout(&output));
        assert!(
            stderr(&output).contains("2 sessions have the id apart") && stderr(&output).contains("-two"),
            "{}",
            stderr(&output)
        );
    }
    let to = home.path("made");
    home.answer(&["jobs", "--all", "--to", to.to_str().expect("a path")]);
    assert!(to.join("jobs/apart/job.json").exists() && to.join("jobs/apart-2/job.json").exists());
}

#[test]
fn a_status_is_one_that_there_is() {
    let home = Home::new();
    assert_eq!(home.objects(&["ls", "--json", "--status", "Completed"]).len(), 2);
    let output = home.ask(&["ls", "--status", "finished"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("completed") && stderr(&output).contains("hint:"), "{}", stderr(&output));
}

#[test]
fn a_log_of_the_future_is_read_as_far_as_it_is_known() {
    let home = Home::new();
    let log = home.path(".claude/projects/-home-user-project").join(format!("{CLAUDE}.jsonl"));
    let mut text = fs::read(&log).expect("a log");
    text.extend_from_slice(
        b"{\"type\":\"telepathy\",\"sessionId\":\"x\",\"thought\":\"secret\"}\n{\"type\":\"telepathy\"}\n\0 torn \xff\n",
    );
    fs::write(&log, text).expect("written");
    let listed = home.objects(&["ls", "--json", "--results", "--agent", "claude-code"]);
    assert_eq!(listed[0]["result"]["unrecognized"], serde_json::json!({"lines": 3, "types": {"(no type)": 1, "telepathy": 2}}));
    assert_eq!(listed[0]["result"]["tokens"]["total"], listed[0]["totalTokens"]);
    let shown = home.answer(&["show", CLAUDE]);
    assert_eq!(shown.matches("unrecognized telepathy").count(), 2, "{shown}");
    let output = home.ask(&["usage"]);
    assert!(stderr(&output).contains("do not count: 1, in") && stderr(&output).contains(CLAUDE), "{}", stderr(&output));
    let output = home.ask(&["drift", "--json", &log.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let news: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let names: Vec<_> = news.as_array().expect("rows").iter().map(|row| (row["what"].as_str(), row["name"].as_str())).collect();
    assert_eq!(names, [(Some("type"), Some("(no type)")), (Some("type"), Some("telepathy"))]);
    assert!(!stdout(&output).contains("secret"));
}

#[test]
fn a_disk_without_room_for_the_index_changes_no_answer() {
    let home = Home::new();
    let sound = home.answer(&["usage", "--json", "--no-index"]);
    for _ in 0..2 {
        let output = home.ask_on_a_full_disk(&["usage", "--json"]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), sound.as_str()), "{}", stderr(&output));
    }
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
    let spent = home.objects(&["query", "SELECT sum(total) AS tokens, sum(cost) AS cost, count(*) AS n FROM usage", "--json"]);
    let report: Value = serde_json::from_str(&home.answer(&["usage", "--json"])).expect("JSON");
    let total = &report["total"];
    assert_eq!((&spent[0]["tokens"], &spent[0]["n"]), (&total["tokens"]["total"], &total["responses"]));
    let costs = [&spent[0]["cost"], &total["costUsd"]].map(|cost| cost.as_f64().expect("a number"));
    assert!((costs[0] - costs[1]).abs() < 1e-9, "{costs:?}");
    let changes = home.objects(&["query", "SELECT count(*) AS n FROM file_changes", "--json"]);
    let results = home.objects(&["ls", "--json", "--results"]);
    let known: usize = results.iter().filter_map(|one| one["result"]["fileChanges"].as_array().map(Vec::len)).sum();
    assert_eq!(changes[0]["n"].as_u64(), Some(known as u64));
    // What a program reads is not cut.
    let wide = home.answer(&["query", "SELECT * FROM sessions"]);
    assert!(wide.contains(CODEX) && !wide.contains('…'), "{wide}");
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
    let events = fs::read_to_string(home.path("events.jsonl")).expect("a file");
    assert_eq!(events, home.answer(&["replay", CODEX, "--to", "events"]));
    for command in ["show", "replay", "export"] {
        assert_eq!(events, home.answer(&[command, CODEX, "--json"]), "{command}");
        assert_eq!(home.ask(&[command, CODEX, "--json", "--to", "answer"]).status.code(), Some(2), "{command}");
    }
}

#[test]
fn a_run_is_watched_as_events_and_a_journal_that_cannot_be_read_is_named() {
    let home = Home::new();
    let run =
        home.command().env_remove("SABIR_JOURNAL").args(["run", "localexec", "echo hi", "--json"]).output().expect("it ends");
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(home.answer(&["tail", "--json"]), stdout(&run));
    assert_eq!(home.ask(&["tail", "--json", "--to", "answer"]).status.code(), Some(2));
    fs::remove_dir_all(home.path("sabir/runs")).expect("removed");
    fs::write(home.path("sabir/runs"), "no folder").expect("written");
    let output = home.ask(&["tail"]);
    assert_eq!(output.status.code(), Some(6));
    let said = stderr(&output);
    assert!(said.contains(&format!("can't read the journal in {}", home.path("sabir").display())), "{said}");
    assert!(said.contains("hint: SABIR_HOME names"), "{said}");
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

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_one_may_not_look_into_is_named_and_the_rest_is_there() {
    let home = Home::new();
    let closed = home.path(".codex/sessions");
    mode(&closed, 0o000);
    let output = home.somebody().args(["ls", "--json"]).output().expect("it ends");
    mode(&closed, 0o755);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(0), 1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains(".codex/sessions: Permission denied") && told.contains("hint: "), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_that_cannot_be_read_is_named_and_the_others_are_there() {
    let home = Home::new();
    home.answer(&["run", "localexec", "--run-id", "closed", "echo hello"]);
    let ask = |arguments: &[&str]| home.somebody().args(arguments).output().expect("it ends");
    assert_eq!(stdout(&ask(&["ls", "--json"])).lines().count(), 3);
    let folder = home.path("sabir/runs/closed");
    let files = || fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    files().for_each(|path| mode(&path, 0o000));
    for arguments in [
        &["search", "COUNT", "files", "--json"][..],
        &["query", "--json", "SELECT DISTINCT session FROM events"],
        &["ls", "--json", "--results"],
        &["jobs", "--all", "--json"],
    ] {
        let output = ask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(CLAUDE), "{arguments:?}: {}", stdout(&output));
        let told = stderr(&output);
        assert!(told.contains("warning: can't read ") && told.contains("runs/closed"), "{arguments:?}: {told}");
    }
    files().for_each(|path| mode(&path, 0o600));
}

#[cfg(unix)]
#[test]
fn what_a_run_was_to_do_is_found() {
    let home = Home::new();
    home.answer(&["run", "localexec", "--run-id", "fish", "echo hi # ZÉBRAFISH"]);
    let places = home.objects(&["search", "zébrafish", "--json"]);
    let told: Vec<_> = places.iter().map(|place| (&place["session"], &place["kind"], &place["snippet"])).collect();
    assert_eq!(told, [(&"fish".into(), &"prompt".into(), &"echo hi # ZÉBRAFISH".into())]);
    assert!(home.answer(&["search", "zébrafish"]).contains("localexec  prompt\n"));
}

#[test]
fn every_column_is_told_and_a_question_without_words_is_refused() {
    let home = Home::new();
    assert_eq!(home.answer(&["query", "--json", "SELECT 1 AS id, 2 AS id"]), "{\"id\":1,\"id_2\":2}\n");
    let refused = home.ask(&["query", " "]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("the question is empty") && stderr(&refused).contains("hint: "), "{}", stderr(&refused));
}

#[test]
fn a_question_without_an_end_ends_with_its_reader() {
    use std::io::{BufRead as _, BufReader};
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";
    let mut child =
        Home::new().command().args(["query", "--json", endless]).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a row");
    assert_eq!(first, "{\"x\":1}\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
