//! The two APIs, seen from the loop: a body to send, a stream to read, an answer.

mod chat;
mod responses;

use sabir_core::event::{self, UsageScope};
use serde_json::Value;

use crate::out::Out;
use crate::tools::Tool;
use crate::trouble::{Broken, Trouble};

/// Which API is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/responses`.
    Responses,
    /// `/chat/completions`.
    Chat,
}

/// A tool call that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON, if the model kept to it.
    pub(crate) arguments: String,
}

/// A whole answer of the model.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Its last message.
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// Why it stopped, in the endpoint's word.
    pub(crate) stop_reason: Option<String>,
    pub(crate) end: ReplyEnd,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
    /// What the next request says of it.
    pub(crate) items: Vec<Value>,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReplyEnd {
    /// The model was done.
    #[default]
    Done,
    /// It may not say more.
    Length,
    /// It refused, or a filter did.
    Refused,
}

/// Tokens of one answer, counted as the endpoints count: the cached ones inside of the input, reasoning inside of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cached: Option<u64>,
    pub(crate) output: u64,
    pub(crate) reasoning: Option<u64>,
}

impl Usage {
    /// The event: classes that do not overlap.
    pub(crate) fn event<'a>(&self, model: &'a str) -> event::Usage<'a> {
        let cached = self.cached.map(|cached| cached.min(self.input));
        event::Usage::new(UsageScope::Message)
            .input_tokens(self.input - cached.unwrap_or(0))
            .output_tokens(self.output)
            .total_tokens(self.input.saturating_add(self.output))
            .cache_read_tokens(cached)
            .reasoning_tokens(self.reasoning)
            .model(model)
    }
}

/// What a request is made of.
pub(crate) struct Request<'a> {
    pub(crate) model: &'a str,
    pub(crate) instructions: &'a str,
    pub(crate) items: &'a [Value],
    pub(crate) tools: &'a [&'static Tool],
    /// Leave out what not every endpoint knows.
    pub(crate) plain: bool,
}

/// A stream that is being read.
pub(crate) enum Stream {
    Responses(responses::Stream),
    Chat(chat::Stream),
}

impl Api {
    /// The path under the base URL.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Chat => "chat/completions",
        }
    }

    /// The user's message.
    pub(crate) fn prompt(prompt: &str) -> Value {
        serde_json::json!({"role": "user", "content": prompt})
    }

    /// The body of a request.
    pub(crate) fn body(self, request: &Request<'_>) -> Value {
        match self {
            Self::Responses => responses::body(request),
            Self::Chat => chat::body(request),
        }
    }

    /// A stream to read the answer with.
    pub(crate) fn stream(self) -> Stream {
        match self {
            Self::Responses => Stream::Responses(responses::Stream::default()),
            Self::Chat => Stream::Chat(chat::Stream::default()),
        }
    }

    /// What a tool gave back.
    pub(crate) fn result(self, call: &Call, output: &str) -> Value {
        match self {
            Self::Responses => serde_json::json!({"type": "function_call_output", "call_id": call.id, "output": output}),
            Self::Chat => serde_json::json!({"role": "tool", "tool_call_id": call.id, "content": output}),
        }
    }
}

impl Stream {
    /// Reads an event and tells what it says.
    pub(crate) fn event(&mut self, data: &str, out: &mut Out<'_>) -> Result<(), Broken> {
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            return Err(Trouble::network(format!("the stream is not JSON after all: {data:.100}")).into());
        };
        match self {
            Self::Responses(stream) => stream.event(value, out),
            Self::Chat(stream) => stream.event(&value, out),
        }
    }

    /// Reads an answer that came in one piece.
    pub(crate) fn whole(&mut self, data: &str, out: &mut Out<'_>) -> Result<(), Broken> {
        match self {
            Self::Responses(stream) => match serde_json::from_str::<Value>(data) {
                Ok(response) => stream.whole(response, out),
                Err(_) => Err(Trouble::network("the answer is not JSON").into()),
            },
            Self::Chat(_) => self.event(data, out),
        }
    }

    /// Tokens that are known although the answer is not whole.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self {
            Self::Responses(_) => None,
            Self::Chat(stream) => stream.usage(),
        }
    }

    /// The answer, if it is whole.
    pub(crate) fn finish(self) -> Result<Reply, Trouble> {
        match self {
            Self::Responses(stream) => stream.finish(),
            Self::Chat(stream) => stream.finish(),
        }
        .ok_or_else(|| Trouble::network("the stream was cut"))
    }
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn number_at(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}
