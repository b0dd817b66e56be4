//! Steps of parts: the shape of OpenCode's sessions, which its forks print too.
//!
//! A message of the model is a list of parts (text, reasoning, tool calls) between the start and the end of a step. An
//! agent adds to this what only it prints; what it shares with others is here, so that no agent needs to see another.

pub(crate) mod ending;
pub(crate) mod history;
mod run;
pub(crate) mod tool;
pub(crate) mod wire;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::json::{self, Str};

pub(super) use run::Run;

/// What a line of `run --format json` is to somebody who asks which agent printed it.
#[derive(Debug, PartialEq)]
pub(super) enum RunLine {
    /// None of its lines.
    Other,
    /// A line that all agents of this shape print.
    Any,
    /// The end of a step.
    StepEnd {
        /// It says how fast the model was.
        measured: bool,
    },
}

/// Looks at a line without reading it.
pub(super) fn run_line(line: &str) -> RunLine {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow, rename = "sessionID")]
        session_id: Str<'a>,
        #[serde(borrow)]
        part: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct StepEnd<'a> {
        #[serde(borrow)]
        metrics: Option<&'a RawValue>,
    }
    let Some(head) = json::parse::<Head<'_>>(line).filter(|head| head.session_id.starts_with("ses_")) else {
        return RunLine::Other;
    };
    match (&*head.r#type, head.part, head.error) {
        ("step_finish", Some(part), _) => {
            let measured = json::parse::<StepEnd<'_>>(part.get()).is_some_and(|end| end.metrics.is_some());
            RunLine::StepEnd { measured }
        }
        ("step_start" | "text" | "reasoning" | "tool_use", Some(_), _) | ("error", _, Some(_)) => RunLine::Any,
        _ => RunLine::Other,
    }
}
