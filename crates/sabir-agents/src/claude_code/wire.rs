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
#[serde(bound = "'de: 'a")]
pub struct Message<'a> {
    pub(super) r#type: Str<'a>,
    pub(super) subtype: Option<Str<'a>>,
    /// A text in some `system` lines.
    pub(super) message: Option<StringOr<'a, Box<ApiMessage<'a>>>>,
    pub(super) event: Option<StreamEvent<'a>>,
    /// The message that a `stream_event` is of; older versions do not say.
    pub(super) api_message_id: Option<Str<'a>>,
    pub(super) parent_tool_use_id: Option<Str<'a>>,
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(default, alias = "requestId", deserialize_with = "json::lenient")]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) uuid: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::fitting")]
    pub(super) tool_use_result: Option<Structured<'a>>,
    pub(super) tool_result_meta: Option<&'a RawValue>,
    pub(super) abandoned_blocks: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) is_api_error_message: bool,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) api_error_status: Option<u16>,
}

/// A message of the Messages API, or a part of one.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ApiMessage<'a> {
    pub(super) id: Option<Str<'a>>,
    pub(super) model: Option<Str<'a>>,
    pub(super) content: Option<StringOr<'a, Vec<Block<'a>>>>,
    pub(super) stop_reason: Option<Str<'a>>,
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
#[serde(bound = "'de: 'a")]
pub(super) struct Block<'a> {
    #[serde(default)]
    pub(super) r#type: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) thinking: Option<Text<'a>>,
    pub(super) id: Option<Str<'a>>,
    pub(super) name: Option<Str<'a>>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<Str<'a>>,
    /// In a box, since results alone have it: four blocks are what a list has room for at first, and so small a list is made
    /// much faster.
    pub(super) content: Option<Box<TextOr<'a>>>,
    pub(super) is_error: Option<bool>,
}

/// A part of a tool's result: a text, or something found on the web.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Part<'a> {
    pub(super) text: Option<Str<'a>>,
    pub(super) title: Option<Str<'a>>,
    pub(super) url: Option<Str<'a>>,
}

/// Token figures of one response.
#[derive(Debug, Deserialize, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_creation: Option<CacheCreation>,
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
#[serde(bound = "'de: 'a")]
pub(super) struct StreamEvent<'a> {
    pub(super) r#type: Str<'a>,
    pub(super) index: Option<u32>,
    pub(super) delta: Option<Delta<'a>>,
    pub(super) content_block: Option<Box<Block<'a>>>,
    pub(super) message: Option<Box<ApiMessage<'a>>>,
    pub(super) usage: Option<Box<Usage>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Delta<'a> {
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) thinking: Option<Text<'a>>,
    pub(super) stop_reason: Option<Str<'a>>,
}

/// A `system` line.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct System<'a> {
    pub(super) session_id: Option<Str<'a>>,
    pub(super) model: Option<Str<'a>>,
    pub(super) cwd: Option<Str<'a>>,
    pub(super) claude_code_version: Option<Str<'a>>,
    #[serde(rename = "permissionMode")]
    pub(super) permission_mode: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
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
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) description: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) summary: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) status: Option<Str<'a>>,
}

/// A `result` line.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ResultLine<'a> {
    pub(super) subtype: Option<Str<'a>>,
    #[serde(default)]
    pub(super) is_error: bool,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) result: Option<Str<'a>>,
    /// Two older names of `result`.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Str<'a>>,
    pub(super) structured_output: Option<&'a RawValue>,
    pub(super) session_id: Option<Str<'a>>,
    pub(super) stop_reason: Option<Str<'a>>,
    pub(super) terminal_reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) errors: Option<Vec<Str<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) api_error_status: Option<u16>,
    pub(super) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_api_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(default, rename = "modelUsage", deserialize_with = "json::lenient")]
    pub(super) model_usage: Option<BTreeMap<Str<'a>, ModelUsage>>,
    #[serde(default, deserialize_with = "json::lenient")]
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
#[serde(bound = "'de: 'a")]
pub(super) struct Control<'a> {
    pub(super) request_id: Str<'a>,
    pub(super) request: ControlRequest<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ControlRequest<'a> {
    pub(super) subtype: Str<'a>,
    pub(super) tool_name: Option<Str<'a>>,
    pub(super) description: Option<Str<'a>>,
    pub(super) tool_use_id: Option<Str<'a>>,
}

/// The result of a tool in more words than the model is given. It is large, and mostly it says nothing that is wanted, so the
/// few fields that are wanted of some tools are found while the rest is stepped over, and read when they are there.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct Structured<'a> {
    /// The agent that was started.
    pub(super) agent_id: Option<Unread<'a>>,
    /// What became of a file.
    pub(super) r#type: Option<Unread<'a>>,
    pub(super) file_path: Option<Unread<'a>>,
    pub(super) content: Option<Unread<'a>>,
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
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct Hunk<'a> {
    pub(super) old_start: u64,
    pub(super) old_lines: u64,
    pub(super) new_start: u64,
    pub(super) new_lines: u64,
    pub(super) lines: Vec<Str<'a>>,
}

/// How the host decided about a call.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ToolResultMeta<'a> {
    pub(super) id: Str<'a>,
    pub(super) non_execution_kind: Option<Str<'a>>,
    pub(super) permission_decision: Option<PermissionDecision<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct PermissionDecision<'a> {
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
#[serde(bound = "'de: 'a")]
pub(super) struct Todos<'a> {
    pub(super) todos: Vec<Todo<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Todo<'a> {
    pub(super) content: Str<'a>,
    pub(super) status: Option<Str<'a>>,
}
