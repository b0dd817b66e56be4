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
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "SABIR_JOURNAL"] {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path()).env("SABIR_HOME", self.path("sabir")).env("TZ", "UTC").env("COLUMNS", "100");
        command.current_dir(self.folder.path());
        command
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
    fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    }

    fn objects(&self, arguments: &[&str]) -> Vec<Value> {
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
    let output = home.ask(&["show", ""]);
    assert_eq!(output.status.code(), Some(2), "the beginning of several");
    assert!(stderr(&output).contains("hint:"), "{}", stderr(&output));
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
        let ask = home.command();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"]).arg(ask.get_program()).args(["usage", "--json"]);
        for (name, value) in ask.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().expect("it ends");
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
