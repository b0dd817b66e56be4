//! Perstack's own shapes. Every number and id here is one that its schema requires.

use serde::Serialize;

use sabir_core::event::{Cause, Outcome};
use sabir_core::fold::Tokens;
use sabir_core::json::RawJson;

/// Five figures that must be numbers. `inputTokens` is all input, of which `cachedInputTokens` was read from a cache, so
/// that input and output sum to the total.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names are the schema's")]
pub(super) struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    total_tokens: u64,
    cached_input_tokens: u64,
}

impl From<&Tokens> for Usage {
    fn from(tokens: &Tokens) -> Self {
        let input = [tokens.uncached_input, tokens.cache_read, tokens.cache_write];
        Self {
            input_tokens: input.into_iter().flatten().fold(0, u64::saturating_add),
            output_tokens: tokens.output.unwrap_or(0),
            reasoning_tokens: tokens.reasoning.unwrap_or(0),
            total_tokens: tokens.total().unwrap_or(0),
            cached_input_tokens: tokens.cache_read.unwrap_or(0),
        }
    }
}

/// A piece of a message.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub(super) enum Part {
    #[serde(rename = "textPart")]
    Text { id: String, text: String },
    #[serde(rename = "thinkingPart")]
    Thinking { id: String, thinking: String },
    #[serde(rename = "toolCallPart")]
    ToolCall { id: String, tool_call_id: String, tool_name: String, args: RawJson },
    #[serde(rename = "toolResultPart")]
    ToolResult {
        id: String,
        tool_call_id: String,
        tool_name: String,
        contents: Vec<Part>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
}

impl Part {
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Text { text, .. } => text.trim().is_empty(),
            Self::Thinking { thinking, .. } => thinking.trim().is_empty(),
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) r#type: &'static str,
    pub(super) contents: Vec<Part>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) skill_name: String,
    pub(super) tool_name: String,
    pub(super) args: RawJson,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) skill_name: String,
    pub(super) tool_name: String,
    pub(super) result: Vec<Part>,
    /// Not in the schema, which passes it over; without it a failed call would read as a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_error: Option<bool>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Expert {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) version: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checkpoint<'a> {
    pub(super) id: String,
    pub(super) job_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) status: &'static str,
    pub(super) step_number: u64,
    pub(super) messages: &'a [Message],
    pub(super) expert: &'a Expert,
    pub(super) usage: Usage,
    pub(super) metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a Failure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime: Option<&'a str>,
    pub(super) external_execution: bool,
    /// The agent, also when it is none of the runtimes that the schema knows.
    pub(super) agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    /// False when the zeros of `usage` only stand for "not reported".
    pub(super) usage_known: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step<'a> {
    #[serde(rename = "stepNumber")]
    pub(super) number: u64,
    pub(super) new_messages: &'a [Message],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) tool_calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) tool_results: &'a [ToolResult],
    pub(super) usage: Usage,
    pub(super) started_at: i64,
    pub(super) finished_at: i64,
}

/// Why a run stopped.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    pub(super) name: &'static str,
    pub(super) message: String,
    pub(super) is_retryable: bool,
}

impl Failure {
    pub(super) fn new(outcome: Outcome, cause: Option<Cause>, message: Option<String>) -> Self {
        let name = cause.filter(|cause| *cause != Cause::Unknown).map_or(outcome.as_str(), Cause::as_str);
        let is_retryable = matches!(cause, Some(Cause::RateLimited | Cause::Overloaded | Cause::Network | Cause::Timeout));
        Self { name, message: message.unwrap_or_else(|| format!("the run ended: {outcome}")), is_retryable }
    }
}

/// What the runtime says of itself before the run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeRuntime<'a> {
    pub(super) r#type: &'static str,
    pub(super) id: String,
    pub(super) timestamp: i64,
    pub(super) job_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) runtime_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime: Option<&'a str>,
    pub(super) expert_name: &'a str,
    pub(super) experts: [&'a str; 0],
    pub(super) model: String,
    pub(super) max_retries: u32,
    pub(super) timeout: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<&'a str>,
}

/// Any event of the run: the head that all have, and the fields of its type.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunEvent<'a> {
    pub(super) r#type: &'static str,
    pub(super) id: String,
    pub(super) expert_key: &'a str,
    pub(super) timestamp: i64,
    pub(super) job_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) step_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initial_checkpoint: Option<Checkpoint<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_messages: Option<&'a [Message]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new_message: Option<&'a Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<&'a [ToolCall]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_results: Option<&'a [ToolResult]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<Checkpoint<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<Step<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
}
