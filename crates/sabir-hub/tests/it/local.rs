//! The API over the sessions of a machine: agent logs and the journal.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sabir_agents::builtin;
use sabir_core::fold::timeline::{Change, Clipping, Timeline, What};
use sabir_core::line::{RawLine, Source};
use sabir_hub::store::local::Sources;
use sabir_store::history::Places;
use sabir_store::usage::TimeZone;
use sabir_store::{Home, Journal, Meta};
use serde_json::{Value, json};

use crate::client::{Events, Running, Setup};

const RUN: &str = "0199a2c4-7f00-7000-8000-000000000001";

/// A machine with logs of Claude Code, and a journal.
struct Machine(Arc<tempfile::TempDir>);

impl Machine {
    fn new() -> Self {
        Self(Arc::new(tempfile::tempdir().expect("a folder")))
    }

    fn home(&self) -> Home {
        Home::at(self.0.path().join("sabir"))
    }

    fn log(&self, session: &str) -> PathBuf {
        self.0.path().join(".claude/projects/-home-user-a").join(format!("{session}.jsonl"))
    }

    fn append(&self, session: &str, lines: &[Value]) {
        let path = self.log(session);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let mut file = OpenOptions::new().append(true).create(true).open(path).expect("opened");
        lines.iter().for_each(|line| writeln!(file, "{line}").expect("written"));
    }

    async fn hub(&self) -> Running {
        let places = Places { home: Some(self.0.path().to_path_buf()), registry: builtin(), ..Places::default() };
        let sources = Sources { places, home: Some(self.home()), zone: TimeZone::UTC };
        Setup { local: Some(sources), ..Setup::default() }.start().await
    }
}

fn prompt_line(session: &str, text: &str) -> Value {
    json!({"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":text},"uuid":"u",
        "timestamp":"2026-11-15T10:00:00.000Z","userType":"external","cwd":"/home/user/a","sessionId":session,"version":"2.1.1"})
}

fn answer_line(session: &str, id: &str, text: &str) -> Value {
    json!({"parentUuid":"u","isSidechain":false,"type":"assistant","message":{"model":"claude-sonnet-4-5-20250929","id":id,
        "role":"assistant","content":[{"type":"text","text":text}],"stop_reason":"end_turn",
        "usage":{"input_tokens":10,"cache_read_input_tokens":1000,"cache_creation_input_tokens":0,"output_tokens":20}},
        "timestamp":"2026-11-15T10:00:05.000Z","userType":"external","cwd":"/home/user/a","sessionId":session,"version":"2.1.1"})
}

/// Moves a line to another day.
fn at(mut line: Value, day: &str) -> Value {
    line["timestamp"] = json!(format!("{day}T10:00:00.000Z"));
    line
}

/// Dates the last write of a file back by a day.
fn age(path: &Path) {
    let file = File::options().append(true).open(path).expect("opened");
    file.set_modified(SystemTime::now() - Duration::from_secs(86_400)).expect("set");
}

/// Applies the next event; returns whether it was the end of the backlog.
async fn apply_next(events: &mut Events, timeline: &mut Timeline) -> bool {
    let (_, kind, data) = events.next_of_type().await.expect("an event");
    if kind == "live" {
        return true;
    }
    let changes: Vec<Change> = serde_json::from_value(data).expect("changes");
    changes.into_iter().for_each(|change| timeline.apply(change, Clipping::default()));
    false
}

/// Applies events until the condition holds.
async fn apply_until(events: &mut Events, timeline: &mut Timeline, wanted: impl Fn(&Timeline) -> bool) {
    while !wanted(timeline) {
        apply_next(events, timeline).await;
    }
}

fn texts(timeline: &Timeline) -> Vec<&str> {
    let text = |what| match what {
        &What::Prompt { ref text } | &What::Text { ref text, .. } => Some(text.text.as_str()),
        _ => None,
    };
    timeline.items.iter().filter_map(|item| text(&item.what)).collect()
}

fn has_end(timeline: &Timeline) -> bool {
    timeline.items.iter().any(|item| matches!(item.what, What::End { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_logs_are_listed_searched_and_not_modified() {
    let machine = Machine::new();
    machine.append("old", &[prompt_line("old", "mend the parser"), answer_line("old", "m1", "done with it")]);
    let new = [prompt_line("new", "count the lines"), answer_line("new", "m2", "there are nine")];
    machine.append("new", &new.map(|line| at(line, "2026-11-16")));
    age(&machine.log("old"));
    let before = fs::read(machine.log("old")).expect("read");
    let hub = machine.hub().await;
    let me = hub.get("/v1/me").await.json();
    assert_eq!((&me["local"], &me["readOnly"]), (&json!(true), &json!(true)));

    let names = async |query: &str| {
        let list = hub.get(&format!("/v1/sessions?{query}")).await.json();
        let names =
            list["sessions"].as_array().expect("a list").iter().map(|one| one["session"].as_str().expect("an id").to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("").await, "new old");
    assert_eq!(names("text=parser").await, "old");
    assert_eq!(names("text=NINE%20lines").await, "", "all words must be in one text");
    assert_eq!(names("text=NINE").await, "new");
    assert_eq!(names("prefix=o").await, "old");
    assert_eq!(names("prefix=ld").await, "", "not the beginning");
    assert_eq!(names("agent=claude-code&status=running").await, "");
    assert_eq!(hub.get("/v1/agents").await.json(), json!({ "agents": ["claude-code"] }));
    let first = hub.get("/v1/sessions?limit=1").await.json();
    assert_eq!(names(&format!("limit=1&cursor={}", first["next"].as_str().expect("a cursor"))).await, "old");
    let old = hub.get("/v1/sessions/old").await.json();
    let overview = &old["overview"];
    assert_eq!((&overview["title"], &overview["cwd"]), (&json!("mend the parser"), &json!("/home/user/a")));
    assert_eq!((&overview["tokens"], &old["takes"]), (&json!(1030), &json!([])));
    assert!(overview["costUsd"].as_f64().is_some_and(|cost| cost > 0.0), "{overview}");
    assert_eq!(overview["costSource"], "computed");

    let mut timeline = Timeline::default();
    let mut events = hub.events("/v1/sessions/old/timeline", &[]).await;
    apply_until(&mut events, &mut timeline, has_end).await;
    assert_eq!(texts(&timeline), ["mend the parser", "done with it"]);
    let prompt = timeline.items.iter().find(|item| matches!(item.what, What::Prompt { .. })).expect("a prompt");
    let event = hub.get(&format!("/v1/sessions/old/events/{}", prompt.first)).await.json();
    assert_eq!((&event["kind"], &event["text"]), (&json!("prompt"), &json!("mend the parser")));
    let line = hub.get(&format!("/v1/sessions/old/lines/{}", prompt.line.expect("a line"))).await;
    assert_eq!(line.json(), prompt_line("old", "mend the parser"));
    assert_eq!(hub.get("/v1/sessions/old/lines/99").await.status, 404);
    let result = hub.get("/v1/sessions/old/result").await.json();
    assert_eq!(result["runs"][0]["tokens"]["total"], 1030, "{result}");
    let log = hub.get("/v1/sessions/old/log").await.text();
    assert_eq!(log.lines().count() as u64, result["last"].as_u64().expect("a number"));

    let usage = hub.get("/v1/usage").await.json();
    let total: u64 =
        usage["rows"].as_array().expect("rows").iter().map(|row| row["tokens"]["total"].as_u64().expect("known")).sum();
    assert_eq!((total, &usage["rows"][0]["day"]), (2060, &json!("2026-11-15")), "{usage}");
    let order = json!({"kind":"cancel"});
    assert_eq!(hub.post("/v1/sessions/old/commands", &order).await.status, 405);
    assert_eq!(hub.post("/v1/runners/old/hello", &order).await.status, 404);
    for unknown in ["", "/timeline", "/log", "/result", "/events/1", "/lines/1"] {
        assert_eq!(hub.get(&format!("/v1/sessions/nobody{unknown}")).await.status, 404, "{unknown}");
    }
    assert_eq!(fs::read(machine.log("old")).expect("read"), before);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_responses_of_a_fork_count_once() {
    let machine = Machine::new();
    machine.append("first", &[prompt_line("first", "begin"), answer_line("first", "m1", "begun")]);
    machine.append(
        "fork",
        &[
            prompt_line("fork", "begin"),
            answer_line("fork", "m1", "begun"),
            prompt_line("fork", "on"),
            answer_line("fork", "m2", "done"),
        ],
    );
    age(&machine.log("first"));
    let hub = machine.hub().await;
    let of = async |id: &str| {
        let mut overview = hub.get(&format!("/v1/sessions/{id}")).await.json()["overview"].take();
        (overview["tokens"].take(), overview["usage"]["output"].take(), overview["costUsd"].as_f64())
    };
    let first = of("first").await;
    assert!(first.2.is_some_and(|cost| cost > 0.0), "{first:?}");
    assert_eq!((&first.0, &first.1), (&json!(1030), &json!(20)));
    assert_eq!(of("fork").await, first, "each has one response of its own");
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_and_new_logs_are_followed() {
    let machine = Machine::new();
    machine.append("one", &[prompt_line("one", "begin"), answer_line("one", "m1", "begun")]);
    let hub = machine.hub().await;
    let mut list = hub.events("/v1/sessions/events", &[]).await;
    // Scans do not count turns, but the events of a live session are read.
    let one = async || hub.get("/v1/sessions/one").await.json();
    while one().await["overview"]["turns"] != 1 {}
    assert_eq!((&one().await["connected"], &one().await["shell"]), (&json!(false), &Value::Null));
    let mut events = hub.events("/v1/sessions/one/timeline", &[]).await;
    let mut timeline = Timeline::default();
    apply_until(&mut events, &mut timeline, |timeline| texts(timeline) == ["begin", "begun"]).await;
    machine.append("one", &[prompt_line("one", "go on"), answer_line("one", "m2", "gone on")]);
    apply_until(&mut events, &mut timeline, |timeline| texts(timeline) == ["begin", "begun", "go on", "gone on"]).await;
    // A new subscription gets the same timeline.
    let last = timeline.items.last().expect("an item").last;
    let mut again = hub.events("/v1/sessions/one/timeline", &[]).await;
    let mut second = Timeline::default();
    apply_until(&mut again, &mut second, |second| second.items.last().is_some_and(|item| item.last >= last)).await;
    assert_eq!(texts(&second), texts(&timeline));
    machine.append("two", &[prompt_line("two", "another")]);
    while list.next().await.expect("an event").1["session"] != "two" {}
    hub.stop().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn long_log_is_streamed_while_it_is_read() {
    let machine = Machine::new();
    let long = "said at length ".repeat(100);
    let lines: Vec<_> = (0..400).map(|number| answer_line("long", &format!("m{number}"), &format!("{number} {long}"))).collect();
    machine.append("long", &[prompt_line("long", "begin")]);
    machine.append("long", &lines);
    let part = machine.log("long/subagents/agent-1");
    machine.append("long/subagents/agent-1", &[]);
    age(&machine.log("long"));
    age(&part);
    let hub = machine.hub().await;
    // Reading the FIFO blocks until it is opened for writing.
    let aside = machine.0.path().join("aside");
    fs::rename(&part, &aside).expect("moved");
    assert!(std::process::Command::new("mkfifo").arg(&part).status().expect("mkfifo").success());

    let mut events = hub.events("/v1/sessions/long/timeline", &[]).await;
    let mut timeline = Timeline::default();
    let mut early = false;
    while texts(&timeline).len() < 100 {
        early |= apply_next(&mut events, &mut timeline).await;
    }
    let is_part = !has_end(&timeline);
    let open = move || {
        let file = OpenOptions::new().write(true).open(&part).expect("opened");
        fs::rename(&aside, &part).expect("moved");
        drop(file);
    };
    tokio::task::spawn_blocking(open).await.expect("no panic");
    assert!(is_part && !early, "the end of the backlog is announced after all of it");
    while !apply_next(&mut events, &mut timeline).await {}
    assert!(has_end(&timeline) && texts(&timeline).len() == 401, "{}", texts(&timeline).len());
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recently_copied_log_is_neither_live_nor_newest() {
    let machine = Machine::new();
    machine.append("copied", &[at(prompt_line("copied", "mend it"), "2020-01-01")]);
    machine.append("latest", &[prompt_line("latest", "mend it")]);
    age(&machine.log("latest"));
    let hub = machine.hub().await;
    let list = hub.get("/v1/sessions").await.json();
    assert_eq!((&list["sessions"][0]["session"], &list["sessions"][1]["session"]), (&json!("latest"), &json!("copied")));
    assert_eq!(hub.get("/v1/sessions/copied").await.json()["overview"]["phase"], "incomplete");
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_run_is_followed_to_its_end() {
    let machine = Machine::new();
    let journal = Journal::open(&machine.home(), RUN).expect("opened");
    journal.meta(&Meta {
        schema: Meta::SCHEMA.to_owned(),
        run_id: RUN.to_owned(),
        agent: "codex".to_owned(),
        agent_version: None,
        sabir_version: "0".to_owned(),
        program: "codex".to_owned(),
        arguments: Vec::new(),
        cwd: "/home/user/b".to_owned(),
        prompt: "mend it".to_owned(),
        started: Some(sabir_hub::now()),
    });
    let mut seq = 0;
    let mut log_event = |fields: &Value| {
        seq += 1;
        let mut event = json!({ "runId": RUN, "seq": seq, "at": "2026-11-15T10:00:00.000Z", "line": seq });
        event.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let raw = format!("line {seq}");
        let line = RawLine { number: seq, bytes: raw.as_bytes(), terminated: true, cr: false, cut: 0 };
        journal.raw_line(&line, Source::Stdout, 7);
        journal.event(|out| out.extend_from_slice(event.to_string().as_bytes()));
        journal.sync().expect("synced");
    };
    log_event(&json!({"kind":"started","agent":"codex"}));
    log_event(&json!({"kind":"turnStart","turn":1}));
    log_event(&json!({"kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute"}));
    let hub = machine.hub().await;
    let path = format!("/v1/sessions/{RUN}");
    // The list has its current tool without a subscription.
    let overview = async || hub.get("/v1/sessions").await.json()["sessions"][0]["overview"].clone();
    while overview().await["tool"] != "bash" {}
    let now = overview().await;
    assert_eq!((&now["phase"], &now["title"], &now["turns"]), (&json!("running"), &json!("mend it"), &json!(1)));
    let mut events = hub.events(&format!("{path}/timeline"), &[]).await;
    let mut timeline = Timeline::default();
    apply_until(&mut events, &mut timeline, |timeline| timeline.items.len() == 4).await;
    assert_eq!(texts(&timeline), ["mend it"]);
    log_event(&json!({"kind":"toolEnd","toolCallId":"1","ok":true,"status":"ok"}));
    log_event(&json!({"kind":"text","delta":"mended"}));
    apply_until(&mut events, &mut timeline, |timeline| texts(timeline) == ["mend it", "mended"]).await;
    assert_eq!(hub.get(&format!("{path}/lines/5")).await.text(), "line 5");
    log_event(&json!({"kind":"exited","outcome":"completed","cancelled":false}));
    journal.finish().expect("finished");
    apply_until(&mut events, &mut timeline, has_end).await;
    while overview().await["phase"] == "running" {}
    hub.stop().await;
}
