//! The shapes of stream-json, as far as we read them.
//!
//! The lines that come by the thousand are one small struct, with what is large and rare in boxes; `system`, `result` and control lines are rare and are
//! read a second time with the fields that only they have.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use sabir_core::event::Text;
use sabir_core::history::ResponseLine;
use sabir_core::json::{self, Str, StringOr, TextOr, Unread};
use sabir_core::time::Timestamp;

/// Any line.
#[doc(hidden)]
#[derive(Deserialize)]
pub struct Message<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default)]
    pub(super) subtype: Option<Str<'a>>,
    /// A text in some `system` lines.
    #[serde(borrow, default)]
    pub(super) message: Option<StringOr<'a, Box<ApiMessage<'a>>>>,
    #[serde(borrow, default)]
    pub(super) event: Option<StreamEvent<'a>>,
    /// The message that a `stream_event` is of; older versions do not say.
    #[serde(borrow, default)]
    pub(super) api_message_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) parent_tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(borrow, default, alias = "requestId", deserialize_with = "json::lenient")]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) uuid: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::fitting")]
    pub(super) tool_use_result: Option<Structured<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_result_meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) abandoned_blocks: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) is_api_error_message: bool,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) api_error_status: Option<u16>,
}

/// A message of the Messages API, or a part of one.
#[derive(Deserialize)]
pub(super) struct ApiMessage<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<StringOr<'a, Vec<Block<'a>>>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

/// The ids of a line, beside the id of its message.
#[derive(Default)]
pub(super) struct LineIds<'a> {
    pub(super) request_id: Option<Str<'a>>,
    pub(super) uuid: Option<Str<'a>>,
}

impl LineIds<'_> {
    /// What the line tells about the response that it is a part of.
    pub(super) fn part<'p>(&'p self, message: &'p ApiMessage<'_>, at: Option<Timestamp>) -> ResponseLine<'p> {
        let bytes = |id: &'p Option<Str<'_>>| id.as_deref().map(str::as_bytes);
        let input = |usage: Usage| {
            [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens]
                .map(|tokens| tokens.unwrap_or(0))
        };
        ResponseLine {
            message_id: bytes(&message.id),
            request_id: bytes(&self.request_id),
            uuid: bytes(&self.uuid),
            at: at.map(Timestamp::as_millis),
            input: message.usage.map(input),
        }
    }
}

/// A content block of any type.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Str<'a>>,
    /// In a box, since results alone have it: four blocks are what a list has room for at first, and so small a list is made
    /// much faster.
    #[serde(borrow, default)]
    pub(super) content: Option<Box<TextOr<'a>>>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
}

/// A part of a tool's result: a text, or something found on the web.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) url: Option<Str<'a>>,
}

/// Token figures of one response.
#[derive(Debug, Deserialize, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_creation: Option<CacheCreation>,
    #[serde(default)]
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize, Clone, Copy)]
pub(super) struct CacheCreation {
    pub(super) ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Debug, Deserialize, Clone, Copy)]
pub(super) struct OutputDetails {
    pub(super) thinking_tokens: Option<u64>,
}

/// The event of a `stream_event` line: what the API streams.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<Box<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Box<ApiMessage<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Box<Usage>>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Str<'a>>,
}

/// A `system` line.
#[derive(Deserialize)]
pub(super) struct System<'a> {
    #[serde(borrow, default)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) cwd: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) claude_code_version: Option<Str<'a>>,
    #[serde(borrow, default, rename = "permissionMode")]
    pub(super) permission_mode: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tools: Option<Vec<Str<'a>>>,
    /// What goes on in the background.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) tasks: Option<Vec<serde::de::IgnoredAny>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) max_retries: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) retry_delay_ms: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) error_status: Option<u16>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) summary: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) status: Option<Str<'a>>,
}

/// A `result` line.
#[derive(Deserialize)]
pub(super) struct ResultLine<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Option<Str<'a>>,
    #[serde(default)]
    pub(super) is_error: bool,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) result: Option<Str<'a>>,
    /// Two older names of `result`.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) structured_output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) terminal_reason: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) errors: Option<Vec<Str<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(default)]
    pub(super) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_api_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(borrow, default, rename = "modelUsage", deserialize_with = "json::lenient")]
    pub(super) model_usage: Option<BTreeMap<Str<'a>, ModelUsage>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) model_usage_since_last_result: Option<BTreeMap<Str<'a>, ModelUsage>>,
}

/// Token figures of one model, over a run or a session.
#[derive(Debug, Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ModelUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    #[serde(rename = "cacheCreationEphemeral1hInputTokens")]
    pub(super) cache_creation_1h_input_tokens: Option<u64>,
    pub(super) thinking_tokens: Option<u64>,
    #[serde(rename = "costUSD")]
    pub(super) cost_usd: Option<f64>,
}

/// A `control_request` line: the agent asks its host.
#[derive(Deserialize)]
pub(super) struct Control<'a> {
    #[serde(borrow)]
    pub(super) request_id: Str<'a>,
    #[serde(borrow)]
    pub(super) request: ControlRequest<'a>,
}

#[derive(Deserialize)]
pub(super) struct ControlRequest<'a> {
    #[serde(borrow)]
    pub(super) subtype: Str<'a>,
    #[serde(borrow, default)]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Str<'a>>,
}

/// The result of a tool in more words than the model is given. It is large, and mostly it says nothing that is wanted, so the
/// few fields that are wanted of some tools are found while the rest is stepped over, and read when they are there.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct Structured<'a> {
    /// The agent that was started.
    #[serde(borrow, default)]
    pub(super) agent_id: Option<Unread<'a>>,
    /// What became of a file.
    #[serde(borrow, default)]
    pub(super) r#type: Option<Unread<'a>>,
    #[serde(borrow, default)]
    pub(super) file_path: Option<Unread<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Unread<'a>>,
    #[serde(borrow, default)]
    pub(super) structured_patch: Option<Unread<'a>>,
}

impl<'a> Structured<'a> {
    /// What a file tool says of the file it changed, if it is one's.
    pub(super) fn file(&self) -> Option<FileResult<'a>> {
        let optional = |field: Option<Unread<'a>>| field.map_or(Some(None), |field| json::parse::<Option<Str<'a>>>(field.0));
        Some(FileResult {
            file_path: json::parse(self.file_path?.0)?,
            r#type: optional(self.r#type)?,
            content: self.content.and_then(|content| json::parse(content.0)),
            structured_patch: self.structured_patch.map_or(Some(Vec::new()), |patch| json::parse(patch.0))?,
        })
    }
}

/// What a file tool says of the file it changed.
pub(super) struct FileResult<'a> {
    pub(super) r#type: Option<Str<'a>>,
    pub(super) file_path: Str<'a>,
    pub(super) content: Option<Text<'a>>,
    pub(super) structured_patch: Vec<Hunk<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hunk<'a> {
    pub(super) old_start: u64,
    pub(super) old_lines: u64,
    pub(super) new_start: u64,
    pub(super) new_lines: u64,
    #[serde(borrow)]
    pub(super) lines: Vec<Str<'a>>,
}

/// How the host decided about a call.
#[derive(Deserialize)]
pub(super) struct ToolResultMeta<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    #[serde(borrow, default)]
    pub(super) non_execution_kind: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) permission_decision: Option<PermissionDecision<'a>>,
}

#[derive(Deserialize)]
pub(super) struct PermissionDecision<'a> {
    #[serde(borrow, default)]
    decision: Option<Str<'a>>,
}

impl PermissionDecision<'_> {
    /// Whether the call was not allowed.
    pub(super) fn is_rejection(&self) -> bool {
        self.decision.as_deref() == Some("reject")
    }
}

/// Which blocks of a cut stream are void.
#[derive(Deserialize)]
pub(super) struct Abandoned {
    #[serde(default)]
    pub(super) from_block_index: u32,
}

/// The arguments of the to-do tool.
#[derive(Deserialize)]
pub(super) struct Todos<'a> {
    #[serde(borrow)]
    pub(super) todos: Vec<Todo<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Todo<'a> {
    #[serde(borrow)]
    pub(super) content: Str<'a>,
    #[serde(borrow, default)]
    pub(super) status: Option<Str<'a>>,
}
