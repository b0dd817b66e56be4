//! The shape of a session result in JSON. What the agent cannot know is `null`, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::event::{Cause, Change, ChangeSource, Detection, Outcome, Text, ToolKind, ToolStatus};
use crate::fold::tokens::{NativeUsage, TokensReport, TokensSource};
use crate::json::{self, RawJson};

/// Name and version of the shape.
const SCHEMA: &str = "sabir.result/1";

/// One run as one value.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionResult {
    /// `sabir.result/1`.
    pub schema: String,
    /// Id of the agent.
    pub agent: String,
    /// Its version.
    pub agent_version: Option<String>,
    /// How the agent was found in the stream; absent when it is certain, or was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
    /// The agent's own id of the session.
    pub session_id: Option<String>,
    /// The main model.
    pub model: Option<String>,
    /// The outcome in one of five words.
    pub status: Status,
    /// How the run ended.
    pub outcome: Outcome,
    /// Why, when it ended badly.
    pub cause: Option<Cause>,
    /// Exit code of the process.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// Why the model stopped last, in the agent's word.
    pub stop_reason: Option<String>,
    /// The answer.
    pub text: Option<String>,
    /// Tokens as the runtime itself counts them.
    pub usage: NativeUsage,
    /// Tokens in classes that mean the same for every agent.
    pub tokens: TokensReport,
    /// Tokens and cost by model.
    pub models: Vec<ModelUse>,
    /// What it cost.
    pub cost: Cost,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The part of it that was spent waiting for the model.
    pub api_duration_ms: Option<u64>,
    /// Number of turns.
    pub turns: Option<u32>,
    /// The turns of the main agent.
    pub turn_details: Vec<Turn>,
    /// The tool calls, those of sub-agents included.
    pub tool_calls: Vec<ToolCall>,
    /// The files it changed.
    pub file_changes: Vec<FileChange>,
    /// What failed.
    pub errors: Vec<Reported>,
    /// What this version could not read.
    pub unrecognized: Unrecognized,
}

impl Default for SessionResult {
    fn default() -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            agent: String::new(),
            agent_version: None,
            detection: None,
            session_id: None,
            model: None,
            status: Status::Incomplete,
            outcome: Outcome::Incomplete,
            cause: None,
            exit_code: None,
            signal: None,
            stop_reason: None,
            text: None,
            usage: NativeUsage::default(),
            tokens: TokensReport::new(&crate::fold::Tokens::default(), TokensSource::Unknown),
            models: Vec::new(),
            cost: Cost::default(),
            duration_ms: None,
            api_duration_ms: None,
            turns: None,
            turn_details: Vec::new(),
            tool_calls: Vec::new(),
            file_changes: Vec::new(),
            errors: Vec::new(),
            unrecognized: Unrecognized::default(),
        }
    }
}

impl SessionResult {
    /// Its JSON without the items of the long lists: what stands before those of `turnDetails`, of `toolCalls` and of
    /// `fileChanges`, and after those. Who has the items elsewhere puts them between.
    pub fn around_lists(self) -> serde_json::Result<[Vec<u8>; 4]> {
        // A quote in a text has a backslash before it, so nothing else reads like this.
        const LISTS: [&str; 3] = ["\"turnDetails\":[", "],\"toolCalls\":[", "],\"fileChanges\":["];
        let empty = Self { turn_details: Vec::new(), tool_calls: Vec::new(), file_changes: Vec::new(), ..self };
        let mut json = serde_json::to_vec(&empty)?;
        let [turns, calls, changes] = LISTS.map(|list| {
            let end = memchr::memmem::find(&json, list.as_bytes()).map_or(json.len(), |start| start + list.len());
            let rest = json.split_off(end);
            std::mem::replace(&mut json, rest)
        });
        Ok([turns, calls, changes, json])
    }
}

/// The outcome in one of five words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// The agent finished and said so.
    Success,
    /// It failed, refused, reached a limit or crashed.
    Error,
    /// Somebody stopped it.
    Cancelled,
    /// A time limit stopped it.
    Timeout,
    /// The stream ended with no sign that the agent was done.
    Incomplete,
}

impl Status {
    /// The word for an outcome.
    pub fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Success,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::TimedOut => Self::Timeout,
            Outcome::Incomplete => Self::Incomplete,
            Outcome::Failed | Outcome::Limited | Outcome::Refused | Outcome::Crashed | Outcome::StartFailed => Self::Error,
        }
    }
}

/// Tokens and cost of one model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelUse {
    /// The model, where it is known.
    pub model: Option<String>,
    /// Its tokens.
    pub tokens: TokensReport,
    /// Its cost, reported or computed.
    pub cost_usd: Option<f64>,
}

/// What a run cost, in US dollars.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The reported cost where there is one, else the computed one.
    pub total: Option<f64>,
    /// Uncached input.
    pub input: Option<f64>,
    /// Output.
    pub output: Option<f64>,
    /// Cache reads.
    pub cache_read: Option<f64>,
    /// Cache writes.
    pub cache_write: Option<f64>,
    /// Where `total` comes from.
    pub source: CostSource,
    /// What the agent says.
    pub reported_usd: Option<f64>,
    /// What the price table says.
    pub computed_usd: Option<f64>,
    /// Why there is no computed cost.
    pub reason: Option<String>,
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CostSource {
    /// The agent says so.
    Reported,
    /// Tokens times the price table.
    Computed,
    /// It cannot be known.
    #[default]
    Unknown,
}

/// One model round-trip of the main agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// 1-based.
    pub turn: u32,
    /// Its tokens as the runtime counts them.
    pub usage: NativeUsage,
    /// Ids of the calls that it made.
    pub tool_calls: Vec<String>,
    /// Why the model stopped, in the agent's word.
    pub stop_reason: Option<String>,
}

/// One tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What the tool does.
    pub kind: ToolKind,
    /// The arguments; a JSON string where they are not valid JSON.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub args: Option<RawJson>,
    /// What it gave back, at most its first 64 KiB.
    #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub result: Option<Text<'static>>,
    /// The true size of what it gave back.
    pub result_bytes: Option<u64>,
    /// How it ended.
    pub status: ToolStatus,
    /// Exit code of a command.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The call that started the sub-agent which made this one.
    pub parent_id: Option<String>,
}

/// A text that is kept as JSON is written as that, and not unescaped and escaped again.
#[allow(clippy::ref_option, reason = "what serde gives")]
fn write_text<S: Serializer>(text: &Option<Text<'static>>, serializer: S) -> Result<S::Ok, S::Error> {
    match text.as_ref().and_then(Text::as_json) {
        Some(json) => json::write_raw(json, serializer),
        None => text.as_deref().serialize(serializer),
    }
}

fn read_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text<'static>>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Text::from))
}

impl Default for ToolCall {
    fn default() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            kind: ToolKind::Other,
            args: None,
            result: None,
            result_bytes: None,
            status: ToolStatus::Unfinished,
            exit_code: None,
            duration_ms: None,
            parent_id: None,
        }
    }
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// The path as the agent gives it.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// The old path of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Lines added.
    pub added: Option<u64>,
    /// Lines removed.
    pub removed: Option<u64>,
    /// The call that changed it.
    pub tool_call_id: Option<String>,
    /// How we know.
    pub source: ChangeSource,
}

/// One error that the agent reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reported {
    /// What it says.
    pub message: String,
    /// What kind of failure it is.
    pub class: Option<Cause>,
}

/// What this version could not read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Unrecognized {
    /// How many lines.
    pub lines: u64,
    /// How many of each type.
    pub types: BTreeMap<String, u64>,
}
