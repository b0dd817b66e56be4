//! Claude Code (`claude -p`).
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `--output-format stream-json --verbose [--include-partial-messages]` |
//! | json | `--output-format json`: the last line of stream-json alone |
//! | json-array | `--output-format json --verbose`: all lines of stream-json as one array on one line |
//! | history | the log that it keeps in `projects/` |
//! | text | `--output-format text` |

mod command;
mod fast;
mod history;
mod lane;
mod result;
mod stream;
mod tools;
mod wire;

use serde::Deserialize;

use super::array::{self, JsonArray};
use super::{Accounting, Agent, AgentId, DialectEntry, Match, text};
use crate::json::{self, Str};

pub use stream::StreamJson;
#[doc(hidden)]
pub use wire::Message as WireMessage;

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("claude-code"),
    aliases: &["claude"],
    title: "Claude Code",
    dialects: &[
        DialectEntry {
            name: "stream-json",
            about: "one JSON object per line, with or without partial messages; a lone result object too",
            detect,
            reader: || Box::new(StreamJson::default()),
        },
        DialectEntry {
            name: "json-array",
            about: "all messages as one JSON array on one line",
            detect: |line| array::detect(line, detect),
            reader: || Box::new(JsonArray::<StreamJson>::default()),
        },
        history::DIALECT,
        text::DIALECT,
    ],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: Some(history::HISTORY),
    shapes: include_str!("claude_code/shapes.txt"),
};

/// Cousins of Claude Code print the same types; only these fields are its own.
#[derive(Deserialize)]
struct Marks<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    subtype: Option<Str<'a>>,
    #[serde(default)]
    claude_code_version: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    slash_commands: Option<serde::de::IgnoredAny>,
    /// A cousin says who it is.
    #[serde(default)]
    qwen_code_version: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    total_cost_usd: Option<serde::de::IgnoredAny>,
    #[serde(default, rename = "modelUsage")]
    model_usage: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    api_message_id: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    message: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    parent_tool_use_id: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    request_id: Option<serde::de::IgnoredAny>,
}

fn detect(line: &str) -> Match {
    let Some(marks) = json::parse::<Marks<'_>>(line) else { return Match::No };
    let subtype = marks.subtype.as_deref().unwrap_or_default();
    match &*marks.r#type {
        "system" if subtype == "init" => Match::yes_if(
            marks.claude_code_version.is_some() || (marks.slash_commands.is_some() && marks.qwen_code_version.is_none()),
        ),
        "system" if matches!(subtype, "api_retry" | "ui_invalidate" | "hook_started" | "hook_response" | "status") => {
            Match::Maybe
        }
        "result" => Match::yes_if(marks.total_cost_usd.is_some() || marks.model_usage.is_some()),
        "stream_event" if marks.api_message_id.is_some() => Match::Yes,
        "stream_event" | "control_request" | "control_response" => Match::Maybe,
        "assistant" | "user" if marks.message.is_some() && (marks.request_id.is_some() || marks.parent_tool_use_id.is_some()) => {
            Match::Maybe
        }
        _ => Match::No,
    }
}
