//! What the server really served.

use serde::Serialize;
use serde_json::Value;

use crate::script::{Api, Failure, Lane, Reply, Usage};

/// What was served in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truth {
    /// The answer: the text of the last complete reply of the agent's lane, if that reply asks for no tool.
    pub final_text: Option<String>,
    /// The text of each complete reply that has one.
    pub texts: Vec<String>,
    /// The reasoning of each complete reply that has some.
    pub thinking: Vec<String>,
    /// The tool calls of the complete replies.
    pub tool_calls: Vec<ServedCall>,
    /// What came through of the texts of replies that did not come to their end.
    pub unfinished_texts: Vec<String>,
    /// The tokens.
    pub usage: Lanes,
    /// The refusals, in order.
    pub failures: Vec<ServedFailure>,
    /// How many requests came.
    pub requests: Requests,
    /// The agent's requests that came after the last step of the script.
    pub after_the_script: u64,
    /// The body of the agent's last request.
    #[serde(skip)]
    pub last_request: String,
    /// The paths of requests that were for no model, each with its method.
    pub other_requests: Vec<String>,
}

/// A tool call that was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

/// A refusal that was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedFailure {
    /// The HTTP status.
    pub status: u16,
    /// What was said.
    pub message: String,
}

/// Tokens by who spent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lanes {
    /// The agent.
    pub main: Tokens,
    /// The CLI by itself.
    pub aux: Tokens,
    /// Replies of any lane that did not come to their end: what they would have said at it.
    pub aborted: Tokens,
}

/// Tokens in classes that do not overlap; reasoning is a part of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Input that no cache knew.
    pub uncached_input: u64,
    /// Input from the cache.
    pub cache_read: u64,
    /// Input that was written to the cache.
    pub cache_write: u64,
    /// Output, with the reasoning.
    pub output: u64,
    /// The reasoning alone.
    pub reasoning: u64,
    /// How many replies these are.
    pub replies: u64,
}

/// Requests to models by who made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// The agent.
    pub main: u64,
    /// The CLI by itself.
    pub aux: u64,
}

/// A request to a model and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) api: Api,
    pub(crate) lane: Lane,
    pub(crate) served: Served,
}

#[derive(Clone, Debug)]
pub(crate) enum Served {
    Failure(Failure),
    Reply {
        reply: Reply,
        /// The text that was handed over so far.
        sent: String,
        complete: bool,
    },
}

/// Puts together what the exchanges say.
pub(crate) fn fold(exchanges: &[Exchange]) -> Truth {
    let mut truth = Truth::default();
    for exchange in exchanges {
        let main = exchange.lane == Lane::Main;
        if main {
            truth.requests.main += 1;
        } else {
            truth.requests.aux += 1;
        }
        match &exchange.served {
            Served::Failure(failure) => {
                truth.failures.push(ServedFailure { status: failure.status, message: failure.message.clone() });
            }
            Served::Reply { reply, sent, complete: false } => {
                add(&mut truth.usage.aborted, reply.usage.as_told_by(exchange.api));
                if main {
                    truth.unfinished_texts.push(sent.clone());
                }
            }
            Served::Reply { reply, complete: true, .. } if main => {
                add(&mut truth.usage.main, reply.usage.as_told_by(exchange.api));
                agent_reply(&mut truth, reply);
            }
            Served::Reply { reply, .. } => add(&mut truth.usage.aux, reply.usage.as_told_by(exchange.api)),
        }
        if main && !matches!(exchange.served, Served::Reply { complete: true, .. }) {
            truth.final_text = None;
        }
    }
    truth
}

fn agent_reply(truth: &mut Truth, reply: &Reply) {
    let text = reply.whole_text();
    let thinking = reply.whole_thinking();
    let calls = truth.tool_calls.len();
    truth.tool_calls.extend(reply.calls().map(|call| ServedCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.input.value(),
    }));
    truth.final_text = (truth.tool_calls.len() == calls).then(|| text.clone());
    if !text.is_empty() {
        truth.texts.push(text);
    }
    if !thinking.is_empty() {
        truth.thinking.push(thinking);
    }
}

fn add(tokens: &mut Tokens, usage: Usage) {
    tokens.uncached_input += usage.uncached_input;
    tokens.cache_read += usage.cache_read;
    tokens.cache_write += usage.cache_write;
    tokens.output += usage.output;
    tokens.reasoning += usage.reasoning;
    tokens.replies += 1;
}
