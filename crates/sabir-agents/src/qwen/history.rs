//! The log that Qwen Code keeps: `projects/<folder>/chats/<session>.jsonl`.
//!
//! What lies in wait here: a response is told twice, in the message of the model and in a line of telemetry. The latter
//! comes first and covers more (sub-agents, its own memory, and what else no message shows), so it is the one that
//! counts, and messages count only in a log that has none of it. What sub-agents say is in files of their own
//! (`subagents/`), which are not read: what they spend is in the session's log.

mod decode;
mod note;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::history::{FileRole, LogRoot, LogSpec, Spent, stem};
use sabir_core::json::{self, Str};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new(
        [LogRoot::relocatable("QWEN_HOME", ".qwen", "projects"), LogRoot::relocatable("QWEN_RUNTIME_DIR", ".qwen", "projects")],
        dialect(),
        part,
        note::note,
    )
    .filter(1, "chats")
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a session in `chats/`", detect, decode::LogDialect::default)
}

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    match *path {
        [_, "chats", name] => stem(name, ".jsonl").map(FileRole::Session),
        _ => None,
    }
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Entry<'a> {
    r#type: Str<'a>,
    subtype: Option<Str<'a>>,
    uuid: Option<Str<'a>>,
    session_id: Option<Str<'a>>,
    timestamp: Option<Str<'a>>,
    cwd: Option<Str<'a>>,
    version: Option<Str<'a>>,
    provenance: Option<Str<'a>>,
    model: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage_metadata: Option<Usage>,
    tool_call_result: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    system_payload: Option<Payload<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Message<'a> {
    #[serde(default)]
    parts: Vec<Piece<'a>>,
}

/// A piece of a message, in the shape of Gemini's API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Piece<'a> {
    text: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    thought: Option<bool>,
    function_call: Option<Call<'a>>,
    function_response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Call<'a> {
    id: Option<Str<'a>>,
    name: Option<Str<'a>>,
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Payload<'a> {
    #[serde(default, deserialize_with = "json::lenient")]
    ui_event: Option<Telemetry<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    display_text: Option<Str<'a>>,
}

/// A line of telemetry.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Telemetry<'a> {
    #[serde(rename = "event.name")]
    name: Str<'a>,
    #[serde(rename = "event.timestamp")]
    at: Option<Str<'a>>,
    response_id: Option<Str<'a>>,
    model: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    status_code: Option<u16>,
    #[serde(default, deserialize_with = "json::lenient")]
    duration_ms: Option<u64>,
    input_token_count: Option<u64>,
    output_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    error_message: Option<Str<'a>>,
    subagent_id: Option<Str<'a>>,
    prompt_id: Option<Str<'a>>,
    call_id: Option<Str<'a>>,
    function_name: Option<Str<'a>>,
    function_args: Option<&'a RawValue>,
    status: Option<Str<'a>>,
}

/// What a line of telemetry is about.
#[derive(PartialEq)]
enum Topic {
    Response,
    Error,
    Call,
    Other,
}

impl Telemetry<'_> {
    fn topic(&self) -> Topic {
        match self.name.rsplit('.').next() {
            Some("api_response") => Topic::Response,
            Some("api_error") => Topic::Error,
            Some("tool_call") => Topic::Call,
            _ => Topic::Other,
        }
    }

    /// The sub-agent that it is of. A call names it only in the id of its prompt: `<session>#<sub-agent>#<number>`, where the
    /// main agent's have nothing between the marks.
    fn subagent(&self) -> Option<&str> {
        let of_prompt = || self.prompt_id.as_deref()?.rsplit_once('#')?.0.rsplit_once('#').map(|(_, agent)| agent);
        self.subagent_id.as_deref().or_else(of_prompt).filter(|agent| !agent.is_empty())
    }

    fn spent(&self) -> Spent {
        let (cached, thoughts) = (self.cached_content_token_count, self.thoughts_token_count);
        spent(self.input_token_count, self.output_token_count, cached, thoughts)
    }
}

/// `usageMetadata` of a message.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct Usage {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl Usage {
    fn spent(self) -> Spent {
        let (cached, thoughts) = (self.cached_content_token_count, self.thoughts_token_count);
        spent(self.prompt_token_count, self.candidates_token_count, cached, thoughts)
    }
}

/// Its input contains what was cached, and its output contains thoughts.
fn spent(input: Option<u64>, output: Option<u64>, cached: Option<u64>, thoughts: Option<u64>) -> Spent {
    let cached = cached.unwrap_or(0);
    Spent {
        input: input.unwrap_or(0).saturating_sub(cached),
        cache_read: cached,
        output: output.unwrap_or(0),
        reasoning: thoughts.unwrap_or(0),
        ..Spent::default()
    }
}

/// Whether a user has typed it. Older versions do not say who speaks.
fn is_typed(entry: &Entry<'_>) -> bool {
    let asked = entry.subtype.as_deref().is_none_or(|subtype| subtype == "mid_turn_user_message");
    asked && entry.provenance.as_deref().is_none_or(|who| who == "real_user")
}

/// Lines link to the line before them, and messages have parts, where a cousin's have content.
fn detect(line: &str) -> Confidence {
    use serde::de::IgnoredAny;
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marks {
        uuid: Option<IgnoredAny>,
        session_id: Option<IgnoredAny>,
        timestamp: Option<IgnoredAny>,
        system_payload: Option<IgnoredAny>,
        is_sidechain: Option<IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        message: Option<Parts>,
    }
    #[derive(Deserialize)]
    struct Parts {
        parts: Option<IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let line = Some(line).filter(|line| line.starts_with('{'));
    let Some((line, marks)) = line.and_then(|line| Some((line, json::parse::<Marks>(line)?))) else { return Confidence::None };
    let linked = marks.uuid.is_some() && marks.session_id.is_some() && marks.timestamp.is_some();
    let linked = linked && marks.is_sidechain.is_none() && line.contains("\"parentUuid\":");
    let parts = marks.message.is_some_and(|message| message.parts.is_some());
    Confidence::certain_if(linked && (parts || marks.system_payload.is_some()))
}

#[cfg(test)]
mod tests {
    use super::{detect, part};
    use sabir_core::agent::Confidence;
    use sabir_core::history::FileRole;

    #[test]
    fn files_are_told_apart() {
        assert_eq!(part(&["-home-user", "chats", "0a1b.jsonl"]), Some(FileRole::Session("0a1b")));
        assert_eq!(part(&["-home-user", "subagents", "0a1b", "agent-1.jsonl"]), None);
        assert_eq!(part(&["-home-user", "chats", "0a1b.json"]), None);
    }

    #[test]
    fn the_log_is_told_from_what_is_printed() {
        let head = r#""uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"t""#;
        assert_eq!(detect(&format!(r#"{{{head},"type":"user","message":{{"role":"user","parts":[]}}}}"#)), Confidence::Certain);
        assert_eq!(detect(&format!(r#"{{{head},"type":"system","subtype":"x","systemPayload":{{}}}}"#)), Confidence::Certain);
        let cousin = format!(r#"{{{head},"isSidechain":false,"type":"user","message":{{"role":"user","content":"a"}}}}"#);
        assert_eq!(detect(&cousin), Confidence::None);
        assert_eq!(detect(r#"{"type":"assistant","uuid":"u","session_id":"s","message":{"content":[]}}"#), Confidence::None);
    }
}
