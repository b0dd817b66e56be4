//! `/chat/completions`: chunks of one message.

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{Call, Reply, ReplyEnd, Request, Usage, number_at, text_at};
use crate::http::said_in;
use crate::out::Out;
use crate::trouble::{Broken, Trouble};

pub(super) fn body(request: &Request<'_>) -> Value {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let function = json!({"name": tool.name, "description": tool.about, "parameters": (tool.parameters)()});
            json!({"type": "function", "function": function})
        })
        .collect();
    let mut messages = vec![json!({"role": "system", "content": request.instructions})];
    messages.extend_from_slice(request.items);
    let mut body = json!({"model": request.model, "messages": messages, "tools": tools, "stream": true});
    if !request.plain {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

#[derive(Default)]
pub(crate) struct Stream {
    text: String,
    refusal: String,
    calls: Vec<Numbered>,
    finish: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
}

/// A call in the making.
struct Numbered {
    index: Option<u64>,
    call: Call,
}

impl Stream {
    pub(super) fn event(&mut self, chunk: &Value, out: &mut Out<'_>) -> Result<(), Broken> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            let said = said_in(chunk);
            return Err(Trouble::in_stream(&said.code, &said.message).into());
        }
        if let Some(model) = text_at(chunk, "/model") {
            self.model = Some(model.to_owned());
        }
        // Some endpoints repeat the growing figure in every chunk: the last one counts.
        self.usage = usage(chunk).or(self.usage);
        let id = text_at(chunk, "/id");
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        // An endpoint that does not stream says it all in `message`.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        if let Some(thought) = text_at(delta, "/reasoning_content").or(text_at(delta, "/reasoning")) {
            out.thinking(thought, id)?;
        }
        if let Some(text) = text_at(delta, "/content") {
            self.text.push_str(text);
            out.text(text, id)?;
        }
        if let Some(text) = text_at(delta, "/refusal") {
            self.refusal.push_str(text);
            out.text(text, id)?;
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(piece);
        }
        if let Some(reason) = text_at(choice, "/finish_reason") {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    /// Adds a piece of a call. A piece belongs to the call of its index, except that an id that is not that call's begins
    /// another one: some endpoints number all calls alike.
    fn call(&mut self, piece: &Value) {
        let index = number_at(piece, "/index");
        let id = text_at(piece, "/id");
        let goes_on = |known: &&mut Numbered| known.index == index && id.is_none_or(|id| id == known.call.id);
        let found = match index {
            Some(_) => self.calls.iter_mut().rev().find(goes_on),
            None => self.calls.last_mut().filter(goes_on),
        };
        let known = match found {
            Some(known) => known,
            None => {
                let id = id.map_or_else(|| format!("call_{}", self.calls.len() + 1), str::to_owned);
                let call = Call { id, name: String::new(), arguments: String::new() };
                self.calls.push(Numbered { index, call });
                let Some(last) = self.calls.last_mut() else { return };
                last
            }
        };
        // Some endpoints repeat the name in every piece.
        if let Some(name) = text_at(piece, "/function/name").filter(|name| known.call.name != *name) {
            known.call.name.push_str(name);
        }
        match piece.pointer("/function/arguments") {
            Some(Value::String(more)) => known.call.arguments.push_str(more),
            Some(Value::Null) | None => {}
            // Some endpoints give the object itself.
            Some(object) => known.call.arguments = object.to_string(),
        }
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub(super) fn finish(self) -> Option<Reply> {
        let reason = self.finish?;
        let calls: Vec<Call> = self.calls.into_iter().map(|numbered| numbered.call).collect();
        let end = match reason.as_str() {
            "content_filter" => ReplyEnd::Refused,
            _ if !self.refusal.is_empty() => ReplyEnd::Refused,
            "length" => ReplyEnd::Length,
            _ => ReplyEnd::Done,
        };
        let item = message(&self.text, &calls);
        Some(Reply {
            text: self.text,
            calls,
            stop_reason: Some(reason),
            end,
            usage: self.usage,
            model: self.model,
            items: vec![item],
        })
    }
}

/// The answer as the next request repeats it.
fn message(text: &str, calls: &[Call]) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        // Endpoints read the arguments again, and refuse the whole conversation when they can't.
        let arguments = |call: &Call| match serde_json::from_str::<IgnoredAny>(&call.arguments) {
            Ok(_) => call.arguments.clone(),
            Err(_) => "{}".to_owned(),
        };
        let function = |call: &Call| json!({"name": call.name, "arguments": arguments(call)});
        let calls: Vec<Value> =
            calls.iter().map(|call| json!({"id": call.id, "type": "function", "function": function(call)})).collect();
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

fn usage(chunk: &Value) -> Option<Usage> {
    Some(Usage {
        input: number_at(chunk, "/usage/prompt_tokens")?,
        cached: number_at(chunk, "/usage/prompt_tokens_details/cached_tokens"),
        output: number_at(chunk, "/usage/completion_tokens")?,
        reasoning: number_at(chunk, "/usage/completion_tokens_details/reasoning_tokens"),
    })
}
