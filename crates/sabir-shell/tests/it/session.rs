//! Sessions: prompts, remote commands, completion and recovery.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sabir_core::event::{EventKind, Final, Outcome, TextDelta};
use sabir_core::export::Options;
use sabir_protocol::{Order, OrderKind, SessionId};
use sabir_shell::adapter::{Adapter, AdapterContext, AgentInput, InputRejected, RunFuture};
use sabir_shell::session::{OnCrash, run};
use sabir_shell::uploader::DeliveryStatus;
use sabir_shell::{Hub, Outbox, Position, Redactor, RunnerError, SessionConfig, SessionReport};
use sabir_store::Home;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::hub::{FakeHub, Fault};

fn session() -> SessionId {
    "s-1".parse().expect("a session")
}

/// Answers with its prompt. A prompt that starts with `wait` waits for cancellation.
#[derive(Clone)]
struct Echo {
    cancelled: watch::Sender<bool>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    fn new() -> Self {
        Self { cancelled: watch::Sender::new(false), calls: Arc::default() }
    }

    fn called(&self, what: impl Into<String>) {
        self.calls.lock().expect("calls").push(what.into());
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("calls").clone()
    }
}

impl Adapter for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn on_init(&mut self, _: &AdapterContext) -> Result<(), RunnerError> {
        self.called("init");
        Ok(())
    }

    fn accepts(&self, context: &AdapterContext, input: AgentInput<'_>) -> Result<(), InputRejected> {
        match input {
            AgentInput::Prompt { .. } if context.busy => Err(InputRejected("busy".to_owned())),
            AgentInput::Prompt { .. } | AgentInput::Permission { request_id: "q1", .. } => Ok(()),
            AgentInput::Permission { .. } => Err(InputRejected("no such question".to_owned())),
        }
    }

    fn on_input(&mut self, context: &AdapterContext, input: AgentInput<'_>) -> Result<Option<RunFuture>, InputRejected> {
        let text = match input {
            AgentInput::Prompt { text, .. } => text.to_owned(),
            AgentInput::Permission { allow, .. } => {
                self.called(format!("permission {allow}"));
                return Ok(None);
            }
        };
        self.called(format!("prompt {text}"));
        let (context, mut cancelled) = (context.clone(), self.cancelled.subscribe());
        Ok(Some(Box::pin(async move {
            let mut run = context.begin_run("echo");
            run.emit(EventKind::Text(TextDelta::new(text.as_str())));
            if text.starts_with("wait") {
                cancelled.wait_for(|cancelled| *cancelled).await.expect("somebody can cancel");
                return run.end(Outcome::Cancelled, None);
            }
            run.emit(EventKind::Final(Final::new(text)));
            run.end(Outcome::Completed, None)
        })))
    }

    fn on_cancel(&mut self, _: &AdapterContext, reason: Option<&str>) {
        self.called(format!("cancel {}", reason.unwrap_or("-")));
        self.cancelled.send_replace(true);
    }

    fn on_shutdown(&mut self, _: &AdapterContext) {
        self.called("shutdown");
    }
}

fn config(home: &Home, hub: Option<&FakeHub>, prompt: Option<&str>) -> SessionConfig {
    let secrets = [("MY_SECRET".to_owned(), "hunter2-hunter2".to_owned())];
    SessionConfig {
        session: session(),
        home: home.clone(),
        hub: hub.map(|hub| Hub::new(&hub.url(), &session(), None).expect("a hub")),
        sink: None,
        files: None,
        redactor: Arc::new(Redactor::new(secrets).expect("a redactor")),
        options: Options::default(),
        prompt: prompt.map(str::to_owned),
        on_crash: OnCrash::Report,
        wait: prompt.map(|_| Duration::ZERO),
        flush: Duration::from_secs(30),
        status: watch::Sender::new(DeliveryStatus::default()),
    }
}

/// Runs a session to its end.
async fn run_session(config: SessionConfig, adapter: &mut Echo) -> SessionReport {
    let (_stop, stopped) = mpsc::channel(1);
    Box::pin(run(config, adapter, stopped)).await.expect("it ends")
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::at(folder.path().join("home"));
    (folder, home)
}

fn on_threads(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(test);
}

fn types(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["type"].as_str().expect("a type").to_owned()).collect()
}

fn order(number: u64, kind: OrderKind) -> Order {
    Order { order: number, kind, text: None, reason: None, request_id: None, decision: None, by: Some("ada".to_owned()) }
}

#[test]
fn prompt_is_run_redacted_and_delivered() {
    on_threads(async {
        let (_folder, home) = home();
        let hub = FakeHub::start().await;
        let mut echo = Echo::new();
        let report = run_session(config(&home, Some(&hub), Some("say hunter2-hunter2")), &mut echo).await;
        assert_eq!(report.done.map(|done| done.outcome), Some(Outcome::Completed));
        assert_eq!((report.unsent, report.refused, report.failure), (0, None, None));
        assert_eq!(echo.calls(), ["init", "prompt say hunter2-hunter2", "shutdown"]);
        let messages = hub.messages();
        assert_eq!(messages.len() as u64, report.last);
        let text = serde_json::to_string(&messages).expect("JSON");
        assert!(!text.contains("hunter2") && text.contains("say [secret MY_SECRET]"), "{text}");
        let types = types(&messages);
        assert_eq!(types[..3], ["init", "prompt", "status"]);
        assert_eq!(types[types.len() - 2..], ["result", "status"]);
    });
}

#[test]
fn commands_are_logged_first_and_executed_once() {
    on_threads(async {
        let (_folder, home) = home();
        let hub = FakeHub::start().await;
        let prompt = |number, text: &str| Order { text: Some(text.to_owned()), ..order(number, OrderKind::Prompt) };
        hub.with(|state| state.orders.extend([(1, prompt(1, "wait here"))]));
        let mut echo = Echo::new();
        let calls = Arc::clone(&echo.calls);
        let (stop, stopped) = mpsc::channel(1);
        let session = run(config(&home, Some(&hub), None), &mut echo, stopped);
        let people = async {
            hub.until("the prompt is taken", |state| state.taken.len() == 1).await;
            hub.with(|state| {
                assert_eq!(state.taken[0]["accepted"], true);
                let answer = |number, id: &str| Order {
                    request_id: Some(id.to_owned()),
                    decision: Some("allow".to_owned()),
                    ..order(number, OrderKind::Permission)
                };
                state.orders.extend([
                    (2, prompt(2, "more")),
                    (3, answer(3, "q2")),
                    (4, answer(4, "q1")),
                    (5, order(5, OrderKind::Unknown)),
                ]);
            });
            hub.until("the others are answered", |state| state.taken.len() == 5).await;
            let accepted: Vec<_> = hub.with(|state| state.taken.iter().map(|taken| taken["accepted"] == true).collect());
            assert_eq!(accepted, [true, false, false, true, false]);
            // A repeated command is only replied to.
            hub.with(|state| state.orders.extend([(6, order(6, OrderKind::Cancel))]));
            hub.until("the cancel is taken", |state| state.taken.len() == 6).await;
            hub.until("the run is over", |state| {
                state.messages.iter().any(|line| line.ends_with(b"\"done\",\"progress\":100}}"))
            })
            .await;
            stop.send(()).await.expect("it listens");
        };
        let (report, ()) = tokio::join!(session, people);
        assert_eq!(report.expect("it ends").done.map(|done| done.outcome), Some(Outcome::Cancelled));
        assert_eq!(*calls.lock().expect("calls"), ["init", "prompt wait here", "permission true", "cancel -", "shutdown"]);
        let numbers: Vec<u64> =
            hub.messages().iter().filter_map(|message| message["payload"]["meta"]["order"].as_u64()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);

        // The next runner knows the commands, although the hub lost the replies.
        hub.with(|state| {
            state.taken.clear();
            state.orders.extend([(1, prompt(1, "wait here")), (6, order(6, OrderKind::Cancel))]);
        });
        let mut echo = Echo::new();
        let report = run_session(config(&home, Some(&hub), Some("another")), &mut echo).await;
        assert_eq!(report.done.map(|done| done.outcome), Some(Outcome::Completed));
        assert_eq!(echo.calls(), ["init", "prompt another", "shutdown"]);
        hub.with(|state| assert_eq!(state.hellos.last().map(|hello| hello["orders"].clone()), Some(6.into())));
    });
}

#[test]
fn undelivered_end_is_delivered_without_rerun() {
    on_threads(async {
        let (_folder, home) = home();
        let hub = FakeHub::start().await;
        hub.with(|state| state.stalled = true);
        let mut echo = Echo::new();
        let mut first = config(&home, Some(&hub), Some("once"));
        first.flush = Duration::ZERO;
        let report = run_session(first, &mut echo).await;
        assert!(report.unsent > 0 && report.unsent == report.last, "{report:?}");
        hub.with(|state| state.stalled = false);
        let mut echo = Echo::new();
        let report = run_session(config(&home, Some(&hub), Some("once")), &mut echo).await;
        assert_eq!(echo.calls(), ["init", "shutdown"]);
        assert!(report.earlier && report.unsent == 0 && report.done.is_some_and(|done| done.outcome == Outcome::Completed));
        assert!(types(&hub.messages()).contains(&"result".to_owned()));
        // Everything was delivered, so the same prompt is a new run.
        let mut echo = Echo::new();
        run_session(config(&home, Some(&hub), Some("once")), &mut echo).await;
        assert_eq!(echo.calls(), ["init", "prompt once", "shutdown"]);
        hub.messages();
    });
}

/// Leaves the outbox of a runner that was killed during a run.
fn leave_interrupted_run(home: &Home) {
    let outbox = Arc::new(Outbox::create(home, &session(), Outbox::new_writer(), Position::FIRST).expect("created"));
    let redactor = Arc::new(Redactor::new([]).expect("a redactor"));
    let log = sabir_shell::SessionLog::new(Arc::clone(&outbox), redactor, Options::default());
    log.begin_run(Some("the work"));
    let context = AdapterContext { session: session(), log, recovered: outbox.recovered().clone(), busy: true };
    let mut run = context.begin_run("echo");
    run.emit(EventKind::Text(TextDelta::new("half of ")));
}

#[test]
fn interrupted_run_follows_on_crash() {
    on_threads(async {
        for (on_crash, prompt, calls) in [
            (OnCrash::Report, Some("the work"), &["init", "shutdown"][..]),
            (OnCrash::Report, None, &["init", "shutdown"]),
            (OnCrash::Retry, Some("the work"), &["init", "prompt the work", "shutdown"]),
            (OnCrash::Resume, None, &["init", "prompt the work", "shutdown"]),
        ] {
            let (_folder, home) = home();
            leave_interrupted_run(&home);
            let hub = FakeHub::start().await;
            let mut echo = Echo::new();
            let config = SessionConfig { on_crash, wait: Some(Duration::ZERO), ..config(&home, Some(&hub), prompt) };
            let report = run_session(config, &mut echo).await;
            assert_eq!(echo.calls(), calls);
            let messages = hub.messages();
            let first = messages.iter().find(|message| message["type"] == "result").expect("a result");
            assert_eq!(first["payload"]["meta"]["outcome"], "incomplete", "{first}");
            let events: Vec<&Value> =
                messages.iter().filter(|message| message["type"] == "event").map(|message| &message["payload"]["json"]).collect();
            let of_run: Vec<u64> = events
                .iter()
                .filter(|event| event["runId"] == events[0]["runId"])
                .map(|event| event["seq"].as_u64().expect("a number"))
                .collect();
            assert_eq!(of_run, [1, 2, 3, 4], "the numbers of its events go on");
            let is_again = calls.len() > 2;
            let want = if is_again { Outcome::Completed } else { Outcome::Incomplete };
            assert_eq!((report.done.map(|done| done.outcome), report.earlier), (Some(want), !is_again));
        }
    });
}

#[test]
fn damaged_outbox_is_delivered_with_loss() {
    on_threads(async {
        let (_folder, home) = home();
        let mut offline = config(&home, None, Some("work"));
        offline.flush = Duration::ZERO;
        let before = run_session(offline, &mut Echo::new()).await;
        let segment = home.outbox("s-1").expect("a folder").segment(1);
        let mut bytes = std::fs::read(&segment).expect("a segment");
        let at = memchr::memmem::find(&bytes, br#""type":"prompt""#).expect("a message");
        bytes[at] ^= 4;
        std::fs::write(&segment, bytes).expect("written");
        let hub = FakeHub::start().await;
        let report = run_session(config(&home, Some(&hub), Some("more")), &mut Echo::new()).await;
        assert_eq!((report.unsent, report.refused, report.failure), (0, None, None));
        assert_eq!((report.repair.lost, report.repair.restored), (vec![2..=2], 0));
        let messages = hub.messages();
        assert!(messages.len() as u64 == report.last && report.last > before.last, "{} messages", messages.len());
        assert_eq!((&messages[0]["type"], &messages[1]["level"]), (&"init".into(), &"error".into()));
        let text = messages[1]["payload"]["text"].as_str().expect("a text");
        assert!(text.contains("message 2 was lost"), "{text}");
        assert_eq!(messages.iter().filter(|message| message["type"] == "result").count(), 2);
    });
}

#[test]
fn refusal_ends_delivery_not_run() {
    on_threads(async {
        let (_folder, home) = home();
        let hub = FakeHub::start().await;
        hub.with(|state| state.faults.push_back(Fault::End("fenced")));
        let mut echo = Echo::new();
        let report = run_session(config(&home, Some(&hub), Some("work")), &mut echo).await;
        assert_eq!(report.done.map(|done| done.outcome), Some(Outcome::Completed));
        assert!(report.refused.is_some() && report.unsent == report.last, "{report:?}");
        // An unknown token fails before the agent is started.
        let (_folder, home) = self::home();
        hub.with(|state| state.faults.push_back(Fault::Refuse("unauthorized", 401)));
        let mut echo = Echo::new();
        let (_stop, stopped) = mpsc::channel(1);
        let failure = Box::pin(run(config(&home, Some(&hub), Some("work")), &mut echo, stopped)).await.expect_err("refused");
        assert!(failure.to_string().contains("refused by the test") && echo.calls().is_empty(), "{failure:?}");
    });
}

#[test]
fn artifacts_are_announced_and_uploaded() {
    on_threads(async {
        let (folder, home) = home();
        let work = folder.path().join("work");
        std::fs::create_dir_all(work.join("dist/deep")).expect("made");
        for (name, text) in [("dist/a.txt", "hello"), ("dist/deep/b.txt", "not this"), ("c.bin", "nor this")] {
            std::fs::write(work.join(name), text).expect("written");
        }
        std::os::unix::fs::symlink("/etc/passwd", work.join("dist/link.txt")).expect("a link");
        let large = vec![7_u8; (8 << 20) + 5];
        std::fs::write(work.join("large.bin"), &large).expect("written");
        let target = folder.path().join("kept");
        let patterns = ["dist/*.txt".to_owned(), "large.*".to_owned()];
        let sink = sabir_shell::StorageSink::folder(&target, &session()).expect("a sink");
        let files = sabir_shell::artifact::ArtifactFinder::new(work.clone(), &patterns).expect("patterns");
        let config = SessionConfig { sink: Some(sink), files: Some(files), ..config(&home, None, Some("work")) };
        let report = run_session(config, &mut Echo::new()).await;
        assert_eq!((report.artifacts, report.sink), (vec![], None));
        let log = std::fs::read_to_string(target.join("sessions/s-1/messages.json")).expect("a log");
        let announced: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .filter(|message: &Value| message["type"] == "artifact")
            .collect();
        let one = &announced[0]["payload"]["artifacts"][0];
        let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(
            (&one["path"], &one["sha256"], &one["bytes"], announced.len()),
            (&"dist/a.txt".into(), &hello.into(), &5.into(), 2)
        );
        assert_eq!(std::fs::read(target.join("sessions/s-1/artifacts").join(hello)).expect("its bytes"), b"hello");
        let hash = announced[1]["payload"]["artifacts"][0]["sha256"].as_str().expect("a hash");
        assert!(std::fs::read(target.join("sessions/s-1/artifacts").join(hash)).expect("its bytes") == large);
    });
}

#[test]
fn without_hub_outbox_stays_local() {
    on_threads(async {
        let (_folder, home) = home();
        for _ in 0..2 {
            let mut echo = Echo::new();
            let report = run_session(config(&home, None, Some("work")), &mut echo).await;
            assert!(report.last > 0 && report.unsent == 0 && echo.calls().len() == 3, "{report:?}");
        }
    });
}
