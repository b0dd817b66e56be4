//! The shapes of Cline's lines, as far as they are read.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Figures;
use sabir_core::json::{self, Str, StringOr};

/// Any line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) ts: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) hook_event_name: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) agent_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) parent_agent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) event: Option<Event<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) finish_reason: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) iterations: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Figures>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) model: Option<Model<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
}

/// The model of the run.
#[derive(Deserialize)]
pub(super) struct Model<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
}

/// What an `agent_event` tells.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow)]
    pub(super) content_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reasoning: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) agent_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) parent_agent_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) update: Option<Update<'a>>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error_class: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) recoverable: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) iteration: Option<u32>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reason: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Figures>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) cache_read_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) cache_write_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) cost: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) total_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) total_output_tokens: Option<u64>,
}

impl Event<'_> {
    /// The figures of one model call.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
            total_cost: self.cost,
        }
    }
}

/// More output of a call that runs.
#[derive(Deserialize)]
pub(super) struct Update<'a> {
    #[serde(borrow)]
    pub(super) chunk: Option<Str<'a>>,
}

/// The message of an error, which is one or has one.
pub(super) fn error_message(error: &RawValue) -> Option<Str<'_>> {
    #[derive(Deserialize)]
    struct Failure<'a> {
        #[serde(borrow)]
        message: Option<Str<'a>>,
    }
    match json::parse::<StringOr<'_, Failure<'_>>>(error.get())? {
        StringOr::String(message) => Some(message),
        StringOr::Other(failure) => failure.message,
    }
}
