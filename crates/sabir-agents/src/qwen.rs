//! Qwen Code (`qwen -p`).
//!
//! | dialect | command line |
//! |---|---|
//! | stream-json | `--output-format stream-json [--include-partial-messages]` |
//! | | `--output-format json`: the lines of stream-json as one array |
//! | history | the session log in `chats/` |
//! | text | `--output-format text` |

mod command;
mod history;
mod outcome;
mod stream;
mod tools;
mod usage;
mod wire;

use serde::Deserialize;

use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::json::{self, Str};

use crate::family::anthropic::StreamJson;

/// The agent.
pub fn agent() -> Agent {
    Agent::new("qwen", "Qwen Code")
        .aliases(["qwen-code"])
        .dialect(DialectSpec::json(
            "stream-json",
            "one JSON object per line or all in one array, with or without partial messages",
            detect,
            StreamJson::<stream::Qwen>::default,
        ))
        .log(history::log())
        .dialect(text::dialect_of(|| text::WithEnding::new(outcome::with_exit_code)))
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
        .shapes(include_str!("qwen/shapes.txt"))
}

/// Detects a line by fields that only Qwen Code prints, or that it leaves out of the format.
fn detect(line: &str) -> Confidence {
    use serde::de::IgnoredAny;
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Probe<'a> {
        r#type: Str<'a>,
        subtype: Option<Str<'a>>,
        uuid: Option<IgnoredAny>,
        #[serde(rename = "sessionId")]
        log_session_id: Option<IgnoredAny>,
        qwen_code_version: Option<IgnoredAny>,
        data: Option<IgnoredAny>,
        permission_denials: Option<IgnoredAny>,
        total_cost_usd: Option<IgnoredAny>,
        #[serde(rename = "modelUsage")]
        model_usage: Option<IgnoredAny>,
        message: Option<IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        event: Option<Event<'a>>,
        api_message_id: Option<IgnoredAny>,
        request_id: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Event<'a> {
        r#type: Str<'a>,
    }
    let possible_if = |plausible| if plausible { Confidence::Possible } else { Confidence::None };
    let Some(probe) = json::parse::<Probe<'_>>(line).filter(|probe| probe.uuid.is_some() && probe.log_session_id.is_none())
    else {
        return Confidence::None;
    };
    match (&*probe.r#type, probe.subtype.as_deref()) {
        ("system", Some("init")) => Confidence::certain_if(probe.qwen_code_version.is_some()),
        ("system", Some("retry" | "task_started" | "task_notification")) => Confidence::certain_if(probe.data.is_some()),
        ("stream_event", _) if probe.event.as_ref().is_some_and(|event| &*event.r#type == "goal_state") => Confidence::Certain,
        ("stream_event", _) => possible_if(probe.event.is_some() && probe.api_message_id.is_none()),
        ("assistant" | "user", _) => possible_if(probe.message.is_some() && probe.request_id.is_none()),
        ("result", Some(_)) => {
            possible_if(probe.permission_denials.is_some() && probe.total_cost_usd.is_none() && probe.model_usage.is_none())
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
        for (rest, want) in [
            (r#""type":"system","subtype":"init","slash_commands":[],"qwen_code_version":"0.24.4""#, Confidence::Certain),
            (r#""type":"system","subtype":"init","slash_commands":[]"#, Confidence::None),
            (r#""type":"stream_event","event":{"type":"goal_state"}"#, Confidence::Certain),
            (r#""type":"stream_event","event":{"type":"message_stop"}"#, Confidence::Possible),
            (r#""type":"system","subtype":"retry","data":{}"#, Confidence::Certain),
            (r#""type":"user","message":{}"#, Confidence::Possible),
            (r#""type":"user","message":{},"sessionId":"s""#, Confidence::None),
            (r#""type":"result","subtype":"success","permission_denials":[]"#, Confidence::Possible),
            (r#""type":"result","subtype":"success","permission_denials":[],"total_cost_usd":0.1"#, Confidence::None),
        ] {
            assert_eq!(detect(&format!(r#"{{"uuid":"u",{rest}}}"#)), want, "{rest}");
        }
    }
}
