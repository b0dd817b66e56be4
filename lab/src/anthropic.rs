//! Anthropic's Messages.

use serde_json::{Value, json};

use crate::script::{Block, Failure, Reply, Usage};
use crate::server::Context;
use crate::sse::{Delta, Frame, event, pieces};

/// A signature that nobody checks.
const SIGNATURE: &str = "bGFiLXNpZ25hdHVyZQ==";

/// The names of the tools in a request.
pub(crate) fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str().or_else(|| tool["type"].as_str()).map(str::to_owned)).collect()
}

/// The response as a stream.
pub(crate) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut say = |data: Value, delta: Delta| {
        let name = data["type"].as_str().map(str::to_owned);
        frames.push(event(name.as_deref(), &data, delta));
    };
    // A real response starts with one token of output; the rest comes with the end.
    let start = Usage { output: 1, ..reply.usage };
    say(json!({"type": "message_start", "message": message(context, &json!([]), &Value::Null, &usage(start))}), Delta::None);
    say(json!({"type": "ping"}), Delta::None);
    for (index, block) in reply.blocks.iter().enumerate() {
        let opened = match block {
            Block::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Block::Text(_) => json!({"type": "text", "text": ""}),
            Block::Call(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
        };
        say(json!({"type": "content_block_start", "index": index, "content_block": opened}), Delta::None);
        let mut delta = |data: Value, delta: Delta| {
            say(json!({"type": "content_block_delta", "index": index, "delta": data}), delta);
        };
        match block {
            Block::Thinking(text) => {
                for piece in pieces(text) {
                    delta(json!({"type": "thinking_delta", "thinking": piece}), Delta::Other);
                }
                delta(json!({"type": "signature_delta", "signature": SIGNATURE}), Delta::Other);
            }
            Block::Text(text) => {
                for piece in pieces(text) {
                    delta(json!({"type": "text_delta", "text": piece}), Delta::Text(piece.to_owned()));
                }
            }
            Block::Call(call) => {
                for piece in pieces(&call.input.value().to_string()) {
                    delta(json!({"type": "input_json_delta", "partial_json": piece}), Delta::Other);
                }
            }
        }
        say(json!({"type": "content_block_stop", "index": index}), Delta::None);
    }
    let end = json!({"stop_reason": stop_reason(reply), "stop_sequence": null});
    say(json!({"type": "message_delta", "delta": end, "usage": usage(reply.usage)}), Delta::None);
    say(json!({"type": "message_stop"}), Delta::None);
    frames
}

/// The response as one object.
pub(crate) fn whole(reply: &Reply, context: &Context) -> Value {
    let blocks = reply.blocks.iter().map(|block| match block {
        Block::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Call(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input.value()}),
    });
    let content = Value::Array(blocks.collect());
    message(context, &content, &json!(stop_reason(reply)), &usage(reply.usage))
}

/// The body of a refusal.
pub(crate) fn failure(failure: &Failure, context: &Context) -> Value {
    let kind = match failure.status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": format!("req_{}", context.id)})
}

fn message(context: &Context, content: &Value, stop_reason: &Value, usage: &Value) -> Value {
    json!({
        "id": format!("msg_{}", context.id), "type": "message", "role": "assistant", "model": context.model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
    })
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.calls().next().is_some() { "tool_use" } else { "end_turn" }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.uncached_input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": usage.output,
        "service_tier": "standard",
    })
}
