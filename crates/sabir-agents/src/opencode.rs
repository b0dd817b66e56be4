//! OpenCode (`opencode`).
//!
//! `run --format json` prints parts of messages once they are complete. The server streams every change of every session
//! as server-sent events. Sessions are stored in a database. All three have the same parts (`family::opencode`).

mod command;
mod server;
mod session;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::family::opencode::{self, RunLine};
use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::history::{FileRole, LogRoot, LogSpec};
use sabir_core::json::{self, Str};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("opencode", "OpenCode")
        .dialect(run())
        .dialect(server())
        .log(log())
        .dialect(text::dialect())
        .accounting(Accounting { input_includes_cache: false, output_excludes_reasoning: true })
        .launch(command::launch())
        .shapes(include_str!("opencode/shapes.txt"))
}

fn log() -> LogSpec {
    LogSpec::new(
        [LogRoot::relocatable("XDG_DATA_HOME", ".local/share", "opencode/opencode.db")],
        opencode::history::dialect(),
        |path| (path == ["opencode.db"]).then_some(FileRole::Database),
        opencode::history::note,
    )
    .prefix_sufficient(opencode::history::enough)
}

fn run() -> DialectSpec {
    DialectSpec::json("run", "events of `run --format json`", detect_run, opencode::Run::default)
}

fn server() -> DialectSpec {
    DialectSpec::text("server", "server-sent events of `/event` and `/global/event`", detect_server, server::Server::default)
}

/// Fields by which a line of the server is detected.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Head<'a> {
    r#type: Option<Str<'a>>,
    properties: Option<&'a RawValue>,
    directory: Option<&'a RawValue>,
    payload: Option<&'a RawValue>,
}

/// Forks print the same lines, but the end of their steps has metrics.
fn detect_run(line: &str) -> Confidence {
    match opencode::run_line(line) {
        RunLine::Other => Confidence::None,
        RunLine::Any => Confidence::Possible,
        RunLine::StepEnd { has_metrics } => Confidence::certain_if(!has_metrics),
    }
}

fn detect_server(line: &str) -> Confidence {
    let Some(head) = server::payload(line).and_then(json::parse::<Head<'_>>) else { return Confidence::None };
    let event = head.properties.is_some() && head.r#type.is_some_and(|name| name.contains('.'));
    let global = head.directory.is_some() && head.payload.is_some();
    Confidence::certain_if(event || global)
}

#[cfg(test)]
mod tests {
    use super::{detect_run, detect_server};
    use sabir_core::agent::Confidence;

    #[test]
    fn detects_lines_of_run() {
        let step = r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}"#;
        assert_eq!(detect_run(step), Confidence::Possible);
        assert_eq!(detect_run(r#"{"error":{"name":"APIError"},"type":"error","sessionID":"ses_1"}"#), Confidence::Possible);
        let end = r#"{"type":"step_finish","timestamp":1,"sessionID":"ses_1","part":{"type":"step-finish","reason":"stop"}}"#;
        assert_eq!(detect_run(end), Confidence::Certain);
        assert_eq!(detect_run(r#"{"type":"error","message":"no"}"#), Confidence::None);
        assert_eq!(detect_server(step), Confidence::None);
    }

    #[test]
    fn detects_server_sent_events() {
        assert_eq!(detect_server(r#"data: {"id":"evt_1","type":"server.connected","properties":{}}"#), Confidence::Certain);
        assert_eq!(detect_server(r#"data:{"payload":{"type":"sync"},"directory":"/home/user"}"#), Confidence::Certain);
        assert_eq!(detect_server("data: text"), Confidence::None);
        assert_eq!(detect_server(r#"data: {"type":"message","content":"x"}"#), Confidence::None);
    }
}
