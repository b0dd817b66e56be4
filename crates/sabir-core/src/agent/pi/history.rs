//! The log that Pi keeps: `sessions/--<folder>--/<time>_<session>.jsonl`.
//!
//! Its messages are those of the stream, whole. What lies in wait here: attempts that failed are messages too, and what
//! they have cost is real; a fork begins with copies of the messages of another session; summaries are paid for, and
//! tell it in the lines that hold them.

mod note;
mod whole;

use serde::Deserialize;

use super::super::{DialectEntry, Form, Match};
use super::wire::{Message, Usage};
use crate::history::{History, Part, Root, stem};
use crate::json::{self, Str};

/// Where it is and how it is read.
pub(super) const HISTORY: History = History {
    roots: &[Root { variable: Some("PI_CODING_AGENT_DIR"), home: ".pi/agent", below: "sessions" }],
    part,
    only: None,
    dialect: DIALECT,
    note: note::note,
    enough: |_| false,
    list: None,
};

/// The log as a dialect.
pub(super) const DIALECT: DialectEntry = DialectEntry {
    name: "history",
    about: "the log of a session in `sessions/`",
    form: Form::Json,
    detect,
    reader: || Box::new(whole::Log::default()),
};

fn part<'p>(path: &[&'p str]) -> Option<Part<'p>> {
    // The time has no underscore; an id of the user's choice may have one.
    let [_, name] = *path else { return None };
    stem(name, ".jsonl")?.split_once('_').filter(|(_, id)| !id.is_empty()).map(|(_, id)| Part::Session(id))
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Entry<'a> {
    r#type: Str<'a>,
    id: Option<Str<'a>>,
    timestamp: Option<Str<'a>>,
    cwd: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    message: Option<Message<'a>>,
    #[serde(alias = "modelId")]
    model: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage: Option<Usage>,
    #[serde(default, deserialize_with = "json::lenient")]
    content: Option<Str<'a>>,
    #[serde(default)]
    display: bool,
}

/// Entries form a tree; nothing that is printed does. The head is the same in both.
fn detect(line: &str) -> Match {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", bound = "'de: 'a")]
    struct Marks<'a> {
        r#type: Str<'a>,
        version: Option<serde::de::IgnoredAny>,
        cwd: Option<serde::de::IgnoredAny>,
        timestamp: Option<serde::de::IgnoredAny>,
        id: Option<serde::de::IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        message: Option<Speaker<'a>>,
        model_id: Option<serde::de::IgnoredAny>,
        thinking_level: Option<serde::de::IgnoredAny>,
        provider: Option<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Speaker<'a> {
        role: Str<'a>,
        timestamp: Option<serde::de::IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let line = Some(line).filter(|line| line.starts_with('{'));
    let Some((line, marks)) = line.and_then(|line| Some((line, json::parse::<Marks<'_>>(line)?))) else { return Match::No };
    // The first versions wrote a list: entries had no ids, and the head had no version but the model.
    let linked = marks.id.is_some() && line.contains("\"parentId\":");
    let linked = marks.timestamp.is_some() && (linked || marks.id.is_none());
    match &*marks.r#type {
        "session" if marks.version.is_some() && marks.cwd.is_some() => Match::Maybe,
        "session" if marks.cwd.is_some() && marks.provider.is_some() => {
            Match::yes_if(marks.model_id.is_some() && marks.thinking_level.is_some())
        }
        "model_change" => Match::yes_if(linked && marks.model_id.is_some()),
        "thinking_level_change" => Match::yes_if(linked && marks.thinking_level.is_some()),
        "message" => Match::yes_if(
            linked
                && marks.message.is_some_and(|message| {
                    message.timestamp.is_some() && matches!(&*message.role, "system" | "user" | "assistant" | "toolResult")
                }),
        ),
        _ => Match::No,
    }
}

#[cfg(test)]
mod tests {
    use super::{detect, part};
    use crate::agent::Match;
    use crate::history::Part;

    #[test]
    fn files_are_told_apart() {
        assert_eq!(part(&["--home-user--", "2026-11-15T18-02-26-133Z_0a1b.jsonl"]), Some(Part::Session("0a1b")));
        assert_eq!(part(&["--home-user--", "2026-11-15T18-02-26-133Z_my_id.jsonl"]), Some(Part::Session("my_id")));
        assert_eq!(part(&["--home-user--", "notes.jsonl"]), None);
        assert_eq!(part(&["2026_0a1b.jsonl"]), None);
    }

    #[test]
    fn the_log_is_told_from_what_is_printed() {
        assert_eq!(detect(r#"{"type":"session","version":3,"id":"a","timestamp":"t","cwd":"/home/user"}"#), Match::Maybe);
        assert_eq!(
            detect(r#"{"type":"model_change","id":"a","parentId":null,"timestamp":"t","provider":"p","modelId":"m"}"#),
            Match::Yes
        );
        let message = r#"{"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"user","content":"Hi","timestamp":1}}"#;
        assert_eq!(detect(message), Match::Yes);
        assert_eq!(
            detect(r#"{"type":"session","id":"a","timestamp":"t","cwd":"/","provider":"p","modelId":"m","thinkingLevel":"off"}"#),
            Match::Yes
        );
        let first = r#"{"type":"message","timestamp":"t","message":{"role":"user","content":[],"timestamp":1}}"#;
        assert_eq!(detect(first), Match::Yes);
        assert_eq!(detect(r#"{"type":"message_end","message":{"role":"user","content":"Hi","timestamp":1}}"#), Match::No);
        assert_eq!(detect(r#"{"type":"message","id":"b","timestamp":"t","message":{"role":"user","content":"Hi"}}"#), Match::No);
    }
}
