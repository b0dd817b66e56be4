//! Wire structs of what only Qwen Code prints.

use sabir_core::json::{self, Str};
use serde::Deserialize;

use super::usage::Stats;

/// A `system` line of any subtype but `init`.
#[derive(Deserialize)]
pub(super) struct System<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) data: Option<Data<'a>>,
}

/// `data` of a `system` line.
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

/// The fields of a `result` line that only Qwen Code has.
#[derive(Deserialize, Default)]
pub(super) struct ResultDetails<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Failure<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) stats: Option<Stats<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) permission_denials: Option<Vec<Denial<'a>>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Failure<'a> {
    pub(super) message: Option<Str<'a>>,
}

/// A denied tool call.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Denial<'a> {
    pub(super) tool_name: Option<Str<'a>>,
    pub(super) tool_use_id: Str<'a>,
}
