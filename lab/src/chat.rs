//! OpenAI's chat completions.

use serde_json::{Value, json};

use crate::script::{Block, Reply, Usage};
use crate::server::{CREATED, Context};
use crate::sse::{Delta, Frame, event, pieces};

/// The names of the tools in a request.
pub(crate) fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
}

/// The response as a stream.
pub(crate) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut say = |choices: Value, usage: Value, delta: Delta| {
        let mut data = json!({
            "id": format!("chatcmpl-{}", context.id), "object": "chat.completion.chunk", "created": CREATED, "model": context.model,
            "choices": choices,
        });
        if !usage.is_null() {
            data["usage"] = usage;
        }
        frames.push(event(None, &data, delta));
    };
    let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut add = |data: Value, delta: Delta| say(choice(data, Value::Null), Value::Null, delta);
    add(json!({"role": "assistant", "content": ""}), Delta::None);
    let mut calls = 0;
    for block in &reply.blocks {
        match block {
            Block::Thinking(text) => {
                for piece in pieces(text) {
                    add(json!({"reasoning_content": piece}), Delta::Other);
                }
            }
            Block::Text(text) => {
                for piece in pieces(text) {
                    add(json!({"content": piece}), Delta::Text(piece.to_owned()));
                }
            }
            Block::Call(call) => {
                let opened = json!({"name": call.name, "arguments": ""});
                let opened = json!({"index": calls, "id": call.id, "type": "function", "function": opened});
                add(json!({"tool_calls": [opened]}), Delta::Other);
                for piece in pieces(&call.input.value().to_string()) {
                    add(json!({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}), Delta::Other);
                }
                calls += 1;
            }
        }
    }
    say(choice(json!({}), json!(finish_reason(reply))), Value::Null, Delta::None);
    say(json!([]), usage(reply.usage), Delta::None);
    frames.push(Frame { bytes: "data: [DONE]\n\n".to_owned(), delta: Delta::None });
    frames
}

/// The response as one object.
pub(crate) fn whole(reply: &Reply, context: &Context) -> Value {
    let text = reply.whole_text();
    let thinking = reply.whole_thinking();
    let mut message = json!({"role": "assistant", "content": if text.is_empty() { Value::Null } else { json!(text) }});
    if !thinking.is_empty() {
        message["reasoning_content"] = json!(thinking);
    }
    let calls = reply.calls().map(|call| {
        let function = json!({"name": call.name, "arguments": call.input.value().to_string()});
        json!({"id": call.id, "type": "function", "function": function})
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    json!({
        "id": format!("chatcmpl-{}", context.id), "object": "chat.completion", "created": CREATED, "model": context.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply.usage),
    })
}

fn finish_reason(reply: &Reply) -> &'static str {
    if reply.calls().next().is_some() { "tool_calls" } else { "stop" }
}

/// What is cached is a part of the prompt here, and reasoning is a part of the completion.
fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input(),
        "completion_tokens": usage.output,
        "total_tokens": usage.input() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}
