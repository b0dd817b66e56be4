//! Wire structs of what only Claude Code prints.

use std::collections::BTreeMap;

use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields of a `result` line that only Claude Code has.
#[derive(Deserialize, Default)]
pub(super) struct ResultDetails<'a> {
    /// Older name of `result`.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
    /// Oldest name of `result`.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Str<'a>>,
    pub(super) structured_output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) terminal_reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) errors: Option<Vec<Str<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(borrow, default, rename = "modelUsage", deserialize_with = "json::lenient")]
    pub(super) model_usage: Option<BTreeMap<Str<'a>, ModelUsage>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) model_usage_since_last_result: Option<BTreeMap<Str<'a>, ModelUsage>>,
}

/// Token usage of one model, over a run or a session.
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

/// A `control_request` line: a request of the agent to its host.
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

/// Decision of the host about a tool call.
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
    /// Whether the call was denied.
    pub(super) fn is_rejection(&self) -> bool {
        self.decision.as_deref() == Some("reject")
    }
}

/// Which blocks of an aborted stream are void.
#[derive(Deserialize)]
pub(super) struct Abandoned {
    #[serde(default)]
    pub(super) from_block_index: u32,
}
