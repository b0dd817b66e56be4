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

use sabir_core::agent::{Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::json::{self, Str};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("pi", "Pi")
        .dialect(stream())
        .log(history::log())
        .dialect(text::dialect())
        .launch(command::launch())
        .shapes(include_str!("pi/shapes.txt"))
}

fn stream() -> DialectSpec {
    DialectSpec::json("stream", "events of `--mode json` and `--mode rpc`", detect, stream::Stream::default)
}

fn detect(line: &str) -> Confidence {
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
        #[serde(borrow, rename = "toolCallId")]
        tool_call_id: Option<&'a RawValue>,
        #[serde(borrow, rename = "toolResults")]
        tool_results: Option<&'a RawValue>,
        #[serde(borrow)]
        messages: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line) else { return Confidence::None };
    match &*head.r#type {
        // The log begins with the same line.
        "session" if head.version.is_some() && head.cwd.is_some() => Confidence::Possible,
        "response" => Confidence::certain_if(head.command.is_some() && head.success.is_some()),
        "message_update" => Confidence::certain_if(head.assistant_message_event.is_some()),
        "tool_execution_start" | "tool_execution_end" if head.tool_call_id.is_some() => Confidence::Certain,
        "turn_end" if head.tool_results.is_some() => Confidence::Certain,
        "agent_end" if head.messages.is_some() => Confidence::Certain,
        "agent_start" | "turn_start" | "message_start" | "message_end" | "agent_settled" => Confidence::Possible,
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn the_head_of_each_mode_tells() {
        assert_eq!(detect(r#"{"cwd":"/home/user","type":"session","version":3,"id":"a"}"#), Confidence::Possible);
        assert_eq!(detect(r#"{"id":"1","type":"response","command":"prompt","success":true}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"agent_start"}"#), Confidence::Possible);
        assert_eq!(detect(r#"{"type":"turn_end","message":{},"toolResults":[]}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"turn_end","turn":1}"#), Confidence::None);
        assert_eq!(detect(r#"{"type":"session","id":"a"}"#), Confidence::None);
        assert_eq!(detect("plain text"), Confidence::None);
    }
}
