//! Output formats of OpenCode and its forks: sessions of messages, messages of parts.
//!
//! A model response is a list of parts (text, reasoning, tool calls) between the start and the end of a step. Formats that
//! only one of the agents has are in the module of that agent.

pub(crate) mod history;
pub(crate) mod outcome;
mod run;
pub(crate) mod tool;
pub(crate) mod wire;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::json::{self, Str};

pub(crate) use run::Run;

/// Classification of a line of `run --format json`, for the detection of the agent.
#[derive(Debug, PartialEq)]
pub(crate) enum RunLine {
    /// Not a line of this format.
    Other,
    /// A line that all agents of the family print.
    Any,
    /// The end of a step.
    StepEnd {
        /// Whether the line has speed metrics of the model.
        has_metrics: bool,
    },
}

/// Classifies a line by a few of its fields.
pub(crate) fn run_line(line: &str) -> RunLine {
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Head<'a> {
        r#type: Str<'a>,
        #[serde(rename = "sessionID")]
        session_id: Str<'a>,
        part: Option<&'a RawValue>,
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct StepEnd<'a> {
        metrics: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line).filter(|head| head.session_id.starts_with("ses_")) else {
        return RunLine::Other;
    };
    match (&*head.r#type, head.part, head.error) {
        ("step_finish", Some(part), _) => {
            let has_metrics = json::parse::<StepEnd<'_>>(part.get()).is_some_and(|end| end.metrics.is_some());
            RunLine::StepEnd { has_metrics }
        }
        ("step_start" | "text" | "reasoning" | "tool_use", Some(_), _) | ("error", _, Some(_)) => RunLine::Any,
        _ => RunLine::Other,
    }
}
