//! The shapes of Pi's lines, as far as they are read.

use std::borrow::Cow;

use sabir_core::event::{self, CostParts, Text, UsageScope};
use sabir_core::history::Spent;
use sabir_core::json::{self, Str, Unread};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Any line. Messages stay raw: most lines only repeat one that was read before.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) cwd: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) assistant_message_event: Option<Update<'a>>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) partial_result: Option<ToolResult<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) result: Option<ToolResult<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) will_retry: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) aborted: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) success: Option<bool>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) delay_ms: Option<u64>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error_message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reason: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) command: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) method: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) options: Option<Vec<Str<'a>>>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
}

/// What a `message_update` adds to the open message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Update<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(default)]
    pub(super) content_index: u32,
    #[serde(borrow)]
    pub(super) delta: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) content: Option<Str<'a>>,
}

/// A message, whoever speaks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Str<'a>,
    #[serde(borrow)]
    content: Option<Unread<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) timestamp: Option<i64>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) usage: Option<Usage>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) raw_stop_reason: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", rename = "errorMessage")]
    pub(super) error: Option<Str<'a>>,
    /// Of a tool's result, as are the next two.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    details: Option<Unread<'a>>,
    /// Of what the user ran.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) command: Option<Str<'a>>,
}

impl<'a> Message<'a> {
    /// What it says. `None` when it is not JSON; what is of another shape is nothing.
    pub(super) fn content<T: Deserialize<'a> + Default>(&self) -> Option<T> {
        read(self.content)
    }

    /// What the tool gave back whose result it is. `None` when it is not JSON.
    pub(super) fn result(&self) -> Option<ToolResult<'a>> {
        Some(ToolResult { content: read(self.content)?, details: read(self.details)? })
    }
}

/// Reads what is there; what is of another shape counts as absent. `None` when it is not JSON.
fn read<'a, T: Deserialize<'a> + Default>(value: Option<Unread<'a>>) -> Option<T> {
    let Some(Unread(json)) = value else { return Some(T::default()) };
    json::parse(json).or_else(|| json::parse::<&RawValue>(json).map(|_| T::default()))
}

/// A piece of a message's content.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) thinking: Option<Str<'a>>,
    /// Of a tool call, as are the next two.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// What a tool gave back, or has given so far.
#[derive(Deserialize)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    content: Option<Vec<Output<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    details: Option<Details<'a>>,
}

/// A piece of it.
#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow)]
    patch: Option<Str<'a>>,
}

impl<'a> ToolResult<'a> {
    /// The unified diff of an edit, and all the text.
    pub(super) fn into_parts(self) -> (Option<Cow<'a, str>>, Option<Text<'a>>) {
        let patch = self.details.and_then(|details| details.patch).map(Cow::from);
        let mut texts = self.content.into_iter().flatten().filter_map(|piece| piece.text);
        let text = texts.next().map(|first| texts.fold(first, |all, next| (all.into_string() + &next).into()));
        (patch, text)
    }
}

/// Tokens of one response, cached ones beside `input`, reasoning within `output`.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    #[serde(rename = "cacheWrite1h")]
    cache_write_1h: Option<u64>,
    reasoning: Option<u64>,
    cost: Option<Cost>,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "camelCase", default)]
struct Cost {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    total: f64,
}

impl Usage {
    /// Its tokens.
    pub(super) fn spent(&self) -> Spent {
        Spent {
            input: self.input.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write: self.cache_write.unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_write_1h: self.cache_write_1h.unwrap_or(0),
            reasoning: self.reasoning.unwrap_or(0),
        }
    }

    /// A model without a price costs 0 in Pi's book; that is not knowing, not free.
    fn cost(&self) -> Option<Cost> {
        self.cost.filter(|cost| cost.total > 0.0)
    }

    /// The event; `None` when Pi has no figures, which it writes as zeros.
    pub(super) fn event(self, model: Option<Cow<'_, str>>) -> Option<event::Usage<'_>> {
        if self.spent().total() == 0 {
            return None;
        }
        let cost = self.cost();
        Some(
            event::Usage::new(UsageScope::Message)
                .input_tokens(self.input)
                .output_tokens(self.output)
                .cache_read_tokens(self.cache_read)
                .cache_write_tokens(self.cache_write)
                .cache_write_1h_tokens(self.cache_write_1h)
                .reasoning_tokens(self.reasoning)
                .cost_usd(cost.map(|cost| cost.total))
                .cost_parts(cost.map(|cost| CostParts {
                    input: cost.input,
                    output: cost.output,
                    cache_read: cost.cache_read,
                    cache_write: cost.cache_write,
                }))
                .model(model),
        )
    }
}

/// `get_state` of an rpc session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State<'a> {
    #[serde(borrow)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) model: Option<Model<'a>>,
}

/// The model in `get_state`.
#[derive(Deserialize)]
pub(super) struct Model<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
}
