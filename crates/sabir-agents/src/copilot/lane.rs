//! What one agent (the main one or a sub-agent) is saying: pieces first, whole copies after them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{Facts, Said};
use sabir_core::event::{Retry, TextDelta, ThinkingDelta};
use sabir_core::json::Str;

use super::wire::{Data, plain_message};

/// The open model call of one agent.
#[derive(Default)]
pub(super) struct Lane {
    message_id: String,
    text: Said,
    /// By reasoning id.
    thinking: BTreeMap<String, Said>,
    /// The message itself told the reasoning, which comes once more after it.
    thinking_told: bool,
    /// The request that failed last.
    failure: Option<(u32, String)>,
    retries: u32,
}

impl Lane {
    /// The model is called.
    pub(super) fn call(&mut self) {
        self.thinking.clear();
        self.thinking_told = false;
    }

    /// A turn begins.
    pub(super) fn turn(&mut self) {
        *self = Self::default();
    }

    fn open(&mut self, id: &str) {
        if self.message_id != id {
            id.clone_into(&mut self.message_id);
            self.text = Said::default();
        }
    }

    /// A piece of a message.
    pub(super) fn text_delta<'a>(&mut self, id: Option<Str<'a>>, delta: Str<'a>, facts: &mut Facts<'a>) {
        self.open(id.as_deref().unwrap_or(""));
        self.text.push(&delta);
        facts.push(TextDelta::new(delta).message_id(id));
    }

    /// The whole message.
    pub(super) fn message<'a>(
        &mut self,
        id: Option<Str<'a>>,
        content: Option<Str<'a>>,
        reasoning: Option<Str<'a>>,
        facts: &mut Facts<'a>,
    ) {
        if let Some(reasoning) = reasoning.filter(|text| !text.is_empty())
            && self.thinking.is_empty()
        {
            self.thinking_told = true;
            facts.push(ThinkingDelta::new(reasoning).message_id(id.clone()));
        }
        self.open(id.as_deref().unwrap_or(""));
        if let Some(content) = content {
            let rest = rest(&mut self.text, content);
            facts.push(TextDelta::new(rest).message_id(id));
        }
    }

    /// A piece of the reasoning.
    pub(super) fn thinking_delta<'a>(&mut self, id: Option<Str<'a>>, delta: Str<'a>, facts: &mut Facts<'a>) {
        self.thinking.entry(id.map_or_else(String::new, |id| id.0.into_owned())).or_default().push(&delta);
        facts.push(ThinkingDelta::new(delta));
    }

    /// The whole reasoning.
    pub(super) fn thinking<'a>(&mut self, id: Option<Str<'a>>, content: Str<'a>, facts: &mut Facts<'a>) {
        if !self.thinking_told {
            let said = self.thinking.entry(id.map_or_else(String::new, |id| id.0.into_owned())).or_default();
            facts.push(ThinkingDelta::new(rest(said, content)));
        }
    }

    /// A request failed; whether it is tried again is told next.
    pub(super) fn request_failed(&mut self, data: &Data<'_>) {
        let message = data.error_message.as_deref().map_or_else(String::new, |message| plain_message(message).into_owned());
        let attempt = data.retry_attempt.unwrap_or(self.retries).saturating_add(1);
        self.failure = Some((attempt, message));
    }

    /// It is tried again.
    pub(super) fn retry(&mut self, reason: Option<Str<'_>>, facts: &mut Facts<'_>) {
        self.retries = self.retries.saturating_add(1);
        let (attempt, message) = self.failure.take().unwrap_or((self.retries, String::new()));
        let message = match reason {
            _ if !message.is_empty() => message,
            Some(reason) => reason.0.into_owned(),
            None => "the request failed".to_owned(),
        };
        facts.push(Retry::new(attempt, message));
    }
}

/// What a whole copy has beyond the pieces before it.
fn rest<'a>(said: &mut Said, whole: Str<'a>) -> Cow<'a, str> {
    match whole.0 {
        Cow::Borrowed(whole) => Cow::Borrowed(said.rest(whole)),
        Cow::Owned(whole) => Cow::Owned(said.rest(&whole).to_owned()),
    }
}
