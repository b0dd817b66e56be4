//! Claude Code (`claude -p`).
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `--output-format stream-json --verbose [--include-partial-messages]` |
//! | json | `--output-format json`: the last line of stream-json alone |
//! | | `--output-format json --verbose`: all lines of stream-json as one array |
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
use serde::de::IgnoredAny;

use sabir_core::agent::{Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::json::{self, Str};

pub use stream::StreamJson;
#[doc(hidden)]
pub use wire::Message as WireMessage;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("claude-code", "Claude Code")
        .aliases(["claude"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON object per line or all in one array, with or without partial messages; a lone result object too",
            detect,
            StreamJson::default,
        ))
        .log(history::log())
        .dialect(text::dialect())
        .launch(command::launch())
        .shapes(include_str!("claude_code/shapes.txt"))
}

/// CLIs that imitate Claude Code print the same types with the same fields; only some are its own.
#[derive(Deserialize)]
struct Marks<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    subtype: Option<Str<'a>>,
    #[serde(default)]
    claude_code_version: Option<IgnoredAny>,
    #[serde(default)]
    slash_commands: Option<IgnoredAny>,
    #[serde(default)]
    session_id: Option<IgnoredAny>,
    #[serde(default)]
    tools: Option<IgnoredAny>,
    /// A CLI that says who it is.
    #[serde(default)]
    qwen_code_version: Option<IgnoredAny>,
    #[serde(default)]
    total_cost_usd: Option<IgnoredAny>,
    #[serde(default, rename = "modelUsage")]
    model_usage: Option<IgnoredAny>,
    #[serde(default)]
    subagent_stats: Option<IgnoredAny>,
    #[serde(default)]
    ttft_ms: Option<IgnoredAny>,
    #[serde(default)]
    num_turns: Option<IgnoredAny>,
    #[serde(default)]
    permission_denials: Option<IgnoredAny>,
    #[serde(default)]
    api_message_id: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "json::lenient")]
    message: Option<Content>,
    /// Its log has these types too.
    #[serde(default, rename = "sessionId")]
    log_session_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Content {
    content: Option<IgnoredAny>,
}

fn detect(line: &str) -> Confidence {
    let Some(marks) = json::parse::<Marks<'_>>(line) else { return Confidence::None };
    let maybe = |plausible| if plausible { Confidence::Possible } else { Confidence::None };
    let subtype = marks.subtype.as_deref().unwrap_or_default();
    match &*marks.r#type {
        "system" if subtype == "init" => match marks {
            Marks { claude_code_version: Some(_), .. } => Confidence::Certain,
            Marks { qwen_code_version: Some(_), .. } => Confidence::None,
            Marks { slash_commands: Some(_), .. } => Confidence::Likely,
            _ => maybe(marks.session_id.is_some() && marks.tools.is_some()),
        },
        "system" if matches!(subtype, "api_retry" | "ui_invalidate" | "hook_started" | "hook_response" | "status") => {
            Confidence::Possible
        }
        "result" if marks.subagent_stats.is_some() || marks.ttft_ms.is_some() => Confidence::Certain,
        "result" if marks.total_cost_usd.is_some() || marks.model_usage.is_some() => Confidence::Likely,
        "result" => maybe(marks.num_turns.is_some() && marks.permission_denials.is_none()),
        "stream_event" if marks.api_message_id.is_some() => Confidence::Certain,
        "stream_event" | "control_request" | "control_response" => Confidence::Possible,
        "assistant" | "user" => {
            maybe(marks.message.is_some_and(|message| message.content.is_some()) && marks.log_session_id.is_none())
        }
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn only_its_own_fields_are_certain() {
        let message = r#""message":{"role":"assistant","content":[]}"#;
        for (line, want) in [
            (r#""type":"system","subtype":"init","slash_commands":[],"claude_code_version":"2.1.327""#, Confidence::Certain),
            (r#""type":"system","subtype":"init","slash_commands":[],"other_version":"1""#, Confidence::Likely),
            (r#""type":"system","subtype":"init","slash_commands":[],"qwen_code_version":"1""#, Confidence::None),
            (r#""type":"system","subtype":"init","session_id":"s","tools":[]"#, Confidence::Possible),
            (r#""type":"system","subtype":"init","session_id":"s","apiKeySource":"login""#, Confidence::None),
            (r#""type":"result","subtype":"success","total_cost_usd":0.1,"subagent_stats":{}"#, Confidence::Certain),
            (r#""type":"result","subtype":"success","total_cost_usd":0.1,"modelUsage":{}"#, Confidence::Likely),
            (&format!(r#""type":"assistant",{message}"#), Confidence::Possible),
            (&format!(r#""type":"assistant",{message},"sessionId":"s""#), Confidence::None),
        ] {
            assert_eq!(detect(&format!("{{{line}}}")), want, "{line}");
        }
    }
}
