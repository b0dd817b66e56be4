//! Pi.
//!
//! `--mode json` and `--mode rpc` print the same events. Up to 0.73 every update repeats the whole message so far; later
//! versions print only what is new. One dialect reads both, since it never looks at the repeated copies.
//!
//! | dialect | command line |
//! |---|---|
//! | stream | `--mode json`, `--mode rpc` |
//! | history | the log that it keeps in `sessions/` |
//! | text | `--mode text` |

mod command;
mod history;
mod stream;
mod tools;
mod wire;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, Match, text};
use crate::json::{self, Str};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("pi"),
    aliases: &[],
    title: "Pi",
    dialects: &[STREAM, history::DIALECT, text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: Some(history::HISTORY),
    shapes: include_str!("pi/shapes.txt"),
};

const STREAM: DialectEntry = DialectEntry {
    name: "stream",
    about: "events of `--mode json` and `--mode rpc`",
    form: Form::Json,
    detect,
    reader: || Box::new(stream::Stream::default()),
};

fn detect(line: &str) -> Match {
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Head<'a> {
        r#type: Str<'a>,
        version: Option<&'a RawValue>,
        cwd: Option<&'a RawValue>,
        command: Option<&'a RawValue>,
        success: Option<&'a RawValue>,
        #[serde(rename = "assistantMessageEvent")]
        assistant_message_event: Option<&'a RawValue>,
        #[serde(rename = "toolCallId")]
        tool_call_id: Option<&'a RawValue>,
        #[serde(rename = "toolResults")]
        tool_results: Option<&'a RawValue>,
        messages: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line) else { return Match::No };
    match &*head.r#type {
        // The log begins with the same line.
        "session" if head.version.is_some() && head.cwd.is_some() => Match::Maybe,
        "response" => Match::yes_if(head.command.is_some() && head.success.is_some()),
        "message_update" => Match::yes_if(head.assistant_message_event.is_some()),
        "tool_execution_start" | "tool_execution_end" if head.tool_call_id.is_some() => Match::Yes,
        "turn_end" if head.tool_results.is_some() => Match::Yes,
        "agent_end" if head.messages.is_some() => Match::Yes,
        "agent_start" | "turn_start" | "message_start" | "message_end" | "agent_settled" => Match::Maybe,
        _ => Match::No,
    }
}

#[cfg(test)]
mod tests {
    use super::{Match, detect};

    #[test]
    fn the_head_of_each_mode_tells() {
        assert_eq!(detect(r#"{"cwd":"/home/user","type":"session","version":3,"id":"a"}"#), Match::Maybe);
        assert_eq!(detect(r#"{"id":"1","type":"response","command":"prompt","success":true}"#), Match::Yes);
        assert_eq!(detect(r#"{"type":"agent_start"}"#), Match::Maybe);
        assert_eq!(detect(r#"{"type":"turn_end","message":{},"toolResults":[]}"#), Match::Yes);
        assert_eq!(detect(r#"{"type":"turn_end","turn":1}"#), Match::No);
        assert_eq!(detect(r#"{"type":"session","id":"a"}"#), Match::No);
        assert_eq!(detect("plain text"), Match::No);
    }
}
