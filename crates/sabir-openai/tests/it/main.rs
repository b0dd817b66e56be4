//! The loop against a real server on this machine, its lines read back by the decoder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod confined;
mod failures;
mod talk;
mod tools;

use std::time::Duration;

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Outcome, ToolEnd, ToolStatus};
use sabir_core::fold::SessionResult;
use sabir_core::{laws, line};
use sabir_openai::{Commands, Config, Key, Permission};
use sabir_test_support::openai_server as server;
use serde_json::Value;
use tempfile::TempDir;

use server::{Answer, Server};

/// A run that is over.
struct Run {
    folder: TempDir,
    server: Server,
    events: Vec<Event<'static>>,
    result: Value,
    printed: String,
}

/// A folder with a file in it.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("notes.txt"), "one\ntwo\nthree\n").expect("written");
    folder
}

/// Runs the loop in a new folder against that script.
fn run(script: impl IntoIterator<Item = Answer>) -> Run {
    run_with(folder(), script, |_| {})
}

fn run_with(folder: TempDir, script: impl IntoIterator<Item = Answer>, change: impl FnOnce(&mut Config)) -> Run {
    let server = Server::new(script);
    let mut config = Config::new(&server.url, "test-model", folder.path());
    config.key = Key::new("sk-secret");
    config.permission = Permission::Full;
    config.back_off = Duration::ZERO;
    change(&mut config);
    let mut printed = Vec::new();
    let ending = sabir_openai::run(&config, "Do the task.", &Commands::default(), &mut printed).expect("it can print");
    let mut decoder = Decoder::new(Start::of(sabir_agents::builtin().find("openai").expect("the agent").clone()));
    let mut events = Vec::new();
    for raw in line::split(&printed) {
        let mut own = Vec::new();
        decoder.line(&raw.to_line(None, line::Source::Stdout), &mut own);
        events.extend(own.into_iter().map(Event::into_owned));
    }
    assert_eq!(decoder.over(), Some(true), "the last line says that it is over");
    let exit_code = Some(i32::from(ending.outcome != Outcome::Completed));
    decoder.end(&End { exit_code, ..End::default() }, &mut events);
    laws::check(&events).expect("the laws hold");
    let mut fold = SessionResult::fold();
    events.iter().for_each(|event| fold.event(event));
    let result = serde_json::to_value(fold.finish()).expect("JSON");
    let printed = String::from_utf8(printed).expect("UTF-8");
    assert_eq!(result["unrecognized"]["lines"], 0, "{printed}");
    assert_eq!(result["outcome"], ending.outcome.as_str());
    assert!(!printed.contains("sk-secret"));
    Run { folder, server, events, result, printed }
}

impl Run {
    /// Status, exit code and output of the calls, in the order of their ends.
    fn ends(&self) -> Vec<(ToolStatus, Option<i32>, String)> {
        let end = |event: &Event<'static>| match &event.kind {
            EventKind::ToolEnd(ToolEnd { status, exit_code, output, .. }) => {
                Some((*status, *exit_code, output.as_deref().unwrap_or_default().to_owned()))
            }
            _ => None,
        };
        self.events.iter().filter_map(end).collect()
    }

    /// The output of the only call.
    fn output(&self) -> String {
        let mut ends = self.ends();
        assert_eq!(ends.len(), 1, "{}", self.printed);
        ends.remove(0).2
    }

    fn has(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event.kind.tag() == kind).count()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).expect(name)
    }

    /// Whether the kernel confines commands; the run says when it does not.
    fn is_confined(&self) -> bool {
        !self.printed.contains("commands are not confined")
    }
}
