//! Cline.
//!
//! `--json` prints hooks and events of the agent, each with its time, and a `run_result`. Plain text has a coloured line
//! for every tool call and for what it gave back.

mod command;
mod lanes;
mod stream;
mod text;
mod tools;
mod usage;
mod wire;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, Match};
use crate::json::{self, Str};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("cline"),
    aliases: &["cline-cli"],
    title: "Cline",
    dialects: &[
        DialectEntry {
            name: "json",
            about: "one JSON event per line (`--json`): hooks, events of the agent, the result",
            form: Form::Json,
            detect,
            reader: || Box::new(stream::Stream::default()),
        },
        DialectEntry {
            about: "plain text with a line for each tool call; what comes after the last one is the answer",
            reader: || Box::new(text::Text::default()),
            ..super::text::DIALECT
        },
    ],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: None,
    shapes: include_str!("cline/shapes.txt"),
};

fn detect(line: &str) -> Match {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", bound = "'de: 'a")]
    struct Head<'a> {
        r#type: Str<'a>,
        ts: Option<&'a RawValue>,
        hook_event_name: Option<&'a RawValue>,
        event: Option<&'a RawValue>,
        finish_reason: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line).filter(|head| head.ts.is_some()) else { return Match::No };
    match &*head.r#type {
        "hook_event" => Match::yes_if(head.hook_event_name.is_some()),
        "agent_event" => Match::yes_if(head.event.is_some()),
        "run_result" => Match::yes_if(head.finish_reason.is_some()),
        "run_aborted" | "error" => Match::Maybe,
        _ => Match::No,
    }
}

#[cfg(test)]
mod tests {
    use super::{Match, detect};

    #[test]
    fn every_line_has_a_time_and_a_type() {
        assert_eq!(detect(r#"{"ts":"t","type":"hook_event","hookEventName":"agent_start","agentId":"a"}"#), Match::Yes);
        assert_eq!(detect(r#"{"ts":"t","type":"agent_event","event":{"type":"iteration_start"}}"#), Match::Yes);
        assert_eq!(detect(r#"{"ts":"t","type":"error","message":"no"}"#), Match::Maybe);
        assert_eq!(detect(r#"{"type":"agent_event","event":{}}"#), Match::No);
        assert_eq!(detect("plain text"), Match::No);
    }
}
