//! `opencode`.
//!
//! `run --format json` prints parts of messages once they are complete. The server streams every change of every session
//! as server-sent events. Its sessions are in a database. All speak of the same parts, whose shape is in `parts`.

mod command;
mod server;
mod session;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::{self, RunLine};
use super::{Accounting, Agent, AgentId, DialectEntry, Form, Match, text};
use crate::history::{History, Part, Root};
use crate::json::{self, Str};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("opencode"),
    aliases: &[],
    title: "OpenCode",
    dialects: &[RUN, SERVER, parts::history::DIALECT, text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: true },
    launch: command::LAUNCH,
    history: Some(HISTORY),
    shapes: include_str!("opencode/shapes.txt"),
};

const HISTORY: History = History {
    roots: &[Root { variable: Some("XDG_DATA_HOME"), home: ".local/share", below: "opencode/opencode.db" }],
    part: |path| (path == ["opencode.db"]).then_some(Part::Database),
    only: None,
    dialect: parts::history::DIALECT,
    note: parts::history::note,
    enough: parts::history::enough,
    list: None,
};

const RUN: DialectEntry = DialectEntry {
    name: "run",
    about: "events of `run --format json`",
    form: Form::Json,
    detect: detect_run,
    reader: || Box::new(parts::Run::default()),
};

const SERVER: DialectEntry = DialectEntry {
    name: "server",
    about: "server-sent events of `/event` and `/global/event`",
    form: Form::Text,
    detect: detect_server,
    reader: || Box::new(server::Server::default()),
};

/// What a line is known by.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Head<'a> {
    r#type: Option<Str<'a>>,
    properties: Option<&'a RawValue>,
    directory: Option<&'a RawValue>,
    payload: Option<&'a RawValue>,
}

/// Forks print the same lines; the end of a step tells them apart.
fn detect_run(line: &str) -> Match {
    match parts::run_line(line) {
        RunLine::Other => Match::No,
        RunLine::Any => Match::Maybe,
        RunLine::StepEnd { measured } => Match::yes_if(!measured),
    }
}

fn detect_server(line: &str) -> Match {
    let Some(head) = server::payload(line).and_then(json::parse::<Head<'_>>) else { return Match::No };
    let event = head.properties.is_some() && head.r#type.is_some_and(|name| name.contains('.'));
    let global = head.directory.is_some() && head.payload.is_some();
    Match::yes_if(event || global)
}

#[cfg(test)]
mod tests {
    use super::{Match, detect_run, detect_server};

    #[test]
    fn run_lines_tell() {
        let step = r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}"#;
        assert_eq!(detect_run(step), Match::Maybe);
        assert_eq!(detect_run(r#"{"error":{"name":"APIError"},"type":"error","sessionID":"ses_1"}"#), Match::Maybe);
        let end = r#"{"type":"step_finish","timestamp":1,"sessionID":"ses_1","part":{"type":"step-finish","reason":"stop"}}"#;
        assert_eq!(detect_run(end), Match::Yes);
        assert_eq!(detect_run(r#"{"type":"error","message":"no"}"#), Match::No);
        assert_eq!(detect_server(step), Match::No);
    }

    #[test]
    fn server_sent_events_tell() {
        assert_eq!(detect_server(r#"data: {"id":"evt_1","type":"server.connected","properties":{}}"#), Match::Yes);
        assert_eq!(detect_server(r#"data:{"payload":{"type":"sync"},"directory":"/home/user"}"#), Match::Yes);
        assert_eq!(detect_server("data: text"), Match::No);
        assert_eq!(detect_server(r#"data: {"type":"message","content":"x"}"#), Match::No);
    }
}
