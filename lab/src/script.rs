//! What the server serves, as data.

use serde_json::Value;

/// The wire format of a model's vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's chat completions.
    Chat,
    /// Google's `generateContent` and `streamGenerateContent`.
    Gemini,
}

/// The answers of one run, in order.
#[derive(Clone, Debug)]
pub struct Script {
    /// One for each request of the agent.
    pub steps: Vec<Step>,
    /// Serve the last step again and again instead of saying that the script is over.
    pub repeat_last: bool,
    /// Tells the agent's requests from those that the CLI makes for itself.
    pub lane: fn(&Request) -> Lane,
    /// The answer to a request that the CLI makes for itself.
    pub auxiliary: fn(&Request) -> String,
}

impl Script {
    /// A script for a client that makes no requests of its own.
    pub fn new(steps: Vec<Step>) -> Script {
        Script { steps, repeat_last: false, lane: |_| Lane::Main, auxiliary: |_| "{}".to_owned() }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The agent.
    Main,
    /// The CLI by itself: titles, summaries, probes.
    Auxiliary,
}

/// A request as far as a script cares.
#[derive(Clone, Debug)]
pub struct Request {
    /// The format that it came in.
    pub api: Api,
    /// The model that it asks for.
    pub model: String,
    /// Whether the answer should come as a stream.
    pub streaming: bool,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    /// All of it.
    pub body: Value,
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub enum Step {
    /// The model speaks.
    Reply(Reply),
    /// The server refuses.
    Failure(Failure),
}

/// What the model says in one response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// In the order in which they are served.
    pub blocks: Vec<Block>,
    /// What the response says that it cost.
    pub usage: Usage,
    /// How the response travels.
    pub pace: Pace,
}

impl Reply {
    /// Text and nothing else.
    pub fn text(text: impl Into<String>, usage: Usage) -> Reply {
        Reply { blocks: vec![Block::Text(text.into())], usage, pace: Pace::Free }
    }

    /// The texts, put together.
    pub fn whole_text(&self) -> String {
        self.blocks.iter().filter_map(|block| if let Block::Text(text) = block { Some(text.as_str()) } else { None }).collect()
    }

    /// The thoughts, put together.
    pub fn whole_thinking(&self) -> String {
        self.blocks
            .iter()
            .filter_map(|block| if let Block::Thinking(text) = block { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The tool calls.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.blocks.iter().filter_map(|block| if let Block::Call(call) = block { Some(call) } else { None })
    }
}

/// A part of a response.
#[derive(Clone, Debug)]
pub enum Block {
    /// Reasoning.
    Thinking(String),
    /// Words for the user.
    Text(String),
    /// A tool call.
    Call(Call),
}

/// A tool call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The id that the result will name.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub input: Input,
}

/// The arguments of a tool call.
#[derive(Clone, Debug)]
pub enum Input {
    /// An object, as all tools take it.
    Json(Value),
    /// Plain text, for a tool whose input has a grammar of its own. Only Responses can say it; elsewhere it is an object with the
    /// one key `input`.
    Freeform(String),
}

impl Input {
    /// The arguments as a value.
    pub fn value(&self) -> Value {
        match self {
            Input::Json(value) => value.clone(),
            Input::Freeform(text) => serde_json::json!({ "input": text }),
        }
    }
}

/// How a response travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the client reads.
    Free,
    /// One delta for each that [`release`](crate::server::Server::release) lets through.
    Gated,
    /// Stops after so many deltas, and the stream stays open until the client goes away.
    Hold {
        /// How many deltas come through.
        after: usize,
    },
    /// The connection breaks after so many deltas.
    Cut {
        /// How many deltas come through.
        after: usize,
    },
}

/// Tokens in classes that do not overlap, except that `reasoning` is a part of `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input that no cache knew, and that is not written to one.
    pub uncached_input: u64,
    /// Input from the cache.
    pub cache_read: u64,
    /// Input that is written to the cache.
    pub cache_write: u64,
    /// Output, with the reasoning.
    pub output: u64,
    /// The reasoning alone.
    pub reasoning: u64,
}

impl Usage {
    /// All input.
    pub fn input(&self) -> u64 {
        self.uncached_input + self.cache_read + self.cache_write
    }

    /// The same usage in the words that a vendor has: only Anthropic tells what was written to the cache; for the others it is input
    /// like any other. What the others tell, and Anthropic does not, is how much of the output was reasoning.
    #[must_use]
    pub fn as_told_by(self, api: Api) -> Usage {
        match api {
            Api::Anthropic => Usage { reasoning: 0, ..self },
            Api::Responses | Api::Chat | Api::Gemini => {
                Usage { uncached_input: self.uncached_input + self.cache_write, cache_write: 0, ..self }
            }
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// What the vendor says.
    pub message: String,
    /// Seconds in the header `retry-after`.
    pub retry_after: Option<u32>,
}
