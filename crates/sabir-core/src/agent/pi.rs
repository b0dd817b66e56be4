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

use super::{Accounting, Agent, AgentId, DialectEntry, Match, text};
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
    detect,
    reader: || Box::new(stream::Stream::default()),
};

fn detect(line: &str) -> Match {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        version: Option<&'a RawValue>,
        #[serde(borrow)]
        cwd: Option<&'a RawValue>,
        #[serde(borrow)]
        command: Option<&'a RawValue>,
        #[serde(borrow)]
        success: Option<&'a RawValue>,
        #[serde(borrow, rename = "assistantMessageEvent")]
        assistant_message_event: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line) else { return Match::No };
    match &*head.r#type {
        // The log begins with the same line.
        "session" if head.version.is_some() && head.cwd.is_some() => Match::Maybe,
        "response" => Match::yes_if(head.command.is_some() && head.success.is_some()),
        "message_update" => Match::yes_if(head.assistant_message_event.is_some()),
        "agent_start"
        | "turn_start"
        | "message_start"
        | "message_end"
        | "tool_execution_start"
        | "tool_execution_end"
        | "turn_end"
        | "agent_end"
        | "agent_settled" => Match::Maybe,
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
        assert_eq!(detect(r#"{"type":"session","id":"a"}"#), Match::No);
        assert_eq!(detect("plain text"), Match::No);
    }
}
