//! Wire structs that the formats of the family share.

use std::borrow::Cow;

use sabir_core::event::{Plan, PlanItem, PlanStatus, Text, Usage, UsageScope};
use sabir_core::history::Spent;
use sabir_core::json::{self, Str, Unread};
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

/// A part of a message.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct Part<'a> {
    pub(crate) r#type: Str<'a>,
    pub(crate) id: Option<Str<'a>>,
    #[serde(rename = "messageID")]
    pub(crate) message_id: Option<Str<'a>>,
    #[serde(rename = "sessionID")]
    pub(crate) session_id: Option<Str<'a>>,
    pub(crate) text: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) time: Option<Span>,
    pub(crate) tool: Option<Str<'a>>,
    #[serde(rename = "callID")]
    pub(crate) call_id: Option<Str<'a>>,
    pub(crate) state: Option<ToolState<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) tokens: Option<Tokens>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) cost: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) files: Option<Vec<Str<'a>>>,
}

/// Start and end of an item, in milliseconds since 1970.
#[derive(Deserialize, Clone, Copy, Default)]
pub(crate) struct Span {
    start: Option<i64>,
    end: Option<i64>,
}

impl Span {
    pub(crate) fn start(self) -> Option<Timestamp> {
        self.start.and_then(Timestamp::from_millis)
    }

    pub(crate) fn end(self) -> Option<Timestamp> {
        self.end.and_then(Timestamp::from_millis)
    }
}

/// State of a tool call.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct ToolState<'a> {
    pub(crate) status: Str<'a>,
    pub(crate) input: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) output: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) error: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) title: Option<Str<'a>>,
    pub(crate) metadata: Option<Unread<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) time: Option<Span>,
}

/// Metadata of a tool call, with different fields per tool.
#[derive(Deserialize, Default)]
#[serde(bound = "'de: 'a")]
pub(crate) struct Metadata<'a> {
    #[serde(default)]
    pub(crate) exit: Exit,
    /// Partial output of a running command.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) output: Option<Text<'a>>,
    /// Session id of a sub-agent.
    #[serde(borrow, default, deserialize_with = "json::lenient", rename = "sessionId")]
    pub(crate) session_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) todos: Option<Vec<Todo<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) filepath: Option<Str<'a>>,
    /// Whether the file existed before the write.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) exists: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) filediff: Option<FileDiff<'a>>,
    /// Results of several edits in one call.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) results: Option<Vec<Edited<'a>>>,
    /// Files of a patch.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) files: Option<Vec<FileDiff<'a>>>,
}

/// One of several edits.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct Edited<'a> {
    pub(crate) filediff: Option<FileDiff<'a>>,
}

/// A file change.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct FileDiff<'a> {
    #[serde(alias = "filePath")]
    pub(crate) file: Str<'a>,
    #[serde(alias = "diff")]
    pub(crate) patch: Option<Str<'a>>,
    pub(crate) additions: Option<u64>,
    pub(crate) deletions: Option<u64>,
    pub(crate) r#type: Option<Str<'a>>,
    #[serde(rename = "movePath")]
    pub(crate) move_path: Option<Str<'a>>,
}

/// Exit code of a command: absent for other tools, `null` for a command that was stopped.
#[derive(Default, Clone, Copy)]
pub(crate) enum Exit {
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

/// An item of the plan.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct Todo<'a> {
    content: Str<'a>,
    status: Option<Str<'a>>,
}

/// Converts a to-do list to an event.
pub(crate) fn plan<'a>(todos: Vec<Todo<'a>>) -> Plan<'a> {
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

/// Token usage of one step. `input` excludes cached tokens, and `output` excludes reasoning.
#[derive(Deserialize, Clone, Copy)]
pub(crate) struct Tokens {
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
    /// Converts the counts to an event; `None` if all of them are zero, which stands for "unknown".
    pub(crate) fn event(self, cost: Option<f64>, model: Option<Cow<'_, str>>) -> Option<Usage<'_>> {
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
                // The agent writes 0 for a model whose price it does not know.
                .cost_usd(cost.filter(|cost| *cost > 0.0))
                .model(model),
        )
    }
}

/// A named error.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(crate) struct Failure<'a> {
    pub(crate) name: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) data: Option<FailureData<'a>>,
}

/// Details of an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(crate) struct FailureData<'a> {
    pub(crate) message: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) status_code: Option<u16>,
}
