//! Claude Code (`claude -p`).
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `--output-format stream-json --verbose [--include-partial-messages]` |
//! | json | `--output-format json`: the last line of stream-json alone |
//! | | `--output-format json --verbose`: all lines of stream-json as one array |
//! | history | the session log in `projects/` |
//! | text | `--output-format text` |

mod command;
mod history;
mod response;
mod result;
mod stream;
mod tools;
mod wire;

use sabir_core::agent::{Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::family::anthropic::StreamJson;

#[doc(hidden)]
pub use crate::family::anthropic::wire::Message as WireMessage;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("claude-code", "Claude Code")
        .aliases(["claude"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON object per line or all in one array, with or without partial messages; a lone result object too",
            detect,
            StreamJson::<stream::ClaudeCode>::default,
        ))
        .log(history::log())
        .dialect(text::dialect())
        .launch(command::launch())
        .shapes(include_str!("claude_code/shapes.txt"))
}

/// Fields by which a line is detected. CLIs that copied the format print most of them too.
#[derive(Deserialize)]
struct Probe<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    subtype: Option<Str<'a>>,
    claude_code_version: Option<IgnoredAny>,
    slash_commands: Option<IgnoredAny>,
    session_id: Option<IgnoredAny>,
    tools: Option<IgnoredAny>,
    /// Only Qwen Code.
    #[serde(default)]
    qwen_code_version: Option<IgnoredAny>,
    total_cost_usd: Option<IgnoredAny>,
    #[serde(rename = "modelUsage")]
    model_usage: Option<IgnoredAny>,
    subagent_stats: Option<IgnoredAny>,
    ttft_ms: Option<IgnoredAny>,
    num_turns: Option<IgnoredAny>,
    permission_denials: Option<IgnoredAny>,
    api_message_id: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "json::lenient")]
    message: Option<Content>,
    /// Only lines of the log.
    #[serde(default, rename = "sessionId")]
    log_session_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Content {
    content: Option<IgnoredAny>,
}

fn detect(line: &str) -> Confidence {
    let Some(probe) = json::parse::<Probe<'_>>(line) else { return Confidence::None };
    let possible_if = |plausible| if plausible { Confidence::Possible } else { Confidence::None };
    let subtype = probe.subtype.as_deref().unwrap_or_default();
    match &*probe.r#type {
        "system" if subtype == "init" => match probe {
            Probe { claude_code_version: Some(_), .. } => Confidence::Certain,
            Probe { qwen_code_version: Some(_), .. } => Confidence::None,
            Probe { slash_commands: Some(_), .. } => Confidence::Likely,
            _ => possible_if(probe.session_id.is_some() && probe.tools.is_some()),
        },
        "system" if matches!(subtype, "api_retry" | "ui_invalidate" | "hook_started" | "hook_response" | "status") => {
            Confidence::Possible
        }
        "result" if probe.subagent_stats.is_some() || probe.ttft_ms.is_some() => Confidence::Certain,
        "result" if probe.total_cost_usd.is_some() || probe.model_usage.is_some() => Confidence::Likely,
        "result" => possible_if(probe.num_turns.is_some() && probe.permission_denials.is_none()),
        "stream_event" if probe.api_message_id.is_some() => Confidence::Certain,
        "stream_event" | "control_request" | "control_response" => Confidence::Possible,
        "assistant" | "user" => {
            possible_if(probe.message.is_some_and(|message| message.content.is_some()) && probe.log_session_id.is_none())
        }
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn detects_certainly_only_by_own_fields() {
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
