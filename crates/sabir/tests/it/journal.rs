//! What is kept of a run, when it is not, and how it goes.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use sabir_core::line::Source;
use sabir_store::record::raw_line;
use sabir_store::{Home, Kind, Meta, Reader};
use serde_json::Value;

use crate::run::{INIT, RESULT, Script, events, wait_for};
use crate::{sabir, stderr, stdout, until};

/// A run as the journal has it.
pub(crate) struct Kept {
    pub(crate) meta: Meta,
    pub(crate) events: Vec<Value>,
    /// Standard output, byte by byte.
    pub(crate) printed: String,
    pub(crate) errors: String,
    pub(crate) result: Option<Value>,
    pub(crate) end: Option<Value>,
}

/// Reads the journal of a run.
pub(crate) fn kept(home: &Path, run_id: &str) -> Kept {
    let mut reader = Reader::open(&Home::at(home), run_id).expect("a journal");
    let mut kept = Kept {
        meta: Meta::default(),
        events: Vec::new(),
        printed: String::new(),
        errors: String::new(),
        result: None,
        end: None,
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
    while let Some(record) = reader.next().expect("readable") {
        match record.kind {
            Kind::Meta => kept.meta = serde_json::from_slice(record.payload).expect("a meta"),
            Kind::Event => kept.events.push(json(record.payload)),
            Kind::Result => kept.result = Some(json(record.payload)),
            Kind::End => kept.end = Some(json(record.payload)),
            Kind::Raw => {
                let (line, source) = raw_line(record.payload).expect("a line");
                assert!(record.at > 0, "lines have the time when they were read");
                let text = if source == Source::Stdout { &mut kept.printed } else { &mut kept.errors };
                text.push_str(&line.text());
                text.push_str(if line.cr { "\r" } else { "" });
                text.push_str(if line.terminated { "\n" } else { "" });
            }
            _ => panic!("{record:?}"),
        }
    }
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    kept
}

/// The id of the only run.
fn only_run(home: &Path) -> String {
    let runs = Home::at(home).runs().expect("readable");
    assert_eq!(runs.len(), 1);
    runs[0].id().to_owned()
}

#[test]
fn a_run_is_kept_as_it_was_told_and_as_it_was_printed() {
    for view in ["events", "result", "answer"] {
        let script =
            Script::new(&format!("cat >/dev/null\nprintf '%s\\r\\n\\n' '{INIT}'\necho careful >&2\nprintf '%s' '{RESULT}'"));
        let mut command = sabir();
        command.args(["run", "claude-code", "say it", "--to", view, "--program"]).arg(script.path());
        command.env("SABIR_HOME", script.file("home")).env_remove("SABIR_JOURNAL").arg("--cwd").arg(script.folder.path());
        let output = command.output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let id = only_run(&script.file("home"));
        let kept = kept(&script.file("home"), &id);
        assert_eq!(kept.printed, format!("{INIT}\r\n\n{RESULT}"));
        assert_eq!(kept.errors, "careful\n");
        assert!(kept.events.iter().all(|event| event["runId"] == id.as_str()), "the ids are the same");
        assert!(kept.events.iter().zip(1..).all(|(event, seq)| event["seq"] == seq));
        match view {
            "events" => assert_eq!(kept.events, events(&output)),
            "result" => assert_eq!(kept.result.as_ref(), serde_json::from_str(stdout(&output)).ok().as_ref()),
            _ => assert_eq!(stdout(&output), "done\n"),
        }
        assert_eq!(kept.result.expect("a result")["text"], "done");
        assert_eq!(kept.end.expect("an end")["complete"], true);
        let meta = kept.meta;
        assert_eq!(
            (meta.schema.as_str(), meta.run_id.as_str(), meta.agent.as_str()),
            ("sabir.run/1", id.as_str(), "claude-code")
        );
        assert_eq!((meta.prompt.as_str(), meta.program), ("say it", script.path().display().to_string()));
        assert_eq!(meta.cwd, script.folder.path().display().to_string());
    }
}

#[test]
fn no_secret_is_kept_with_the_command_line() {
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{RESULT}'"));
    let mut command = sabir();
    command.args(["run", "claude-code", "use hunter2-hunter2", "-q", "--env", "DB_PASSWORD=hunter2-hunter2", "--program"]);
    command.arg(script.path()).env("SABIR_HOME", script.file("home")).env_remove("SABIR_JOURNAL");
    command.env("ANTHROPIC_API_KEY", "own-key-of-mine").env("OTHER_TOKEN", "not-for-the-agent");
    command.args(["--", "--api-key", "given-plainly", "--header", "x-api-key: own-key-of-mine", "--note=not-for-the-agent"]);
    let output = command.output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let kept = kept(&script.file("home"), &only_run(&script.file("home")));
    let text = serde_json::to_string(&kept.meta).expect("JSON");
    for secret in ["hunter2", "own-key", "not-for-the-agent", "given-plainly"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(kept.meta.arguments.iter().any(|argument| argument == "[secret]"), "{text}");
    assert_eq!(kept.meta.prompt, "use [secret]");
}

#[test]
fn the_journal_can_be_switched_off() {
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{RESULT}'"));
    assert_eq!(script.run(&["--no-journal"]).status.code(), Some(0));
    for value in ["off", "0", "OFF"] {
        let mut command = sabir();
        command.args(["run", "claude-code", "x", "-q", "--program"]).arg(script.path());
        command.env("SABIR_HOME", script.file("home")).env("SABIR_JOURNAL", value);
        assert_eq!(command.output().expect("it ends").status.code(), Some(0));
    }
    assert!(!script.file("home").exists());
    assert_eq!(script.run(&[]).status.code(), Some(0));
    assert!(script.file("home").exists());
}

#[test]
fn a_journal_that_cannot_be_written_is_one_warning_and_a_code_and_the_run_goes_on() {
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{RESULT}'"));
    fs::write(script.file("home"), "a file is no folder").expect("written");
    let output = script.run(&[]);
    assert_eq!(
        (output.status.code(), events(&output).pop().map(|last| last["outcome"].clone())),
        (Some(6), Some("completed".into()))
    );
    let said = stderr(&output);
    assert_eq!((said.matches("warning:").count(), said.matches("hint:").count()), (1, 1), "{said}");
    assert!(said.contains("SABIR_HOME") && said.contains("--no-journal"), "{said}");
    // How the run itself ended says more.
    let failing = Script::new("cat >/dev/null; exit 3");
    fs::write(failing.file("home"), "a file is no folder").expect("written");
    assert_eq!(failing.run(&[]).status.code(), Some(1));
}

#[test]
fn a_disk_that_fills_up_is_one_warning_and_a_code_and_the_run_goes_on() {
    // Half a megabyte or less may be written into one file; the signal that comes with it is ignored from the start.
    let script =
        Script::new(&format!("cat >/dev/null; echo '{INIT}'; seq -f '{{\"type\":\"new\",\"n\":%.0f}}' 20000; echo '{RESULT}'"));
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 500; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_sabir")])
        .args(["run", "claude-code", "x", "--json", "--run-id", "full", "--program"])
        .arg(script.path())
        .env("SABIR_HOME", script.file("home"))
        .stdin(Stdio::null())
        .output()
        .expect("it ends");
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert!(events(&output).len() > 20_000, "all events are told");
    let said = stderr(&output);
    assert_eq!((said.matches("warning:").count(), said.matches("hint:").count()), (1, 1), "{said}");
    assert!(said.contains("sabir prune"), "{said}");
    let kept = kept(&script.file("home"), "full");
    assert!(kept.events.len() > 100 && kept.result.is_none());
    assert!(kept.events.iter().eq(events(&output).iter().take(kept.events.len())), "what is there is right");
    assert_eq!(kept.end.expect("the journal says so")["complete"], false);
}

#[test]
fn a_run_that_is_killed_is_kept_up_to_there() {
    let script = Script::new(&format!("cat >/dev/null; echo $$ >pid; echo '{INIT}'; sleep 1000"));
    let mut child = script.start(&["--run-id", "killed"]);
    let reader = wait_for(&mut child, "session");
    let home = script.file("home");
    let folder = Home::at(&home).run("killed").expect("an id");
    assert!(folder.is_live());
    // The same id can't be run twice at once.
    let second = script.run(&["--run-id", "killed"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("going on") && stderr(&second).contains("hint:"), "{}", stderr(&second));
    // The event was told; it is in the journal once it is synced.
    let mut watching = Reader::open(&Home::at(&home), "killed").expect("a journal");
    let mut seen = 0;
    while seen < 2 {
        match watching.next().expect("readable") {
            Some(record) => seen += u32::from(record.kind == Kind::Event),
            None => drop(watching.wait(std::time::Duration::from_secs(300)).expect("watched")),
        }
    }
    child.kill().expect("killed");
    child.wait().expect("it is gone");
    drop(reader);
    let agent = fs::read_to_string(script.file("pid")).expect("an agent");
    until(|| !Path::new("/proc").join(agent.trim()).exists());
    assert!(!folder.is_live());
    let kept = kept(&home, "killed");
    assert_eq!(kept.events.iter().map(|event| event["kind"].as_str()).collect::<Vec<_>>(), [Some("started"), Some("session")]);
    assert!(kept.end.is_none() && kept.result.is_none());
    // Nobody saw how it ended, and whoever looks at it is told so.
    let (listed, mut shown) = looked_at(&home, "killed");
    let end = shown.pop().expect("an end");
    assert_eq!(
        (&listed["outcome"], &end["kind"], &end["outcome"]),
        (&"incomplete".into(), &"exited".into(), &"incomplete".into())
    );
    assert_eq!(shown, kept.events);
    let replay = |how: &[&str]| {
        let mut command = sabir();
        command.args(["replay", "killed"]).args(how).env("SABIR_HOME", &home).env("HOME", &home);
        command.output().expect("it ends")
    };
    let result: Value = serde_json::from_slice(&replay(&["--to", "result"]).stdout).expect("a result");
    assert_eq!((&result["status"], &result["outcome"]), (&"incomplete".into(), &"incomplete".into()));
    assert_eq!(replay(&["--diff"]).status.code(), Some(0));
}

/// A run as `ls` and `show` tell it.
fn looked_at(home: &Path, id: &str) -> (Value, Vec<Value>) {
    let ask = |arguments: &[&str]| -> Vec<Value> {
        let mut command = sabir();
        // Nobody's logs but the journal.
        command.env("HOME", home.join("nobody")).env("SABIR_HOME", home).args(arguments);
        let output = command.output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let listed = ask(&["ls", "--json"]).into_iter().find(|run| run["id"] == id).expect("it is listed");
    (listed, ask(&["show", id, "--json"]))
}

#[test]
fn a_damaged_run_is_listed_and_shown() {
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{RESULT}'"));
    assert_eq!(script.run(&["--run-id", "hurt"]).status.code(), Some(0));
    let home = script.file("home");
    let folder = Home::at(&home).run("hurt").expect("an id");
    let segment = folder.segment(folder.segments().expect("segments")[0]);
    let bytes = fs::read(&segment).expect("a segment");
    let (sound, events) = looked_at(&home, "hurt");
    assert_eq!(sound["outcome"], "completed");
    // Every byte is tried where the journal is tested; here the commands are, at some of them.
    for place in (20..bytes.len()).step_by(bytes.len() / 12) {
        let mut wrong = bytes.clone();
        wrong[place] ^= 0x55;
        fs::write(&segment, &wrong).expect("written");
        let (listed, shown) = looked_at(&home, "hurt");
        assert_eq!((&listed["agent"], &listed["outcome"]), (&sound["agent"], &sound["outcome"]), "byte {place}");
        // An end that can't be read is made anew, so that there is always one.
        let is_end = |event: &&Value| event["kind"] == "exited";
        assert!(shown.len() + 1 >= events.len() && shown.iter().filter(is_end).count() == 1, "byte {place}");
        assert!(shown.iter().all(|event| is_end(&event) || events.contains(event)), "byte {place}");
        fs::write(&segment, &bytes[..place.max(bytes.len() / 3)]).expect("written");
        let (listed, mut shown) = looked_at(&home, "hurt");
        let end = shown.pop().expect("an end");
        assert_eq!((shown.as_slice(), &end["outcome"]), (&events[..shown.len()], &listed["outcome"]), "cut at {place}");
    }
}

#[test]
fn a_damaged_journal_is_reported_by_lists_and_questions() {
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{RESULT}'"));
    assert_eq!(script.run(&["--run-id", "hurt"]).status.code(), Some(0));
    let home = script.file("home");
    let folder = Home::at(&home).run("hurt").expect("an id");
    let segment = folder.segment(folder.segments().expect("segments")[0]);
    let ask = |arguments: &[&str]| {
        let mut command = sabir();
        command.env("HOME", home.join("nobody")).env("SABIR_HOME", &home).args(arguments);
        command.output().expect("it ends")
    };
    let questions: [&[&str]; 4] = [&["ls"], &["ls", "--json"], &["query", "SELECT count(*) FROM events"], &["usage"]];
    for question in questions {
        assert!(!stderr(&ask(question)).contains("damaged"), "{question:?}");
    }
    let mut bytes = fs::read(&segment).expect("a segment");
    let event = bytes.windows(15).position(|window| window == b"\"kind\":\"session").expect("an event");
    bytes[event + 1] ^= 1;
    fs::write(&segment, bytes).expect("written");
    for question in questions {
        let output = ask(question);
        assert_eq!(output.status.code(), Some(0), "{question:?}");
        assert!(stderr(&output).contains("warning: the journal of hurt is damaged"), "{question:?}: {}", stderr(&output));
        // The run used no tokens.
        assert!(question == ["usage"] || !stdout(&output).is_empty(), "{question:?}: what can be read is shown");
    }
    let listed: Value = serde_json::from_str(stdout(&ask(&["ls", "--json"])).lines().next().expect("a line")).expect("JSON");
    assert_eq!((&listed["damage"]["places"], &listed["damage"]["missing"]), (&1.into(), &1.into()));
}

fn prune(script: &Script, arguments: &[&str]) -> Output {
    sabir().arg("prune").args(arguments).env("SABIR_HOME", script.file("home")).output().expect("it ends")
}

#[test]
fn pruning_says_what_would_go_and_removes_only_when_told() {
    let script = Script::new(&format!("cat >/dev/null; echo '{INIT}'; echo '{RESULT}'"));
    assert_eq!(stdout(&prune(&script, &["--keep", "1"])), "");
    for id in ["one", "two", "three"] {
        assert_eq!(script.run(&["--run-id", id]).status.code(), Some(0));
    }
    let live = sabir_store::Journal::open(&Home::at(script.file("home")), "live").expect("opened");
    let left = || Home::at(script.file("home")).runs().expect("readable").len();

    let output = prune(&script, &["--keep", "0"]);
    assert_eq!(output.status.code(), Some(0));
    for id in ["one", "two", "three"] {
        assert!(stdout(&output).contains(id), "{}", stdout(&output));
    }
    assert!(!stdout(&output).contains("live"));
    assert!(
        stderr(&output).contains("would remove 3 of 4 runs") && stderr(&output).contains("hint: --yes"),
        "{}",
        stderr(&output)
    );
    assert_eq!(left(), 4);

    let told: Value = serde_json::from_str(stdout(&prune(&script, &["--max-size", "0", "--keep", "2", "--json"]))).expect("JSON");
    assert_eq!((&told["schema"], &told["dryRun"], &told["left"]["live"]), (&"sabir.prune/1".into(), &true.into(), &1.into()));
    let ids: Vec<_> = told["runs"].as_array().expect("runs").iter().map(|run| run["runId"].as_str()).collect();
    assert_eq!(ids, [Some("two"), Some("one")], "the live one and the newest stay");
    assert!(told["bytes"].as_u64().expect("a number") > 100);

    assert!(stderr(&prune(&script, &["--older-than", "1d", "--yes"])).contains("removed 0 of 4"));
    let output = prune(&script, &["--keep", "0", "--yes"]);
    assert!(stderr(&output).contains("removed 3 of 4 runs"), "{}", stderr(&output));
    assert_eq!(left(), 1);
    live.finish().expect("finished");
}
