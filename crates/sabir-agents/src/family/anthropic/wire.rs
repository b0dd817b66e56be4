//! Wire structs of stream-json.
//!
//! Frequent lines are one small struct with large or rare fields in boxes. `system` and `result` lines are rare and parsed a
//! second time for the fields that only they have.

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::event::Text;
use sabir_core::json::{self, Str, StringOr, TextOr, Unread};

/// Any line.
#[doc(hidden)]
#[derive(Deserialize)]
pub struct Message<'a> {
    #[serde(borrow)]
    pub(crate) r#type: Str<'a>,
    #[serde(borrow, default)]
    pub(crate) subtype: Option<Str<'a>>,
    /// A string in some `system` lines.
    #[serde(borrow, default)]
    pub(crate) message: Option<StringOr<'a, Box<ApiMessage<'a>>>>,
    #[serde(borrow, default)]
    pub(crate) event: Option<StreamEvent<'a>>,
    /// Id of the message of a `stream_event`, in newer versions.
    #[serde(borrow, default)]
    pub(crate) api_message_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) parent_tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) timestamp: Option<Str<'a>>,
    #[serde(borrow, default, alias = "requestId", deserialize_with = "json::lenient")]
    pub(crate) request_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) uuid: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::fitting")]
    pub(crate) tool_use_result: Option<Structured<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_result_meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) abandoned_blocks: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) is_api_error_message: bool,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) api_error_status: Option<u16>,
}

/// A message of the Messages API, or some of its content blocks.
#[derive(Deserialize)]
pub(crate) struct ApiMessage<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Option<StringOr<'a, Vec<Block<'a>>>>,
    #[serde(borrow, default)]
    pub(crate) stop_reason: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) usage: Option<Usage>,
}

/// A content block of any type.
#[derive(Deserialize)]
pub(crate) struct Block<'a> {
    #[serde(borrow, default)]
    pub(crate) r#type: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Option<Str<'a>>,
    /// Boxed because only results have it: `Vec` allocates space for four blocks at first, and the smaller they are, the
    /// faster that is.
    #[serde(borrow, default)]
    pub(crate) content: Option<Box<TextOr<'a>>>,
    #[serde(default)]
    pub(crate) is_error: Option<bool>,
}

/// A part of a tool result: a text or a search hit.
#[derive(Deserialize)]
pub(crate) struct Part<'a> {
    #[serde(borrow, default)]
    pub(crate) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) title: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) url: Option<Str<'a>>,
}

/// Token usage of one response or result.
#[derive(Debug, Deserialize, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) input_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) cache_read_input_tokens: Option<u64>,
    pub(crate) cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) cache_creation: Option<CacheCreation>,
    #[serde(default)]
    pub(crate) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize, Clone, Copy)]
pub(crate) struct CacheCreation {
    pub(crate) ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Debug, Deserialize, Clone, Copy)]
pub(crate) struct OutputDetails {
    pub(crate) thinking_tokens: Option<u64>,
}

/// Event of the streaming Messages API in a `stream_event` line.
#[derive(Deserialize)]
pub(crate) struct StreamEvent<'a> {
    #[serde(borrow)]
    pub(crate) r#type: Str<'a>,
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(crate) content_block: Option<Box<Block<'a>>>,
    #[serde(borrow, default)]
    pub(crate) message: Option<Box<ApiMessage<'a>>>,
    #[serde(default)]
    pub(crate) usage: Option<Box<Usage>>,
}

#[derive(Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) stop_reason: Option<Str<'a>>,
}

/// A `system` line of subtype `init`.
#[derive(Deserialize)]
pub(crate) struct Init<'a> {
    #[serde(borrow, default)]
    pub(crate) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) cwd: Option<Str<'a>>,
    #[serde(borrow, default, alias = "claude_code_version", alias = "qwen_code_version")]
    pub(crate) agent_version: Option<Str<'a>>,
    #[serde(borrow, default, alias = "permissionMode")]
    pub(crate) permission_mode: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) tools: Option<Vec<Str<'a>>>,
}

/// The details of a `system` line: its own fields, or those of [`SystemLine::data`].
#[derive(Deserialize, Default)]
pub(crate) struct System<'a> {
    /// Tasks that run in the background.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) tasks: Option<Vec<serde::de::IgnoredAny>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) attempt: Option<u32>,
    #[serde(default, alias = "maxRetries", deserialize_with = "json::lenient")]
    pub(crate) max_retries: Option<u32>,
    #[serde(default, alias = "delayMs", deserialize_with = "json::lenient")]
    pub(crate) retry_delay_ms: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) error_status: Option<u16>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) error: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) task_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) tool_name: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) content: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) description: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) summary: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) status: Option<Str<'a>>,
}

impl System<'_> {
    /// Delay before a retry. It may be fractional.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn delay_ms(&self) -> Option<u64> {
        // A float cast saturates, so nonsense stays in range.
        self.retry_delay_ms.map(|millis| millis.max(0.0) as u64)
    }
}

/// A `system` line that has its details in an object.
#[derive(Deserialize)]
pub(crate) struct SystemLine<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) data: Option<System<'a>>,
}

/// A `result` line, without the fields of a single agent.
#[derive(Deserialize)]
pub(crate) struct ResultLine<'a> {
    #[serde(borrow, default)]
    pub(crate) subtype: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(crate) result: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) stop_reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) duration_api_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(crate) usage: Option<Usage>,
}

/// Structured result of a tool call, beside the text for the model. It is large, and only a few fields of some tools are
/// needed: these are located while the rest is skipped, and parsed on demand.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Structured<'a> {
    /// Id of the sub-agent that was started.
    #[serde(borrow, default)]
    pub(crate) agent_id: Option<Unread<'a>>,
    /// Kind of the file change.
    #[serde(borrow, default)]
    pub(crate) r#type: Option<Unread<'a>>,
    #[serde(borrow, default)]
    pub(crate) file_path: Option<Unread<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Option<Unread<'a>>,
    #[serde(borrow, default)]
    pub(crate) structured_patch: Option<Unread<'a>>,
}

impl<'a> Structured<'a> {
    /// Parses the file change, if a file tool reported one.
    pub(crate) fn file(&self) -> Option<FileResult<'a>> {
        let optional = |field: Option<Unread<'a>>| field.map_or(Some(None), |field| json::parse::<Option<Str<'a>>>(field.0));
        Some(FileResult {
            file_path: json::parse(self.file_path?.0)?,
            r#type: optional(self.r#type)?,
            content: self.content.and_then(|content| json::parse(content.0)),
            structured_patch: self.structured_patch.map_or(Some(Vec::new()), |patch| json::parse(patch.0))?,
        })
    }
}

/// A file change as a file tool reports it.
pub(crate) struct FileResult<'a> {
    pub(crate) r#type: Option<Str<'a>>,
    pub(crate) file_path: Str<'a>,
    pub(crate) content: Option<Text<'a>>,
    pub(crate) structured_patch: Vec<Hunk<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hunk<'a> {
    pub(crate) old_start: u64,
    pub(crate) old_lines: u64,
    pub(crate) new_start: u64,
    pub(crate) new_lines: u64,
    #[serde(borrow)]
    pub(crate) lines: Vec<Str<'a>>,
}

/// Arguments of the to-do tool.
#[derive(Deserialize)]
pub(crate) struct Todos<'a> {
    #[serde(borrow)]
    pub(crate) todos: Vec<Todo<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Todo<'a> {
    #[serde(borrow)]
    pub(crate) content: Str<'a>,
    #[serde(borrow, default)]
    pub(crate) status: Option<Str<'a>>,
}
