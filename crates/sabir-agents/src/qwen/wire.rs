//! The shapes of stream-json, as far as we read them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::figures::{Stats, Usage};
use sabir_core::json::{self, Str, StringOr};

/// Any line.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default)]
    pub(super) subtype: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) parent_tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<StringOr<'a, Box<ApiMessage<'a>>>>,
    #[serde(borrow, default)]
    pub(super) event: Option<Box<StreamEvent<'a>>>,
    /// What a `system` line tells, but for `init`.
    #[serde(borrow, default)]
    pub(super) data: Option<&'a RawValue>,
}

/// A message, or the blocks of one kind of it.
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

/// A content block of any type.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
}

/// The event of a `stream_event` line.
#[derive(Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default)]
    pub(super) message: Option<ApiMessage<'a>>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
}

/// `system` of the subtype `init`.
#[derive(Deserialize)]
pub(super) struct Init<'a> {
    #[serde(borrow, default)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) cwd: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tools: Option<Vec<Str<'a>>>,
    #[serde(borrow, default)]
    pub(super) permission_mode: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) qwen_code_version: Option<Str<'a>>,
}

/// `data` of the other `system` lines.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Data<'a> {
    #[serde(deserialize_with = "json::lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(rename = "maxRetries", deserialize_with = "json::lenient")]
    pub(super) max_retries: Option<u32>,
    #[serde(rename = "delayMs", deserialize_with = "json::lenient")]
    pub(super) delay_ms: Option<u64>,
    #[serde(borrow, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(borrow, deserialize_with = "json::lenient")]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow, deserialize_with = "json::lenient")]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow, deserialize_with = "json::lenient")]
    pub(super) task_id: Option<Str<'a>>,
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
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Failure<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_api_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) stats: Option<Stats<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) permission_denials: Option<Vec<Denial<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct Failure<'a> {
    #[serde(borrow, default)]
    pub(super) message: Option<Str<'a>>,
}

/// A call that was not allowed.
#[derive(Deserialize)]
pub(super) struct Denial<'a> {
    #[serde(borrow, default)]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_use_id: Str<'a>,
}
