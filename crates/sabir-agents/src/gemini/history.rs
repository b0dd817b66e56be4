//! The log that Gemini CLI keeps: `tmp/<folder>/chats/session-<minute>-<id>.jsonl`, a file for each sub-agent in
//! `chats/<session>/`. Older versions wrote the same as one object, `session-….json`.
//!
//! What lies in wait here: a message is written again with every tool call that it gets, and the last copy counts; the
//! whole conversation is written again (`$set`) when a session goes on or is cut back, without its figures; what was
//! taken back was paid for all the same; a request that failed leaves nothing.

mod note;
mod whole;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::event::Text;
use sabir_core::history::{FileRole, LogRoot, LogSpec, Spent, stem};
use sabir_core::json::{self, Str, StringOr};
use whole::{Call, Thought};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new(
        // The variable names a home folder, not the agent's.
        [LogRoot::relocatable("GEMINI_CLI_HOME", "", ".gemini/tmp")],
        dialect(),
        part,
        note::note,
    )
    .filter(1, "chats")
    .array_field("messages")
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a session in `chats/`", detect, whole::Log::default)
}

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    match *path {
        [_, "chats", name] => {
            let name = stem(name, ".jsonl").or_else(|| stem(name, ".json"))?;
            // The minute is as long in every name: `2026-11-15T18-02`. Of the id there is only the beginning.
            let id = name.strip_prefix("session-")?.get("2026-11-15T18-02-".len()..)?;
            Some(id).filter(|id| !id.is_empty()).map(FileRole::Session)
        }
        [_, "chats", session, name] => stem(name, ".jsonl").map(|_| FileRole::Child(session)),
        _ => None,
    }
}

/// A line of the log: the head, a message, or a change of what was written before. A message in a list is the same.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    kind: Option<Str<'a>>,
    #[serde(borrow, default)]
    start_time: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    directories: Option<Vec<Str<'a>>>,
    /// All messages, in the file of an older version.
    #[serde(borrow, default)]
    messages: Option<Vec<Entry<'a>>>,
    #[serde(borrow, default, rename = "$set")]
    set: Option<Set<'a>>,
    #[serde(borrow, default, rename = "$rewindTo")]
    rewind_to: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    r#type: Option<Str<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    content: Option<Content<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    thoughts: Option<Vec<Thought<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    tokens: Option<Tokens>,
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    tool_calls: Option<Vec<Call<'a>>>,
}

/// What a message says: a string or a list of parts.
type Content<'a> = StringOr<'a, Vec<Piece<'a>>>;

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    thought: Option<bool>,
}

#[derive(Deserialize)]
struct Set<'a> {
    #[serde(borrow, default)]
    messages: Option<Vec<Entry<'a>>>,
}

/// Counters of a response. Its input contains what was cached; thoughts and the prompts of tools that the provider runs
/// are beside the others.
#[derive(Deserialize, Clone, Copy, Default)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    tool: Option<u64>,
}

impl Tokens {
    fn spent(self) -> Spent {
        let (cached, thoughts) = (self.cached.unwrap_or(0), self.thoughts.unwrap_or(0));
        Spent {
            input: self.input.unwrap_or(0).saturating_sub(cached).saturating_add(self.tool.unwrap_or(0)),
            cache_read: cached,
            output: self.output.unwrap_or(0).saturating_add(thoughts),
            reasoning: thoughts,
            ..Spent::default()
        }
    }
}

/// The text of a message.
fn text_of(content: Option<Content<'_>>) -> String {
    match content {
        Some(StringOr::String(text)) => text.0.into_owned(),
        Some(StringOr::Other(pieces)) => {
            let said = pieces.into_iter().filter(|piece| piece.thought != Some(true));
            said.filter_map(|piece| piece.text).map(Text::into_string).collect()
        }
        None => String::new(),
    }
}

/// Prompts that nobody typed: what the CLI tells the model by itself. Results of tools have no text at all.
fn is_furniture(prompt: &str) -> bool {
    const STARTS: &[&str] = &["<session_context>", "<hook_context>", "System: "];
    let prompt = prompt.trim_start();
    prompt.is_empty() || STARTS.iter().any(|start| prompt.starts_with(start))
}

/// The first working folder that the CLI tells the model.
fn folder_in(prompt: &str) -> Option<&str> {
    let (_, rest) = prompt.split_once("<session_context>")?.1.split_once("Workspace Directories:**\n")?;
    rest.lines().next()?.trim_start().strip_prefix("- ")
}

/// Heads and changes have shapes of their own; messages have no session and no role.
fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marks<'a> {
        #[serde(default)]
        session_id: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        project_hash: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        start_time: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        last_updated: Option<serde::de::IgnoredAny>,
        #[serde(borrow, default)]
        r#type: Option<Str<'a>>,
        #[serde(default)]
        id: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        thoughts: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        tokens: Option<serde::de::IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let marks = Some(line).filter(|line| line.starts_with('{')).and_then(json::parse::<Marks<'_>>);
    let Some(marks) = marks else { return Confidence::None };
    let head = marks.session_id.is_some() && marks.project_hash.is_some();
    let spoken = marks.r#type.as_deref() == Some("gemini") && marks.id.is_some();
    Confidence::certain_if(
        head && (marks.start_time.is_some() || marks.last_updated.is_some())
            || spoken && (marks.tokens.is_some() || marks.thoughts.is_some()),
    )
}

#[cfg(test)]
mod tests {
    use super::{detect, folder_in, part};
    use sabir_core::agent::Confidence;
    use sabir_core::history::FileRole;

    #[test]
    fn files_are_told_apart() {
        assert_eq!(part(&["work", "chats", "session-2026-11-15T18-02-0a1b2c3d.jsonl"]), Some(FileRole::Session("0a1b2c3d")));
        assert_eq!(part(&["work", "chats", "session-2025-09-01T10-00-0a1b2c3d.json"]), Some(FileRole::Session("0a1b2c3d")));
        assert_eq!(part(&["work", "chats", "0a1b2c3d-77", "55.jsonl"]), Some(FileRole::Child("0a1b2c3d-77")));
        assert_eq!(part(&["work", "logs.json"]), None);
        assert_eq!(part(&["work", "chats", "session-é026-11-15T18-02.jsonl"]), None);
        assert_eq!(part(&["work", "tool-outputs", "session-1", "a.txt"]), None);
    }

    #[test]
    fn the_log_is_told_from_what_is_printed() {
        assert_eq!(
            detect(r#"{"sessionId":"s","projectHash":"h","startTime":"t","lastUpdated":"t","kind":"main"}"#),
            Confidence::Certain
        );
        assert_eq!(
            detect(r#"{"id":"m","timestamp":"t","type":"gemini","content":"","thoughts":[],"tokens":null}"#),
            Confidence::Certain
        );
        assert_eq!(detect(r#"{"type":"init","timestamp":"t","session_id":"s","model":"gemini-2.5-pro"}"#), Confidence::None);
        assert_eq!(detect(r#"{"type":"message","timestamp":"t","role":"assistant","content":"a"}"#), Confidence::None);
    }

    #[test]
    fn the_folder_is_in_what_the_model_is_told() {
        let told =
            "<session_context>\nToday.\n- **Workspace Directories:**\n  - /home/user/work\n- **More:**\n</session_context>";
        assert_eq!(folder_in(told), Some("/home/user/work"));
        assert_eq!(folder_in("What is in Workspace Directories:**\n  - /x"), None);
    }
}
