//! The log that Pi keeps: `sessions/--<folder>--/<time>_<session>.jsonl`.
//!
//! Its messages are those of the stream, whole. What lies in wait here: attempts that failed are messages too, and what
//! they have cost is real; a fork begins with copies of the messages of another session; summaries are paid for, and
//! tell it in the lines that hold them.

mod note;
mod whole;

use serde::Deserialize;

use super::wire::{Message, Usage};
use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::history::{FileRole, LogRoot, LogSpec, stem};
use sabir_core::json::{self, Str};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new([LogRoot::relocatable("PI_CODING_AGENT_DIR", ".pi/agent", "sessions")], dialect(), part, note::note)
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a session in `sessions/`", detect, whole::Log::default)
}

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    // The time has no underscore; an id of the user's choice may have one.
    let [_, name] = *path else { return None };
    stem(name, ".jsonl")?.split_once('_').filter(|(_, id)| !id.is_empty()).map(|(_, id)| FileRole::Session(id))
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    cwd: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Message<'a>>,
    #[serde(borrow, default, alias = "modelId")]
    model: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage: Option<Usage>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    content: Option<Str<'a>>,
    #[serde(default)]
    display: bool,
}

/// Entries form a tree; nothing that is printed does. The head is the same in both.
fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marks<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(default)]
        version: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        cwd: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        timestamp: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        id: Option<serde::de::IgnoredAny>,
        #[serde(borrow, default, deserialize_with = "json::lenient")]
        message: Option<Speaker<'a>>,
        #[serde(default)]
        model_id: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        thinking_level: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        provider: Option<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Speaker<'a> {
        #[serde(borrow)]
        role: Str<'a>,
        #[serde(default)]
        timestamp: Option<serde::de::IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let line = Some(line).filter(|line| line.starts_with('{'));
    let Some((line, marks)) = line.and_then(|line| Some((line, json::parse::<Marks<'_>>(line)?))) else {
        return Confidence::None;
    };
    // The first versions wrote a list: entries had no ids, and the head had no version but the model.
    let linked = marks.id.is_some() && line.contains("\"parentId\":");
    let linked = marks.timestamp.is_some() && (linked || marks.id.is_none());
    match &*marks.r#type {
        "session" if marks.version.is_some() && marks.cwd.is_some() => Confidence::Possible,
        "session" if marks.cwd.is_some() && marks.provider.is_some() => {
            Confidence::certain_if(marks.model_id.is_some() && marks.thinking_level.is_some())
        }
        "model_change" => Confidence::certain_if(linked && marks.model_id.is_some()),
        "thinking_level_change" => Confidence::certain_if(linked && marks.thinking_level.is_some()),
        "message" => Confidence::certain_if(
            linked
                && marks.message.is_some_and(|message| {
                    message.timestamp.is_some() && matches!(&*message.role, "system" | "user" | "assistant" | "toolResult")
                }),
        ),
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
        assert_eq!(part(&["--home-user--", "2026-11-15T18-02-26-133Z_0a1b.jsonl"]), Some(FileRole::Session("0a1b")));
        assert_eq!(part(&["--home-user--", "2026-11-15T18-02-26-133Z_my_id.jsonl"]), Some(FileRole::Session("my_id")));
        assert_eq!(part(&["--home-user--", "notes.jsonl"]), None);
        assert_eq!(part(&["2026_0a1b.jsonl"]), None);
    }

    #[test]
    fn the_log_is_told_from_what_is_printed() {
        assert_eq!(detect(r#"{"type":"session","version":3,"id":"a","timestamp":"t","cwd":"/home/user"}"#), Confidence::Possible);
        assert_eq!(
            detect(r#"{"type":"model_change","id":"a","parentId":null,"timestamp":"t","provider":"p","modelId":"m"}"#),
            Confidence::Certain
        );
        let message = r#"{"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"user","content":"Hi","timestamp":1}}"#;
        assert_eq!(detect(message), Confidence::Certain);
        assert_eq!(
            detect(r#"{"type":"session","id":"a","timestamp":"t","cwd":"/","provider":"p","modelId":"m","thinkingLevel":"off"}"#),
            Confidence::Certain
        );
        let first = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":[],"timestamp":1}}"#;
        assert_eq!(detect(first), Confidence::Certain);
        assert_eq!(detect(r#"{"type":"message_end","message":{"role":"user","content":"Hi","timestamp":1}}"#), Confidence::None);
        assert_eq!(
            detect(r#"{"type":"message","id":"b","timestamp":"t","message":{"role":"user","content":"Hi"}}"#),
            Confidence::None
        );
    }
}
