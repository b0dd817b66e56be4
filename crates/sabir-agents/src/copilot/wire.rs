//! The shapes of Copilot's lines, as far as they are read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::json::{self, Str, StringOr};

/// Any line. The `result` has its fields beside `type`, all others have them in `data`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) agent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Data<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) exit_code: Option<i32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Times>,
}

/// The durations in the `result`.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct Times {
    pub(super) session_duration_ms: Option<u64>,
    pub(super) total_api_duration_ms: Option<u64>,
}

/// What an event carries. Fields that different events use for different things stay raw.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data<'a> {
    #[serde(borrow)]
    pub(super) message_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) delta_content: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) parent_tool_call_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reasoning_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reasoning_text: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_requests: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) phase: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) partial_output: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) mcp_server_name: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) success: Option<bool>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) shell_execution: Option<ShellExecution>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) file_edits: Option<Vec<FileEdit<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) progress_message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_call_ids: Option<Vec<Str<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", alias = "newModel")]
    pub(super) selected_model: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) copilot_version: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) context: Option<Context<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) info_type: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) intent: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error_type: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error_message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error_reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) status_code: Option<u16>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) retry_attempt: Option<u32>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) aborted: Option<bool>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) summary: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) shutdown_type: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) permission_request: Option<PermissionRequest<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) cache_read_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) cache_write_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) reasoning_tokens: Option<u64>,
    /// The figures of a model call, in the log.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Box<Data<'a>>>,
}

/// How a command ended.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShellExecution {
    pub(super) exit_code: Option<i32>,
}

/// A file that a call changed.
#[derive(Deserialize)]
pub(super) struct FileEdit<'a> {
    #[serde(borrow)]
    pub(super) path: Str<'a>,
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
}

/// Where a session runs.
#[derive(Deserialize)]
pub(super) struct Context<'a> {
    #[serde(borrow)]
    pub(super) cwd: Option<Str<'a>>,
}

/// What the agent asks to do.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionRequest<'a> {
    #[serde(borrow)]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) intention: Option<Str<'a>>,
}

/// The answer to a permission question.
#[derive(Deserialize)]
pub(super) struct Decision<'a> {
    #[serde(borrow)]
    pub(super) kind: Str<'a>,
}

/// What a tool gave back.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    /// For people: of an edit, the diff.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) detailed_content: Option<Str<'a>>,
}

/// An error, as an object or as its message.
#[derive(Deserialize, Default)]
pub(super) struct Failure<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) code: Option<Str<'a>>,
}

impl<'a> Failure<'a> {
    /// Reads either form.
    pub(super) fn of(error: &'a RawValue) -> Option<Self> {
        Some(match json::parse::<StringOr<'_, Failure<'_>>>(error.get())? {
            StringOr::String(message) => Failure { message: Some(message), code: None },
            StringOr::Other(failure) => failure,
        })
    }
}

/// The words of an error message that providers wrap in JSON.
pub(super) fn plain_message(message: &str) -> Cow<'_, str> {
    let inside = json::parse::<StringOr<'_, Failure<'_>>>(message).and_then(|form| match form {
        StringOr::String(text) => Some(text),
        StringOr::Other(failure) => failure.message,
    });
    inside.map_or(Cow::Borrowed(message), Cow::from)
}
