//! Wire structs of what only Qwen Code prints.

use sabir_core::json::{self, Str};
use serde::Deserialize;

use super::usage::Stats;

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
