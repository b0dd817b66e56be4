//! The command line in daily use: run ids, search, tables, tails, and what is said about a run that failed.

use std::fs;
use std::path::Path;
use std::process::Output;

use sabir_store::{Journal, Kind, Meta};
use serde_json::{Value, json};

use crate::past::{CLAUDE, CODEX, Home};
use crate::run::{INIT, RESULT, Script};
use crate::{stderr, stdout};

/// Writes a run into the journal as earlier versions did: behind another one of the same id.
fn append_run(home: &Home, id: &str, text: &str) {
    let journal = Journal::open(&sabir_store::Home::at(home.path("sabir")), id).expect("opened");
    let (prompt, cwd) = (format!("prompt {text}"), "/home/user".to_owned());
    journal.meta(&Meta { run_id: id.to_owned(), agent: "claude-code".to_owned(), cwd, prompt, ..Meta::default() });
    let kinds = [
        json!({"kind": "started", "agent": "claude-code"}),
        json!({"kind": "text", "delta": format!("answer {text}")}),
        json!({"kind": "final", "text": format!("answer {text}")}),
        json!({"kind": "exited", "exitCode": 0, "cancelled": false, "outcome": "completed"}),
    ];
    for (mut event, seq) in kinds.into_iter().zip(1..) {
        (event["runId"], event["seq"]) = (json!(id), json!(seq));
        journal.append(Kind::Event, 1_000, |out| serde_json::to_writer(out, &event).expect("JSON"));
    }
    let tokens = json!({"uncachedInput": 400, "output": 50, "total": 450});
    journal.result(&json!({"agent": "claude-code", "outcome": "completed", "models": [{"model": "m", "tokens": tokens}]}));
    journal.finish().expect("finished");
}

/// A home without any log of an agent.
fn empty_home() -> Home {
    let home = Home::new();
    for folder in [".claude", ".codex"] {
        fs::remove_dir_all(home.path(folder)).expect("removed");
    }
    home
}

fn assert_refused(output: &Output, what: &str, hint: &str) {
    let said = stderr(output);
    assert_eq!((output.status.code(), stdout(output)), (Some(2), ""), "{said}");
    assert!(said.contains(what), "{said}");
    assert!(said.lines().any(|line| line.starts_with("hint: ") && line.contains(hint)), "{said}");
}

#[test]
fn run_id_in_use_is_refused() {
    let home = empty_home();
    home.answer(&["run", "localexec", "--run-id", "dup", "echo first"]);
    let kept = home.path("kept");
    fs::write(&kept, "mine").expect("written");
    let raw = kept.to_str().expect("a path");
    let again = ["run", "localexec", "--run-id", "dup", "echo second; touch started", "--raw", raw];
    assert_refused(&home.ask(&again), "the journal has a run with the id dup already", "another --run-id");
    assert!(!home.path("started").exists());
    assert_eq!(fs::read_to_string(&kept).expect("readable"), "mine", "nothing was touched");
    assert_eq!(home.answer(&["show", "dup", "--to", "answer"]), "first\n");
    // What is not kept takes no id away.
    home.answer(&["run", "localexec", "--run-id", "dup", "--no-journal", "echo second"]);
}

#[test]
fn batch_with_ids_in_use_starts_nothing() {
    let home = empty_home();
    let jobs = "{\"agent\":\"localexec\",\"prompt\":\"echo new >>made\",\"id\":\"new\"}\n\
                {\"agent\":\"localexec\",\"prompt\":\"echo old >>made\",\"id\":\"old\"}\n";
    fs::write(home.path("jobs"), jobs.lines().nth(1).expect("a line")).expect("written");
    home.answer(&["batch", "jobs"]);
    fs::write(home.path("jobs"), jobs).expect("written");
    assert_refused(
        &home.ask(&["batch", "jobs"]),
        "line 2 of jobs: the journal has a run with the id old already",
        "`id` of its own",
    );
    assert_eq!(fs::read_to_string(home.path("made")).expect("readable"), "old\n");
    // Without ids, the same batch may run any number of times.
    fs::write(home.path("jobs"), jobs.replace(",\"id\":\"new\"", "").replace(",\"id\":\"old\"", "")).expect("written");
    home.answer(&["batch", "jobs"]);
    home.answer(&["batch", "jobs"]);
    assert_eq!(home.objects(&["ls", "--json"]).len(), 5);
}

#[test]
fn reused_run_id_is_two_runs_everywhere() {
    let home = empty_home();
    append_run(&home, "dup", "first");
    append_run(&home, "dup", "second");
    for _ in 0..2 {
        let listed = home.objects(&["ls", "--json", "--results"]);
        let told: Vec<_> =
            listed.iter().map(|run| (&run["id"], &run["prompt"], &run["totalTokens"], &run["result"]["text"])).collect();
        let row = |id, prompt, text| (json!(id), json!(prompt), json!(450), json!(text));
        let rows = [row("dup.1", "prompt first", "answer first"), row("dup", "prompt second", "answer second")];
        assert_eq!(told, rows.iter().map(|(id, prompt, tokens, text)| (id, prompt, tokens, text)).collect::<Vec<_>>());
    }
    let usage: Value = serde_json::from_str(&home.answer(&["usage", "--json", "--by", "session"])).expect("JSON");
    assert_eq!(usage["total"]["tokens"]["total"], 900);
    assert_eq!(usage["rows"].as_array().map(Vec::len), Some(2));
    for (id, text, other) in [("dup", "second", "first"), ("dup.1", "first", "second")] {
        for command in [&["show", id][..], &["tail", id], &["export", id], &["show", id, "--json"], &["replay", id, "--json"]] {
            let said = home.answer(command);
            assert!(!said.contains(other), "{command:?}: {said}");
            // What is played again is decoded from what the agent printed, which was nothing here.
            assert!(command[0] == "replay" || said.contains(&format!("answer {text}")), "{command:?}: {said}");
        }
        let found = home.objects(&["search", "--json", "answer", text]);
        assert_eq!(found.iter().map(|place| (&place["session"], &place["seq"])).collect::<Vec<_>>(), [(&json!(id), &json!(2))]);
    }
    let rows = home.objects(&["query", "--json", "SELECT session, count(*) AS n FROM events GROUP BY session ORDER BY session"]);
    assert_eq!(rows, [json!({"session": "dup", "n": 4}), json!({"session": "dup.1", "n": 4})]);
    let pruned = home.objects(&["prune", "--keep", "1", "--json", "--yes"]);
    assert_eq!((&pruned[0]["runs"][0]["runId"], &pruned[0]["left"]["runs"]), (&json!("dup.1"), &json!(1)));
    let output = home.ask(&["show", "dup", "--to", "answer"]);
    assert_eq!((stdout(&output), stderr(&output)), ("answer second\n", ""), "what is left is whole");
}

/// Writes a session of Claude Code that says these texts, one message each.
fn log_texts(home: &Home, id: &str, texts: &[&str]) {
    let folder = home.path(".claude/projects/-home-user-project");
    fs::create_dir_all(&folder).expect("made");
    let line = |(place, text): (usize, &&str)| {
        let message = json!({"id": format!("m{place}-{id}"), "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}});
        let line = json!({"type": "assistant", "sessionId": id, "uuid": format!("{id}-{place}"),
            "timestamp": format!("2026-11-15T10:00:0{place}.000Z"), "cwd": "/home/user/project", "message": message});
        format!("{line}\n")
    };
    fs::write(folder.join(format!("{id}.jsonl")), texts.iter().enumerate().map(line).collect::<String>()).expect("written");
}

#[test]
fn search_finds_phrases_and_whole_words() {
    let home = empty_home();
    log_texts(&home, "aaaa", &["An unrelated start.", "It is an Off by\n one error in the parser.", "So the parsers differ."]);
    log_texts(&home, "bbbb", &["One goes off, and by then it is over.", "Turn off by ones."]);
    let places = |arguments: &[&str]| -> Vec<String> {
        let output = home.ask(&[&["search", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(i32::from(stdout(&output).is_empty())), "{}", stderr(&output));
        let places = stdout(&output).lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        places
            .map(|place| format!("{} {}", place["session"].as_str().expect("an id"), place["snippet"].as_str().expect("a text")))
            .collect()
    };
    let hit = "aaaa It is an Off by one error in the parser.";
    // As README.md has it.
    assert_eq!(places(&["off by one"]), [hit]);
    assert_eq!(places(&["parser", "off by one"]), [hit]);
    assert_eq!(places(&["parser \"off by one\""]), [hit]);
    assert_eq!(places(&["off", "by", "one"]), [hit, "bbbb One goes off, and by then it is over."]);
    assert_eq!(places(&["PARSER"]), [hit]);
    assert_eq!(places(&["parser", "--substring"]), [hit, "aaaa So the parsers differ."]);
    assert_eq!(places(&["ones"]), ["bbbb Turn off by ones."]);
    assert_eq!(places(&["art"]), [""; 0]);
    assert_eq!(places(&["art", "--substring"]), ["aaaa An unrelated start."]);
}

#[test]
fn search_gives_the_number_that_show_takes() {
    let home = Home::new();
    for (words, session) in [(&["count", "files"][..], CLAUDE), (&["files", "--substring"], CODEX)] {
        let events = home.objects(&["show", session, "--json"]);
        let places = home.objects(&[&["search", "--json"], words].concat());
        let of_session: Vec<&Value> = places.iter().filter(|place| place["session"] == session).collect();
        assert!(!of_session.is_empty(), "{words:?} {places:?}");
        for place in of_session {
            let event = events.iter().find(|event| event["seq"] == place["seq"]).expect("an event of this number");
            assert_eq!(event["kind"], place["kind"]);
            let seq = place["seq"].as_u64().expect("a number");
            let shown = home.objects(&["show", session, "--json", "--event", &seq.to_string(), "-C", "0"]);
            assert_eq!(shown, std::slice::from_ref(event));
            let text = home.answer(&["search", words[0]]);
            let head = format!("{}  event {seq}", place["kind"].as_str().expect("a kind"));
            assert!(words[1..] == ["--substring"] || text.lines().any(|line| line.ends_with(&head)), "{head} in {text}");
            let shown = home.answer(&["show", session, "--event", &seq.to_string()]);
            let marked: Vec<&str> = shown.lines().filter(|line| line.starts_with("> ")).collect();
            assert!(marked.len() == 1 && marked[0].starts_with(&format!("> {seq} ")), "{shown}");
        }
        let last = events.len();
        let shown = home.objects(&["show", session, "--json", "--event", &last.to_string(), "-C", "2"]);
        assert_eq!(shown, events[last - 3..]);
        let missing = home.ask(&["show", session, "--event", "99999"]);
        assert_refused(&missing, "has no event 99999", &format!("from 1 to {last}"));
    }
}

#[test]
fn prune_takes_times_with_a_unit() {
    let home = empty_home();
    append_run(&home, "old", "old");
    for command in [&["prune", "--older-than", "30"][..], &["ls", "--since", "30"]] {
        assert_refused(&home.ask(command), "invalid time `30`", "30d");
    }
    assert_refused(&home.ask(&["prune", "--older-than", "2999-01-01"]), "in the future", "30d");
    for (when, count) in [("30d", 0), ("0s", 1), ("2020-01-01", 0), ("now", 1)] {
        let told: Value = serde_json::from_str(&home.answer(&["prune", "--older-than", when, "--json"])).expect("JSON");
        assert_eq!(told["runs"].as_array().map(Vec::len), Some(count), "{when}");
    }
}

#[test]
fn usage_by_session_has_all_columns_or_says_which_it_leaves_out() {
    let home = Home::new();
    let table = |columns: Option<&str>| {
        let mut command = home.command();
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        command.args(["usage", "--by", "session"]).output().expect("it ends")
    };
    let figures = ["SESSION", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", "TOTAL", "COST"];
    for (columns, names) in [(None, &["PROJECT", "PROMPT"][..]), (Some("120"), &["PROJECT", "PROMPT"]), (Some("80"), &[])] {
        let output = table(columns);
        let head = stdout(&output).lines().next().expect("a head");
        assert!(figures.iter().chain(names).all(|name| head.contains(name)), "{columns:?}: {head}");
    }
    assert!(stdout(&table(None)).contains("Count the files"), "{}", stdout(&table(None)));
    let narrow = table(Some("40"));
    let head = stdout(&narrow).lines().next().expect("a head");
    let told = stderr(&narrow).lines().find(|line| line.contains("left out")).expect("a note");
    for name in figures.iter().chain(&["PROJECT", "PROMPT"]) {
        assert!(head.contains(name) != told.contains(name), "{name}: {head} / {told}");
    }
}

#[test]
fn piped_tables_are_whole() {
    let home = Home::new();
    let widest = |columns: Option<&str>| {
        let mut command = home.command();
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let output = command.arg("agents").output().expect("it ends");
        (stdout(&output).lines().map(|line| line.chars().count()).max().unwrap_or(0), stdout(&output).contains('…'))
    };
    let (width, is_cut) = widest(None);
    assert!(width > 100 && !is_cut, "{width}");
    assert_eq!(widest(Some("60")), (60, true), "a user who sets the width has it");
}

#[test]
fn failed_run_says_the_agents_error_and_exit_code() {
    let long = "x".repeat(150);
    let fails = format!("cat >/dev/null; echo 'first line' >&2; echo 'no such model: {long} end' >&2; exit 3");
    let script = Script::new(&fails);
    let run = |to: &[&str]| {
        let mut command = crate::sabir();
        command.args(["run", "claude-code", "do it", "--program"]).arg(script.path()).args(to);
        command.env("SABIR_HOME", script.file("home")).env_remove("SABIR_JOURNAL").output().expect("it ends")
    };
    let human = run(&["--run-id", "failing"]);
    assert_eq!(human.status.code(), Some(1));
    let outcome = |text: &str| text.lines().find(|line| line.starts_with("outcome")).map(str::to_owned).expect("an outcome");
    assert_eq!(outcome(stdout(&human)), "outcome   ✗ failed (exit 3): first line");
    assert!(stdout(&human).contains(&format!("\n          no such model: {long} end\n")), "{}", stdout(&human));
    let mut show = crate::sabir();
    let shown = show.args(["show", "failing"]).env("SABIR_HOME", script.file("home")).env("HOME", script.file("home")).output();
    assert_eq!(outcome(stdout(&shown.expect("it ends"))), "outcome   ✗ failed (exit 3): first line");
    let said = run(&["--json"]);
    assert!(stderr(&said).contains("the run of claude-code ended: failed (exit 3): first line\n"), "{}", stderr(&said));
    // An error of the agent is not cut where the line ends.
    let result = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["bad key LONG: log in"],"session_id":"s"}"#;
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{}'; exit 1", result.replace("LONG", &long)));
    let output = crate::sabir().args(["run", "claude-code", "x", "--program"]).arg(script.path()).output().expect("it ends");
    let errors = stdout(&output).matches(&format!("bad key {long}: log in")).count();
    assert_eq!(errors, 2, "as it comes, and in the summary: {}", stdout(&output));
    assert!(outcome(stdout(&output)).contains("exit 1"), "{}", stdout(&output));
}

#[test]
fn tail_prints_the_last_lines() {
    let home = empty_home();
    let run = home.answer(&["run", "localexec", "seq 1 50", "--json"]);
    let events: Vec<&str> = run.lines().collect();
    let tail = |arguments: &[&str]| home.answer(&[&["tail", "--json"], arguments].concat());
    let lines = |from: usize| events[from..].iter().flat_map(|line| [*line, "\n"]).collect::<String>();
    let count = events.len();
    assert!(count > 20, "{run}");
    assert_eq!(tail(&[]), lines(count - 10));
    assert_eq!(tail(&["-f"]), lines(count - 10));
    assert_eq!(tail(&["-n", "3"]), lines(count - 3));
    assert_eq!((tail(&["--all"]), tail(&["-n", "+1"]), tail(&["-n", "+5"])), (lines(0), lines(0), lines(4)));
    assert_eq!(tail(&["-n", "0"]), "");
    assert_eq!(home.ask(&["tail", "-n", "x"]).status.code(), Some(2));
    let human = home.answer(&["tail", "-n", "2"]);
    assert!(human.starts_with("49\n50\n") && human.contains("outcome"), "{human}");
}

#[test]
fn resume_takes_the_beginning_of_an_id() {
    let home = Home::new();
    let other = CLAUDE.replace("6f0c1f8e-0000", "6f0c1f8e-1111");
    home.log(".claude/projects/-home-user-project", &format!("{other}.jsonl"), "claude-code/history-sub-agent");
    let script = Script::new(&format!("cat >/dev/null; echo \"$@\" >arguments; echo '{INIT}'; echo '{RESULT}'"));
    let run = |id: &str| {
        let mut command = home.command();
        command.args(["run", "claude-code", "go on", "--resume", id, "--no-journal", "--json", "--program"]).arg(script.path());
        command.arg("--cwd").arg(script.folder.path()).output().expect("it ends")
    };
    let given = || {
        let arguments = fs::read_to_string(script.file("arguments")).expect("arguments");
        let mut words = arguments.split_whitespace().skip_while(|word| *word != "--resume");
        words.nth(1).expect("an id").to_owned()
    };
    let resumed = |id: &str| {
        assert_eq!(run(id).status.code(), Some(0), "{}", stderr(&run(id)));
        given()
    };
    assert_eq!(resumed(&CLAUDE[..12]), CLAUDE);
    assert_eq!(resumed(CLAUDE), CLAUDE);
    assert_eq!(resumed("unknown-here"), "unknown-here", "the agent may know more");
    fs::remove_file(script.file("arguments")).expect("removed");
    let mut shell = home.command();
    shell.args(["shell", "--resume", &CLAUDE[..12], "--program"]).arg(script.path()).arg("--cwd").arg(script.folder.path());
    let output = shell.args(["--", "claude-code", "go on"]).env("SESSION_ID", "s").output().expect("it ends");
    assert_eq!((output.status.code(), given()), (Some(0), CLAUDE.to_owned()), "{}", stderr(&output));
    let ambiguous = run("6f0c1f8e");
    assert_refused(&ambiguous, "2 sessions of claude-code start with 6f0c1f8e", CLAUDE);
    assert!(stderr(&ambiguous).contains(&other), "{}", stderr(&ambiguous));
    let shown = home.ask(&["show", "6f0c"]);
    assert_refused(&shown, "2 sessions start with 6f0c", "6f0c1f8e-0, 6f0c1f8e-1");
}

/// A terminal with something running in it.
struct Terminal {
    child: std::process::Child,
    output: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    fn start(mut command: std::process::Command) -> Self {
        use std::io::Read as _;
        let size = nix::pty::Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let nix::pty::OpenptyResult { master, slave } = nix::pty::openpty(&size, None).expect("a terminal");
        command.stdout(slave.try_clone().expect("a copy")).stderr(slave);
        let child = command.spawn().expect("it starts");
        // The command holds the other end too, and the terminal ends when nobody does.
        drop(command);
        let (sender, output) = std::sync::mpsc::channel();
        let mut master = fs::File::from(master);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                let _ = sender.send(bytes[..count].to_vec());
            }
        });
        Self { child, output, seen: String::new() }
    }

    /// Waits until what was printed fits.
    fn wait(&mut self, what: &str, fits: impl Fn(&str) -> bool) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while !fits(&self.seen) {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let piece = self.output.recv_timeout(left).unwrap_or_else(|_| panic!("{what}: {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

#[test]
fn status_line_stays_while_a_tool_runs_after_text() {
    let text = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"Let me look"}]},"session_id":"s"}"#;
    let tool = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make all"}}]},"session_id":"s"}"#;
    let script =
        Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{text}'; echo '{tool}'; read -r _ <go; echo '{RESULT}'"));
    let path = |name: &str| script.file(name);
    assert!(std::process::Command::new("mkfifo").arg(path("go")).status().expect("it starts").success());
    let mut command = crate::sabir();
    command.args(["run", "claude-code", "x", "--program"]).arg(script.path()).arg("--cwd").arg(script.folder.path());
    command.env("TERM", "xterm").env_remove("COLUMNS");
    let mut terminal = Terminal::start(command);
    let is_drawn = |seen: &str| {
        let after = seen.split_once("Let me look").map_or("", |(_, after)| after);
        after.contains("⠹") && after.contains("Bash make all")
    };
    terminal.wait("no status line while the tool runs", is_drawn);
    release(&path("go"));
    terminal.wait("no end", |seen| seen.contains("outcome"));
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(0));
}

/// Lets a script go on that reads from this pipe.
fn release(pipe: &Path) {
    fs::write(pipe, "go\n").expect("written");
}
