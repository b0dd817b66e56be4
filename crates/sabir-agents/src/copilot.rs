//! Copilot CLI.
//!
//! `--output-format json` prints the events of the session, wrapped as `{type, data, id, timestamp, parentId}`, and a
//! `result` at the end, which alone names the session. Plain text with `-s` is the answer.
//!
//! | dialect | command line |
//! |---|---|
//! | json | `--output-format json` |
//! | history | the log that it keeps in `session-state/` |
//! | text | `-s` |

mod command;
mod ending;
mod history;
mod lane;
mod stream;
mod tools;
mod usage;
mod wire;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::json::{self, Str};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("copilot", "Copilot CLI")
        .aliases(["copilot-cli", "github-copilot"])
        .dialect(json())
        .log(history::log())
        .dialect(text::dialect())
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
        .shapes(include_str!("copilot/shapes.txt"))
}

fn json() -> DialectSpec {
    DialectSpec::json(
        "json",
        "one session event per line (`--output-format json`), streamed or not",
        detect,
        stream::Stream::default,
    )
}

/// How the types of its events begin.
const FAMILIES: &[&str] = &["session.", "assistant.", "user.", "tool.", "model.", "subagent.", "system.", "hook."];

fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        timestamp: Option<&'a RawValue>,
        #[serde(borrow)]
        session_id: Option<&'a RawValue>,
        #[serde(borrow)]
        exit_code: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line) else { return Confidence::None };
    if &*head.r#type == "result" {
        return Confidence::certain_if(head.session_id.is_some() && head.exit_code.is_some());
    }
    // The log has the same events; only its first one is never printed.
    if history::detect(line) == Confidence::Certain {
        return Confidence::Possible;
    }
    let wrapped = head.data.is_some_and(|data| data.get().starts_with('{')) && head.id.is_some() && head.timestamp.is_some();
    Confidence::certain_if(wrapped && FAMILIES.iter().any(|family| head.r#type.starts_with(family)))
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn events_are_wrapped_and_the_result_has_an_exit_code() {
        let event = r#"{"type":"assistant.idle","data":{},"id":"a","timestamp":"2026-01-01T00:00:00Z","parentId":"b"}"#;
        assert_eq!(detect(event), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"result","sessionId":"a","exitCode":0}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"result","subtype":"success","session_id":"a"}"#), Confidence::None);
        assert_eq!(detect(r#"{"type":"session.idle","properties":{}}"#), Confidence::None);
        assert_eq!(detect("plain text"), Confidence::None);
    }
}
