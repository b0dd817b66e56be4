//! OpenAI's Responses.

use serde_json::{Value, json};

use crate::script::{Block, Call, Failure, Input, Reply, Usage};
use crate::server::{CREATED, Context};
use crate::sse::{Delta, Frame, event, pieces};

/// The names of the tools in a request.
pub(crate) fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str().or_else(|| tool["type"].as_str()).map(str::to_owned)).collect()
}

/// The response as a stream.
pub(crate) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut stream = Stream { frames: Vec::new() };
    let started = response(context, "in_progress", &json!([]), &Value::Null);
    stream.say("response.created", json!({"response": started}), Delta::None);
    stream.say("response.in_progress", json!({"response": started}), Delta::None);
    for (index, block) in reply.blocks.iter().enumerate() {
        let item = item(block, context, index);
        match block {
            Block::Thinking(text) => stream.thinking(text, &item, index),
            Block::Text(text) => stream.text(text, &item, index),
            Block::Call(call) => stream.call(call, &item, index),
        }
        stream.say("response.output_item.done", json!({"output_index": index, "item": item}), Delta::None);
    }
    stream.say("response.completed", json!({"response": whole(reply, context)}), Delta::None);
    stream.frames
}

/// The response as one object.
pub(crate) fn whole(reply: &Reply, context: &Context) -> Value {
    let items = reply.blocks.iter().enumerate().map(|(index, block)| item(block, context, index));
    response(context, "completed", &Value::Array(items.collect()), &usage(reply.usage))
}

/// The body of a refusal, the same for both of OpenAI's formats.
pub(crate) fn failure(failure: &Failure) -> Value {
    let (kind, code) = match failure.status {
        401 => ("invalid_request_error", "invalid_api_key"),
        429 => ("rate_limit_exceeded", "rate_limit_exceeded"),
        400..=499 => ("invalid_request_error", "invalid_value"),
        _ => ("server_error", "server_error"),
    };
    json!({"error": {"message": failure.message, "type": kind, "param": null, "code": code}})
}

/// The events of a response, numbered.
struct Stream {
    frames: Vec<Frame>,
}

impl Stream {
    fn say(&mut self, name: &str, mut data: Value, delta: Delta) {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.frames.len());
        self.frames.push(event(Some(name), &data, delta));
    }

    /// An event about a part of an item.
    fn part(&mut self, name: &str, item: &Value, index: usize, mut data: Value, delta: Delta) {
        data["item_id"] = item["id"].clone();
        data["output_index"] = json!(index);
        self.say(name, data, delta);
    }

    /// The item, with some of it still to come.
    fn open(&mut self, item: &Value, index: usize, missing: (&str, Value)) {
        let mut opened = item.clone();
        opened[missing.0] = missing.1;
        if opened["status"].is_string() {
            opened["status"] = json!("in_progress");
        }
        self.say("response.output_item.added", json!({"output_index": index, "item": opened}), Delta::None);
    }

    fn thinking(&mut self, text: &str, item: &Value, index: usize) {
        self.open(item, index, ("summary", json!([])));
        let part = |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
        self.part("response.reasoning_summary_part.added", item, index, part(""), Delta::None);
        for piece in pieces(text) {
            let data = json!({"summary_index": 0, "delta": piece});
            self.part("response.reasoning_summary_text.delta", item, index, data, Delta::Other);
        }
        let data = json!({"summary_index": 0, "text": text});
        self.part("response.reasoning_summary_text.done", item, index, data, Delta::None);
        self.part("response.reasoning_summary_part.done", item, index, part(text), Delta::None);
    }

    fn text(&mut self, text: &str, item: &Value, index: usize) {
        self.open(item, index, ("content", json!([])));
        let part = |text: &str| json!({"content_index": 0, "part": {"type": "output_text", "text": text, "annotations": []}});
        self.part("response.content_part.added", item, index, part(""), Delta::None);
        for piece in pieces(text) {
            let data = json!({"content_index": 0, "delta": piece, "logprobs": []});
            self.part("response.output_text.delta", item, index, data, Delta::Text(piece.to_owned()));
        }
        let data = json!({"content_index": 0, "text": text, "logprobs": []});
        self.part("response.output_text.done", item, index, data, Delta::None);
        self.part("response.content_part.done", item, index, part(text), Delta::None);
    }

    fn call(&mut self, call: &Call, item: &Value, index: usize) {
        let (key, kind, text) = match &call.input {
            Input::Json(value) => ("arguments", "function_call_arguments", value.to_string()),
            Input::Freeform(text) => ("input", "custom_tool_call_input", text.clone()),
        };
        self.open(item, index, (key, json!("")));
        for piece in pieces(&text) {
            self.part(&format!("response.{kind}.delta"), item, index, json!({"delta": piece}), Delta::Other);
        }
        self.part(&format!("response.{kind}.done"), item, index, json!({key: text}), Delta::None);
    }
}

fn item(block: &Block, context: &Context, index: usize) -> Value {
    let id = |kind: &str| format!("{kind}_{}_{index}", context.id);
    match block {
        Block::Thinking(text) => json!({
            "id": id("rs"), "type": "reasoning", "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "bGFi",
        }),
        Block::Text(text) => json!({
            "id": id("msg"), "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Block::Call(Call { id: call_id, name, input: Input::Json(value) }) => json!({
            "id": id("fc"), "type": "function_call", "status": "completed", "call_id": call_id, "name": name,
            "arguments": value.to_string(),
        }),
        Block::Call(Call { id: call_id, name, input: Input::Freeform(text) }) => json!({
            "id": id("ctc"), "type": "custom_tool_call", "status": "completed", "call_id": call_id, "name": name,
            "input": text,
        }),
    }
}

fn response(context: &Context, status: &str, output: &Value, usage: &Value) -> Value {
    json!({
        "id": format!("resp_{}", context.id), "object": "response", "created_at": CREATED, "status": status,
        "model": context.model, "output": output, "parallel_tool_calls": true, "tools": [], "error": null,
        "incomplete_details": null, "usage": usage,
    })
}

/// What is cached is a part of the input here, and reasoning is a part of the output.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input(),
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input() + usage.output,
    })
}
