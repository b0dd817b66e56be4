//! Google's `generateContent` and `streamGenerateContent`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::script::{Block, Failure, Reply, Usage};
use crate::server::Context;
use crate::sse::{Delta, Frame, event, pieces};

/// The names of the tools in a request.
pub(crate) fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let declared = tools.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    declared.filter_map(|function| function["name"].as_str().map(str::to_owned)).collect()
}

/// The response as a stream: each event is a response with the next part; the last one has the end and the usage.
pub(crate) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut parts = Vec::new();
    for block in &reply.blocks {
        match block {
            Block::Thinking(text) => parts.extend(pieces(text).into_iter().map(|piece| (thought(piece), Delta::Other))),
            Block::Text(text) => {
                parts.extend(pieces(text).into_iter().map(|piece| (json!({"text": piece}), Delta::Text(piece.to_owned()))));
            }
            Block::Call(_) => parts.push((part(block), Delta::Other)),
        }
    }
    if parts.is_empty() {
        parts.push((json!({"text": ""}), Delta::None));
    }
    let last = parts.len() - 1;
    let frame = |(index, (part, delta)): (usize, (Value, Delta))| {
        let end = (index == last).then_some(reply.usage);
        ascii(event(None, &response(context, &json!([part]), end), delta))
    };
    parts.into_iter().enumerate().map(frame).collect()
}

/// The response as one object.
pub(crate) fn whole(reply: &Reply, context: &Context) -> Value {
    let parts = Value::Array(reply.blocks.iter().map(part).collect());
    response(context, &parts, Some(reply.usage))
}

/// The body of a refusal.
pub(crate) fn failure(failure: &Failure) -> Value {
    let status = match failure.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": failure.status, "message": failure.message, "status": status}})
}

fn thought(text: &str) -> Value {
    json!({"text": text, "thought": true})
}

fn part(block: &Block) -> Value {
    match block {
        Block::Thinking(text) => thought(text),
        Block::Text(text) => json!({"text": text}),
        Block::Call(call) => json!({"functionCall": {"id": call.id, "name": call.name, "args": call.input.value()}}),
    }
}

/// A response; the usage comes with the end.
fn response(context: &Context, parts: &Value, end: Option<Usage>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if end.is_some() {
        candidate["finishReason"] = json!("STOP");
    }
    let mut response =
        json!({"candidates": [candidate], "modelVersion": context.model, "responseId": format!("gen-{}", context.id)});
    if let Some(usage) = end {
        response["usageMetadata"] = metadata(usage);
    }
    response
}

/// What is cached is a part of the prompt here, but thoughts are beside the candidates.
fn metadata(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.input(),
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input() + usage.output,
    })
}

/// Google escapes what is not ASCII, and its own client breaks an event at a raw U+2028.
fn ascii(mut frame: Frame) -> Frame {
    if !frame.bytes.is_ascii() {
        let mut escaped = String::with_capacity(frame.bytes.len() * 2);
        for character in frame.bytes.chars() {
            if character.is_ascii() {
                escaped.push(character);
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
        frame.bytes = escaped;
    }
    frame
}
