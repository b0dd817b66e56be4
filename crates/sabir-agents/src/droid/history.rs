//! The log that Droid keeps: `sessions/<folder>/<session>.jsonl`, and beside it `<session>.settings.json`, which alone
//! has figures: the sum of the session so far.
//!
//! What lies in wait here: the settings do not name their session; those of a fork begin as a copy of the first one's;
//! figures that include sub-agents are told beside those of the session itself, and sub-agents are sessions of their own.

mod note;
mod whole;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::history::{FileRole, LogRoot, LogSpec, Spent, stem};
use sabir_core::json::{self, Str, StringOr};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new(
        // The variable names a home folder, not the agent's.
        [LogRoot::relocatable("FACTORY_HOME_OVERRIDE", "", ".factory/sessions")],
        dialect(),
        part,
        note::note,
    )
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a session in `sessions/`, its settings after it", detect, whole::Log::default)
}

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    // Older versions had no folders here.
    let ([_, name] | [name]) = *path else { return None };
    stem(name, ".settings.json").map(FileRole::Child).or_else(|| stem(name, ".jsonl").map(FileRole::Session))
}

/// A line of the log, or all of the settings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    r#type: Option<Str<'a>>,
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    cwd: Option<Str<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Message<'a>>,
    #[serde(borrow, default)]
    reason: Option<Str<'a>>,
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    token_usage: Option<TokenUsage>,
    #[serde(borrow, default)]
    provider_lock_timestamp: Option<Str<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Str<'a>,
    #[serde(borrow, default)]
    content: Option<StringOr<'a, Vec<Block<'a>>>>,
    /// Who is shown it, where not everybody is.
    #[serde(borrow, default)]
    visibility: Option<Str<'a>>,
    #[serde(borrow, default)]
    model_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    chat_completion_reasoning_content: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    name: Option<Str<'a>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<Str<'a>>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// What a session has spent. The four classes do not overlap; thinking is a part of output.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct TokenUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    thinking_tokens: Option<u64>,
}

impl TokenUsage {
    fn spent(self) -> Spent {
        Spent {
            input: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_tokens.unwrap_or(0),
            cache_write: self.cache_creation_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            reasoning: self.thinking_tokens.unwrap_or(0),
            ..Spent::default()
        }
    }
}

/// Prompts that nobody typed. Older versions do not say who is shown what.
fn is_furniture(prompt: &str) -> bool {
    prompt.trim_start().is_empty() || prompt.trim_start().starts_with("<system-reminder>")
}

/// What is printed has the session in every line; the log has it in the first.
fn detect(line: &str) -> Confidence {
    use serde::de::IgnoredAny;
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marks<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        id: Option<IgnoredAny>,
        title: Option<IgnoredAny>,
        owner: Option<IgnoredAny>,
        cwd: Option<IgnoredAny>,
        turn_id: Option<IgnoredAny>,
        reason: Option<IgnoredAny>,
        result_kind: Option<IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let marks = Some(line).filter(|line| line.starts_with('{')).and_then(json::parse::<Marks<'_>>);
    let Some(marks) = marks else { return Confidence::None };
    match &*marks.r#type {
        "session_start" => {
            Confidence::certain_if(marks.id.is_some() && marks.title.is_some() && (marks.owner.is_some() || marks.cwd.is_some()))
        }
        "agent_turn_outcome" => {
            Confidence::certain_if(marks.turn_id.is_some() && marks.reason.is_some() && marks.result_kind.is_some())
        }
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::{detect, part};
    use sabir_core::agent::Confidence;
    use sabir_core::history::FileRole;

    #[test]
    fn files_are_told_apart() {
        assert_eq!(part(&["-home-user", "0a1b.jsonl"]), Some(FileRole::Session("0a1b")));
        assert_eq!(part(&["-home-user", "0a1b.settings.json"]), Some(FileRole::Child("0a1b")));
        assert_eq!(part(&["0a1b.jsonl"]), Some(FileRole::Session("0a1b")));
        assert_eq!(part(&["-home-user", "index.json"]), None);
        assert_eq!(part(&["-home-user", "0a1b", "x.jsonl"]), None);
    }

    #[test]
    fn the_log_is_told_from_what_is_printed() {
        assert_eq!(
            detect(r#"{"type":"session_start","id":"s","title":"t","owner":"o","version":2,"cwd":"/"}"#),
            Confidence::Certain
        );
        assert_eq!(
            detect(r#"{"type":"agent_turn_outcome","turnId":"t","reason":"completed","resultKind":"text"}"#),
            Confidence::Certain
        );
        assert_eq!(detect(r#"{"type":"message","role":"user","id":"a","text":"x","session_id":"s"}"#), Confidence::None);
        assert_eq!(
            detect(r#"{"type":"message","id":"a","timestamp":"t","message":{"role":"user","content":[]}}"#),
            Confidence::None
        );
    }
}
