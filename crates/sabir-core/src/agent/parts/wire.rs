//! The shapes that both streams share, as far as they are read.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use crate::event::{Plan, PlanItem, PlanStatus, Text, Usage, UsageScope};
use crate::history::Spent;
use crate::json::{self, Str, Unread};
use crate::time::Timestamp;

/// A part of a message.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct Part<'a> {
    pub(in crate::agent) r#type: Str<'a>,
    pub(in crate::agent) id: Option<Str<'a>>,
    #[serde(rename = "messageID")]
    pub(in crate::agent) message_id: Option<Str<'a>>,
    #[serde(rename = "sessionID")]
    pub(in crate::agent) session_id: Option<Str<'a>>,
    pub(in crate::agent) text: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) time: Option<Span>,
    pub(in crate::agent) tool: Option<Str<'a>>,
    #[serde(rename = "callID")]
    pub(in crate::agent) call_id: Option<Str<'a>>,
    pub(in crate::agent) state: Option<ToolState<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) tokens: Option<Tokens>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) cost: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) files: Option<Vec<Str<'a>>>,
}

/// When something began and ended, in milliseconds since 1970.
#[derive(Deserialize, Clone, Copy, Default)]
pub(in crate::agent) struct Span {
    start: Option<i64>,
    end: Option<i64>,
}

impl Span {
    pub(in crate::agent) fn start(self) -> Option<Timestamp> {
        self.start.and_then(Timestamp::from_millis)
    }

    pub(in crate::agent) fn end(self) -> Option<Timestamp> {
        self.end.and_then(Timestamp::from_millis)
    }
}

/// How far a tool call is.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct ToolState<'a> {
    pub(in crate::agent) status: Str<'a>,
    pub(in crate::agent) input: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) output: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) error: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) title: Option<Str<'a>>,
    pub(in crate::agent) metadata: Option<Unread<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) time: Option<Span>,
}

/// What tools say beside their output; each tool has its own fields.
#[derive(Deserialize, Default)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct Metadata<'a> {
    #[serde(default)]
    pub(in crate::agent) exit: Exit,
    /// The output so far, of a command that runs.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) output: Option<Text<'a>>,
    /// The session of a sub-agent.
    #[serde(default, deserialize_with = "json::lenient", rename = "sessionId")]
    pub(in crate::agent) session_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) todos: Option<Vec<Todo<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) filepath: Option<Str<'a>>,
    /// Whether the file was there before it was written.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) exists: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) filediff: Option<FileDiff<'a>>,
    /// Of several edits of one call.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) results: Option<Vec<Edited<'a>>>,
    /// Of a patch.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) files: Option<Vec<FileDiff<'a>>>,
}

/// One of several edits.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct Edited<'a> {
    pub(in crate::agent) filediff: Option<FileDiff<'a>>,
}

/// A change of a file.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct FileDiff<'a> {
    #[serde(alias = "filePath")]
    pub(in crate::agent) file: Str<'a>,
    #[serde(alias = "diff")]
    pub(in crate::agent) patch: Option<Str<'a>>,
    pub(in crate::agent) additions: Option<u64>,
    pub(in crate::agent) deletions: Option<u64>,
    pub(in crate::agent) r#type: Option<Str<'a>>,
    #[serde(rename = "movePath")]
    pub(in crate::agent) move_path: Option<Str<'a>>,
}

/// The exit code of a command: other tools have none, and a command that was stopped has `null`.
#[derive(Default, Clone, Copy)]
pub(in crate::agent) enum Exit {
    #[default]
    Absent,
    Stopped,
    Code(i32),
}

impl<'de> Deserialize<'de> for Exit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code: Option<i32> = json::lenient(deserializer)?;
        Ok(code.map_or(Self::Stopped, Self::Code))
    }
}

/// A step of the agent's plan.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct Todo<'a> {
    content: Str<'a>,
    status: Option<Str<'a>>,
}

/// The plan as an event.
pub(in crate::agent) fn plan<'a>(todos: Vec<Todo<'a>>) -> Plan<'a> {
    let item = |todo: Todo<'a>| {
        let status = match todo.status.as_deref() {
            Some("in_progress") => PlanStatus::InProgress,
            Some("completed") => PlanStatus::Completed,
            Some("cancelled") => PlanStatus::Cancelled,
            _ => PlanStatus::Pending,
        };
        PlanItem { text: todo.content.0, status }
    };
    Plan::new(todos.into_iter().map(item).collect())
}

/// Tokens of one step: cached ones are beside `input`, reasoning is beside `output`.
#[derive(Deserialize, Clone, Copy)]
pub(in crate::agent) struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
    cache: Option<Cache>,
}

#[derive(Deserialize, Clone, Copy, Default)]
struct Cache {
    read: Option<u64>,
    write: Option<u64>,
}

impl From<Tokens> for Spent {
    fn from(tokens: Tokens) -> Self {
        let (cache, reasoning) = (tokens.cache.unwrap_or_default(), tokens.reasoning.unwrap_or(0));
        Self {
            input: tokens.input.unwrap_or(0),
            cache_read: cache.read.unwrap_or(0),
            cache_write: cache.write.unwrap_or(0),
            output: tokens.output.unwrap_or(0).saturating_add(reasoning),
            cache_write_1h: 0,
            reasoning,
        }
    }
}

impl Tokens {
    /// The event; `None` when there are no figures, which are written as zeros.
    pub(in crate::agent) fn event(self, cost: Option<f64>, model: Option<Cow<'_, str>>) -> Option<Usage<'_>> {
        let cache = self.cache.unwrap_or_default();
        let classes = [self.input, self.output, self.reasoning, cache.read, cache.write];
        if classes.into_iter().flatten().all(|count| count == 0) {
            return None;
        }
        Some(
            Usage::new(UsageScope::Message)
                .input_tokens(self.input)
                .output_tokens(self.output.map(|output| output.saturating_add(self.reasoning.unwrap_or(0))))
                .cache_read_tokens(cache.read)
                .cache_write_tokens(cache.write)
                .reasoning_tokens(self.reasoning)
                // A model without a price costs 0 in the agent's book; that is not knowing, not free.
                .cost_usd(cost.filter(|cost| *cost > 0.0))
                .model(model),
        )
    }
}

/// An error by name.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(in crate::agent) struct Failure<'a> {
    pub(in crate::agent) name: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) data: Option<FailureData<'a>>,
}

/// What is known of an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(in crate::agent) struct FailureData<'a> {
    pub(in crate::agent) message: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(in crate::agent) status_code: Option<u16>,
}
