//! Wire structs of what only Qwen Code prints.

use serde::Deserialize;

use super::usage::Stats;
use sabir_core::json::{self, Str};

/// The fields of a `result` line that only Qwen Code has.
#[derive(Deserialize, Default)]
pub(super) struct ResultDetails<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Failure<'a>>,
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

/// A denied tool call.
#[derive(Deserialize)]
pub(super) struct Denial<'a> {
    #[serde(borrow, default)]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_use_id: Str<'a>,
}
