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

use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::json::{self, Str};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("cline", "Cline")
        .aliases(["cline-cli"])
        .dialect(DialectSpec::json(
            "json",
            "one JSON event per line (`--json`): hooks, events of the agent, the result",
            detect,
            stream::Stream::default,
        ))
        .dialect(
            sabir_core::dialect::text::dialect_of(text::Text::default)
                .with_about("plain text with a line for each tool call; what comes after the last one is the answer"),
        )
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
        .shapes(include_str!("cline/shapes.txt"))
}

fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        ts: Option<&'a RawValue>,
        #[serde(borrow)]
        hook_event_name: Option<&'a RawValue>,
        #[serde(borrow)]
        event: Option<&'a RawValue>,
        #[serde(borrow)]
        finish_reason: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line).filter(|head| head.ts.is_some()) else { return Confidence::None };
    match &*head.r#type {
        "hook_event" => Confidence::certain_if(head.hook_event_name.is_some()),
        "agent_event" => Confidence::certain_if(head.event.is_some()),
        "run_result" => Confidence::certain_if(head.finish_reason.is_some()),
        "run_aborted" | "error" => Confidence::Possible,
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn every_line_has_a_time_and_a_type() {
        assert_eq!(detect(r#"{"ts":"t","type":"hook_event","hookEventName":"agent_start","agentId":"a"}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"ts":"t","type":"agent_event","event":{"type":"iteration_start"}}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"ts":"t","type":"error","message":"no"}"#), Confidence::Possible);
        assert_eq!(detect(r#"{"type":"agent_event","event":{}}"#), Confidence::None);
        assert_eq!(detect("plain text"), Confidence::None);
    }
}
