//! Every folder in `fixtures/<agent>/` is a test: `input` is decoded and what comes out is compared with
//! `events.jsonl` and `result.json`.
//!
//! `SABIR_UPDATE=1 cargo nextest run -p sabir-agents fixtures` writes the expected files anew; read the diff.

use std::fs;
use std::path::{Path, PathBuf};

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Started};
use sabir_core::fold::SessionResult;
use sabir_core::line::{self, Source};

/// `case.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What the case shows.
    pub(crate) about: String,
    /// The agent, when it is not the folder's name.
    pub(crate) agent: Option<String>,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    signal: Option<String>,
    #[serde(default)]
    cancelled: bool,
    /// Whether the run takes up an earlier session.
    #[serde(default)]
    pub(crate) resumed: bool,
    /// Whether the stream alone tells the agent.
    #[serde(default = "yes")]
    pub(crate) detect: bool,
}

fn yes() -> bool {
    true
}

/// One fixture, read.
pub(crate) struct Fixture {
    pub(crate) folder: PathBuf,
    pub(crate) agent: String,
    pub(crate) case: Case,
    pub(crate) input: Vec<u8>,
}

/// All fixtures of all agents.
pub(crate) fn all() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut fixtures = Vec::new();
    for agent in &sabir_agents::builtin() {
        let folders =
            fs::read_dir(root.join(agent.id.as_str())).into_iter().flatten().map(|entry| entry.expect("an entry").path());
        for folder in folders {
            let case =
                fs::read_to_string(folder.join("case.toml")).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let case: Case = toml::from_str(&case).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            assert!(!case.about.is_empty(), "{} says what it shows", folder.display());
            let input = fs::read(folder.join("input")).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let agent = case.agent.clone().unwrap_or_else(|| agent.id.to_string());
            fixtures.push(Fixture { folder, agent, case, input });
        }
    }
    fixtures.sort_by(|a, b| a.folder.cmp(&b.folder));
    fixtures
}

/// Decodes a whole stream.
pub(crate) fn decode(start: Start, input: &[u8], end: &End) -> Vec<Event<'static>> {
    let mut decoder = Decoder::new(start);
    let mut events = Vec::new();
    for raw in line::split(input) {
        let mut own = Vec::new();
        decoder.line(&raw.to_line(None, Source::Stdout), &mut own);
        events.extend(own.into_iter().map(Event::into_owned));
    }
    decoder.end(end, &mut events);
    events
}

impl Fixture {
    /// The run as somebody knows it who started the agent.
    pub(crate) fn named(&self) -> Start {
        Start { resumed: self.case.resumed, ..Start::of(crate::agent(&self.agent)) }
    }

    pub(crate) fn end(&self) -> End {
        End { exit_code: self.case.exit_code, signal: self.case.signal.clone(), cancelled: self.case.cancelled, ..End::default() }
    }

    fn check(&self, file: &str, got: &str, wrong: &mut Vec<String>) {
        let path = self.folder.join(file);
        if std::env::var_os("SABIR_UPDATE").is_some() {
            fs::write(&path, got).expect("the fixture can be written");
            return;
        }
        let want = fs::read_to_string(&path).unwrap_or_default();
        if let Some((number, (want, got))) =
            want.lines().chain(std::iter::repeat("")).zip(got.lines()).enumerate().find(|(_, (want, got))| want != got)
        {
            wrong.push(format!("{}:{}\n  expected {want}\n  got      {got}", path.display(), number + 1));
        } else if want != got {
            wrong.push(format!("{}: more was expected than came out", path.display()));
        }
    }
}

fn jsonl(events: &[Event<'_>]) -> String {
    let mut out = Vec::new();
    for event in events {
        event.write_json(&mut out);
        out.push(b'\n');
    }
    String::from_utf8(out).expect("JSON is UTF-8")
}

#[test]
fn fixtures_decode_as_expected() {
    let mut wrong = Vec::new();
    for fixture in all() {
        let events = decode(fixture.named(), &fixture.input, &fixture.end());
        fixture.check("events.jsonl", &jsonl(&events), &mut wrong);
        let mut fold = SessionResult::fold();
        events.iter().for_each(|event| fold.event(event));
        let result = fold.finish();
        let pretty = serde_json::to_string_pretty(&result).expect("a result is JSON");
        fixture.check("result.json", &format!("{pretty}\n"), &mut wrong);
        around_lists(result);
    }
    assert!(wrong.is_empty(), "{}\n(SABIR_UPDATE=1 writes the expected files anew)", wrong.join("\n"));
}

/// What stands around the lists, and what is in them, is the whole.
fn around_lists(result: SessionResult) {
    let whole = serde_json::to_string(&result).expect("JSON");
    let lists = [
        serde_json::to_string(&result.turn_details),
        serde_json::to_string(&result.tool_calls),
        serde_json::to_string(&result.file_changes),
    ];
    let mut items = lists.map(|list| list.expect("JSON")).to_vec();
    items.iter_mut().for_each(|list| *list = list[1..list.len() - 1].to_owned());
    items.push(String::new());
    let around = result.around_lists().expect("JSON");
    let pieces = around.iter().zip(&items).map(|(around, items)| format!("{}{items}", String::from_utf8_lossy(around)));
    assert_eq!(pieces.collect::<String>(), whole);
}

#[test]
fn streams_tell_their_agent() {
    for fixture in all().into_iter().filter(|fixture| fixture.case.detect) {
        let named = decode(fixture.named(), &fixture.input, &fixture.end());
        let mut found = decode(
            Start { resumed: fixture.case.resumed, ..Start::detect(sabir_agents::builtin()) },
            &fixture.input,
            &fixture.end(),
        );
        // Who names the agent has no doubts; a stream without fields of its own leaves some.
        if let EventKind::Started(Started { detection, .. }) = &mut found[0].kind {
            *detection = None;
        }
        assert_eq!(jsonl(&found[..1]), jsonl(&named[..1]), "{}", fixture.folder.display());
        assert_eq!(found, named, "{}", fixture.folder.display());
    }
}

#[test]
fn events_read_back_what_they_write() {
    for fixture in all() {
        for event in decode(Start::detect(sabir_agents::builtin()), &fixture.input, &fixture.end()) {
            let mut json = Vec::new();
            event.write_json(&mut json);
            let json = String::from_utf8(json).expect("JSON is UTF-8");
            let value: serde_json::Value = serde_json::from_str(&json).expect("an event is JSON");
            assert_eq!(serde_json::to_value(&event).expect("an event is JSON"), value);
            assert_eq!(serde_json::from_str::<Event<'_>>(&json).expect(&json), event);
        }
    }
}

#[test]
fn recorded_events_read_again_as_they_were() {
    for fixture in all() {
        let first = decode(fixture.named(), &fixture.input, &fixture.end());
        let again = decode(Start::detect(sabir_agents::builtin()), jsonl(&first).as_bytes(), &End::default());
        // A line number is of the text that was read, which is another one now.
        let told = |events: &[Event<'static>]| -> Vec<Event<'static>> {
            events.iter().cloned().map(|event| Event { line: None, ..event }).collect()
        };
        assert_eq!(jsonl(&told(&again)), jsonl(&told(&first)), "{}", fixture.folder.display());
    }
}
