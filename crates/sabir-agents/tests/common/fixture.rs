//! The folders `fixtures/<agent>/<case>/`: what an agent printed, how its process ended, and what must come out.

use std::fs;
use std::path::{Path, PathBuf};

use sabir_core::agent::Form;
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::Event;
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

/// The folders of all fixtures, by name (`<agent>/<case>`) and in its order.
pub(crate) fn folders() -> Vec<(String, PathBuf)> {
    let folders_in = |path: &Path| {
        let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let folders = folders_in(&root).into_iter().flat_map(|agent| folders_in(&agent));
    let name = |folder: &Path| folder.strip_prefix(&root).expect("it is inside").to_string_lossy().replace('\\', "/");
    let mut named: Vec<_> = folders.map(|folder| (name(&folder), folder)).collect();
    named.sort();
    named
}

/// All fixtures of all agents.
pub(crate) fn all() -> Vec<Fixture> {
    folders().into_iter().map(|(_, folder)| Fixture::read(folder)).collect()
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
    pub(crate) fn read(folder: PathBuf) -> Self {
        let at = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", folder.display()) };
        let case = fs::read_to_string(folder.join("case.toml")).unwrap_or_else(|error| at(&error));
        let case: Case = toml::from_str(&case).unwrap_or_else(|error| at(&error));
        if case.about.is_empty() {
            at(&"case.toml does not say what the case shows");
        }
        let input = fs::read(folder.join("input")).unwrap_or_else(|error| at(&error));
        let of_folder =
            || folder.parent().and_then(Path::file_name).expect("the folder of an agent").to_string_lossy().into_owned();
        let agent = case.agent.clone().unwrap_or_else(of_folder);
        Self { folder, agent, case, input }
    }

    /// The run as somebody knows it who started the agent.
    pub(crate) fn named(&self) -> Start {
        Start { resumed: self.case.resumed, ..Start::of(crate::agent(&self.agent)) }
    }

    /// The run as a reader of the recorded stream knows it.
    pub(crate) fn detected(&self) -> Start {
        Start { resumed: self.case.resumed, ..Start::detect(sabir_agents::builtin()) }
    }

    /// How to decode it: with its agent named, and without where the stream tells it.
    pub(crate) fn starts(&self) -> Vec<Start> {
        [self.named()].into_iter().chain(self.case.detect.then(|| self.detected())).collect()
    }

    pub(crate) fn end(&self) -> End {
        End { exit_code: self.case.exit_code, signal: self.case.signal.clone(), cancelled: self.case.cancelled, ..End::default() }
    }

    /// Whether a dialect of JSON reads it.
    pub(crate) fn is_json(&self) -> bool {
        let mut decoder = Decoder::new(self.named());
        for raw in line::split(&self.input) {
            decoder.line(&raw.to_line(None, Source::Stdout), &mut Vec::new());
        }
        decoder.end(&self.end(), &mut Vec::new());
        !self.input.is_empty() && decoder.form().expect("a dialect was chosen") == Form::Json
    }

    /// The JSON objects of the stream; `None` when anything else is in it.
    pub(crate) fn json_objects(&self) -> Option<Vec<&str>> {
        let is_object =
            |text: &str| text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let input = std::str::from_utf8(&self.input).ok().filter(|_| self.is_json())?;
        if is_object(input) {
            return Some(vec![input]);
        }
        let lines: Vec<&str> = input.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.iter().all(|line| is_object(line)).then_some(lines)
    }

    /// Whether it is a session as its agent keeps it on disk.
    pub(crate) fn is_log(&self) -> bool {
        self.folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("history-"))
    }
}
