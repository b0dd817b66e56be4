//! The shapes of stream-json, as far as we read them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::figures::{Stats, Usage};
use sabir_core::json::{self, Str, StringOr};

/// Any line.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Message<'a> {
    pub(super) r#type: Str<'a>,
    pub(super) subtype: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) timestamp: Option<Str<'a>>,
    pub(super) session_id: Option<Str<'a>>,
    pub(super) parent_tool_use_id: Option<Str<'a>>,
    pub(super) message: Option<StringOr<'a, Box<ApiMessage<'a>>>>,
    pub(super) event: Option<Box<StreamEvent<'a>>>,
    /// What a `system` line tells, but for `init`.
    pub(super) data: Option<&'a RawValue>,
}

/// A message, or the blocks of one kind of it.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ApiMessage<'a> {
    pub(super) id: Option<Str<'a>>,
    pub(super) model: Option<Str<'a>>,
    pub(super) content: Option<StringOr<'a, Vec<Block<'a>>>>,
    pub(super) stop_reason: Option<Str<'a>>,
    pub(super) usage: Option<Usage>,
}

/// A content block of any type.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Block<'a> {
    #[serde(default)]
    pub(super) r#type: Str<'a>,
    pub(super) text: Option<&'a RawValue>,
    pub(super) thinking: Option<&'a RawValue>,
    pub(super) id: Option<Str<'a>>,
    pub(super) name: Option<Str<'a>>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<Str<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
}

/// The event of a `stream_event` line.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct StreamEvent<'a> {
    pub(super) r#type: Str<'a>,
    pub(super) message: Option<ApiMessage<'a>>,
    pub(super) content_block: Option<Block<'a>>,
    pub(super) delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Delta<'a> {
    pub(super) text: Option<&'a RawValue>,
    pub(super) thinking: Option<&'a RawValue>,
}

/// `system` of the subtype `init`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Init<'a> {
    pub(super) session_id: Option<Str<'a>>,
    pub(super) model: Option<Str<'a>>,
    pub(super) cwd: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) tools: Option<Vec<Str<'a>>>,
    pub(super) permission_mode: Option<Str<'a>>,
    pub(super) qwen_code_version: Option<Str<'a>>,
}

/// `data` of the other `system` lines.
#[derive(Deserialize, Default)]
#[serde(default, bound = "'de: 'a")]
pub(super) struct Data<'a> {
    #[serde(deserialize_with = "json::lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(rename = "maxRetries", deserialize_with = "json::lenient")]
    pub(super) max_retries: Option<u32>,
    #[serde(rename = "delayMs", deserialize_with = "json::lenient")]
    pub(super) delay_ms: Option<u64>,
    #[serde(deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(deserialize_with = "json::lenient")]
    pub(super) description: Option<Str<'a>>,
    #[serde(deserialize_with = "json::lenient")]
    pub(super) status: Option<Str<'a>>,
    #[serde(deserialize_with = "json::lenient")]
    pub(super) task_id: Option<Str<'a>>,
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
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Failure<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) num_turns: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_api_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) stats: Option<Stats<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) permission_denials: Option<Vec<Denial<'a>>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Failure<'a> {
    pub(super) message: Option<Str<'a>>,
}

/// A call that was not allowed.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Denial<'a> {
    pub(super) tool_name: Option<Str<'a>>,
    pub(super) tool_use_id: Str<'a>,
}
