//! The log that Copilot CLI keeps: `session-state/<session>/events.jsonl`. It has the events that are printed, but for
//! the fleeting ones, and more: who and where at the beginning, what was asked, the figures of every model call, and
//! sums at the end.

mod note;
mod whole;

use std::collections::BTreeMap;

use serde::Deserialize;

use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::history::{FileRole, LogRoot, LogSpec, Spent};
use sabir_core::json::{self, Str};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new([LogRoot::relocatable("COPILOT_HOME", ".copilot", "session-state")], dialect(), part, note::note)
        .filter(1, "events.jsonl")
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a session in `session-state/`", detect, whole::Log::default)
}

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    match *path {
        [session, "events.jsonl"] => Some(FileRole::Session(session)),
        _ => None,
    }
}

/// Tokens of a call, or of all calls of a model. Cached ones are a part of the input, reasoning of the output.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl Tokens {
    fn spent(self) -> Spent {
        let (read, write) = (self.cache_read_tokens.unwrap_or(0), self.cache_write_tokens.unwrap_or(0));
        let input = self.input_tokens.unwrap_or(0);
        Spent {
            // Input that is smaller than what was cached can't contain it.
            input: input.checked_sub(read.saturating_add(write)).unwrap_or(input),
            cache_read: read,
            cache_write: write,
            output: self.output_tokens.unwrap_or(0),
            reasoning: self.reasoning_tokens.unwrap_or(0),
            ..Spent::default()
        }
    }
}

/// The sums of `session.shutdown`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sums<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    model_metrics: Option<BTreeMap<Str<'a>, Metrics>>,
}

#[derive(Deserialize)]
struct Metrics {
    usage: Tokens,
}

impl<'a> Sums<'a> {
    fn by_model(self) -> impl Iterator<Item = (Str<'a>, Spent)> {
        self.model_metrics.into_iter().flatten().map(|(model, metrics)| (model, metrics.usage.spent()))
    }
}

/// Only the log tells how a session begins, and who writes it.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(default, deserialize_with = "json::lenient")]
        data: Option<Start>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Start {
        session_id: Option<serde::de::IgnoredAny>,
        producer: Option<serde::de::IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let head = Some(line).filter(|line| line.starts_with('{')).and_then(json::parse::<Head<'_>>);
    let Some(head) = head else { return Confidence::None };
    let begins = head.data.is_some_and(|data| data.session_id.is_some() && data.producer.is_some());
    Confidence::certain_if(&*head.r#type == "session.start" && begins)
}

#[cfg(test)]
mod tests {
    use super::{detect, part};
    use sabir_core::agent::Confidence;
    use sabir_core::history::FileRole;

    #[test]
    fn files_are_told_apart() {
        assert_eq!(part(&["0a1b", "events.jsonl"]), Some(FileRole::Session("0a1b")));
        assert_eq!(part(&["0a1b", "checkpoints", "index.md"]), None);
        assert_eq!(part(&["events.jsonl"]), None);
    }

    #[test]
    fn the_log_is_told_from_what_is_printed() {
        let start = r#"{"type":"session.start","data":{"sessionId":"s","version":1,"producer":"copilot-agent"},"id":"a","timestamp":"t","parentId":null}"#;
        assert_eq!(detect(start), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"user.message","data":{"content":"a"},"id":"a","timestamp":"t"}"#), Confidence::None);
        assert_eq!(super::super::detect(start), Confidence::Possible);
    }
}
