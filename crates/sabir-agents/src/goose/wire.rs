//! The shapes of Goose's messages, as far as they are read.

use std::borrow::Cow;

use sabir_core::event::{Usage, UsageScope};
use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message, or the next piece of one. Its time is in whole seconds, too coarse to say how long anything took, and is left.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) role: Str<'a>,
    #[serde(borrow)]
    pub(super) content: Vec<Content<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) metadata: Option<Visibility>,
}

/// Whom a message is for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Visibility {
    pub(super) user_visible: Option<bool>,
}

/// A piece of a message's content: the union of all types.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) msg: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_call: Option<Attempt<'a>>,
    #[serde(borrow)]
    pub(super) tool_result: Option<Attempt<'a>>,
}

/// Something that worked, or did not. Its status says only whether the tool was reached.
#[derive(Deserialize)]
pub(super) struct Attempt<'a> {
    #[serde(borrow)]
    pub(super) status: Str<'a>,
    #[serde(borrow)]
    pub(super) value: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) error: Option<Str<'a>>,
}

/// What the model asks for.
#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub(super) name: Str<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// What a tool gave back.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallResult<'a> {
    #[serde(borrow, default)]
    pub(super) content: Vec<Block<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) structured_content: Option<Structured>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) is_error: Option<bool>,
}

/// A piece of what a tool gave back.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
}

/// What the shell says beside its output.
#[derive(Deserialize)]
pub(super) struct Structured {
    pub(super) exit_code: Option<i32>,
}

impl<'a> Attempt<'a> {
    /// Reads it as the result of a call; early versions had the content alone.
    pub(super) fn into_result(self) -> (CallResult<'a>, Option<Str<'a>>) {
        let result = self.value.and_then(|value| {
            let text = value.get();
            let content = || json::parse(text).map(|content| CallResult { content, ..CallResult::default() });
            json::parse::<CallResult<'a>>(text).or_else(content)
        });
        let failed = self.error.is_some() || &*self.status != "success";
        let mut result = result.unwrap_or_default();
        if failed {
            result.is_error = Some(true);
        }
        (result, self.error)
    }
}

impl<'a> CallResult<'a> {
    /// All its text.
    pub(super) fn into_text(self) -> Option<Cow<'a, str>> {
        let mut texts = self.content.into_iter().filter_map(|block| block.text).map(Cow::from);
        texts.next().map(|first| texts.fold(first, |all, next| all + "\n" + next))
    }
}

/// Tokens of the session. Input contains what was cached; sub-agents have sessions of their own.
#[derive(Deserialize, Clone, Copy, Default)]
pub(super) struct Figures {
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) total_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    cache_write_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    cost_usd: Option<f64>,
}

impl Figures {
    /// The event, where there are figures. The input is left to the total: how much of it was cached is not said.
    pub(super) fn event(self) -> Option<Usage<'static>> {
        self.total_tokens?;
        Some(
            Usage::new(UsageScope::Turn)
                .output_tokens(self.output_tokens)
                .total_tokens(self.total_tokens)
                .cache_read_tokens(self.cache_read_input_tokens)
                .cache_write_tokens(self.cache_write_input_tokens)
                .cost_usd(self.cost_usd),
        )
    }
}
