//! `/responses`: typed events, items, and one response at the end.

use std::collections::BTreeMap;

use sabir_core::dialect::Said;
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
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.about,
                "parameters": (tool.parameters)(),
                "strict": false,
            })
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "instructions": request.instructions,
        "input": request.items,
        "tools": tools,
        "parallel_tool_calls": true,
        "stream": true,
        // Nothing is left at the endpoint: the conversation is sent whole every time.
        "store": false,
    });
    if !request.plain {
        // Without it a model forgets between turns what it thought.
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    body
}

/// Which text a piece belongs to: the item's place, the kind of part, the part's place.
type Part = (u64, &'static str, u64);

#[derive(Default)]
pub(crate) struct Stream {
    told: BTreeMap<Part, Said>,
    items: Vec<Value>,
    response: Option<Value>,
    refused: bool,
}

impl Stream {
    pub(super) fn event(&mut self, event: Value, out: &mut Out<'_>) -> Result<(), Broken> {
        let kind = text_at(&event, "/type").unwrap_or_default().to_owned();
        match kind.as_str() {
            "response.output_text.delta" => self.delta(&event, "text", "/content_index", out),
            "response.refusal.delta" => self.delta(&event, "refusal", "/content_index", out),
            "response.reasoning_summary_text.delta" => self.delta(&event, "summary", "/summary_index", out),
            "response.reasoning_text.delta" => self.delta(&event, "reasoning", "/content_index", out),
            "response.output_item.done" => {
                let place = number_at(&event, "/output_index").unwrap_or(self.items.len() as u64);
                let Some(item) = event.get("item") else { return Ok(()) };
                self.item(place, item, out)
            }
            "response.completed" | "response.incomplete" => {
                event.get("response").map_or(Ok(()), |response| self.whole(response.clone(), out))
            }
            "response.failed" => {
                let said = said_in(event.get("response").unwrap_or(&event));
                Err(Trouble::in_stream(&said.code, &said.message).into())
            }
            "error" => {
                let mut event = event;
                // The word `error` is the event's type, not the error's.
                if let Some(fields) = event.as_object_mut() {
                    fields.remove("type");
                }
                let said = said_in(&event);
                Err(Trouble::in_stream(&said.code, &said.message).into())
            }
            // Beginnings and endings of what the events above tell.
            _ => Ok(()),
        }
    }

    /// Reads the response itself. Endpoints that do not stream say everything here.
    pub(super) fn whole(&mut self, response: Value, out: &mut Out<'_>) -> Result<(), Broken> {
        if text_at(&response, "/status") == Some("failed") {
            let said = said_in(&response);
            return Err(Trouble::in_stream(&said.code, &said.message).into());
        }
        if self.items.is_empty() {
            for (place, item) in response.get("output").and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.item(place as u64, item, out)?;
            }
        }
        self.response = Some(response);
        Ok(())
    }

    fn delta(&mut self, event: &Value, kind: &'static str, part: &str, out: &mut Out<'_>) -> Result<(), Broken> {
        let Some(delta) = text_at(event, "/delta") else { return Ok(()) };
        let place = (number_at(event, "/output_index").unwrap_or(0), kind, number_at(event, part).unwrap_or(0));
        self.told.entry(place).or_default().push(delta);
        tell(place, delta, text_at(event, "/item_id"), out)
    }

    /// Takes an item that is complete, and tells what its pieces did not.
    fn item(&mut self, place: u64, item: &Value, out: &mut Out<'_>) -> Result<(), Broken> {
        let id = text_at(item, "/id");
        let parts = |list: &str| item.get(list).and_then(Value::as_array).into_iter().flatten().enumerate();
        for (part, content) in parts("content") {
            let (kind, text) = match text_at(content, "/type") {
                Some("output_text") => ("text", text_at(content, "/text")),
                Some("refusal") => ("refusal", text_at(content, "/refusal")),
                Some("reasoning_text") => ("reasoning", text_at(content, "/text")),
                _ => continue,
            };
            self.refused |= kind == "refusal";
            self.rest((place, kind, part as u64), text, id, out)?;
        }
        for (part, summary) in parts("summary") {
            self.rest((place, "summary", part as u64), text_at(summary, "/text"), id, out)?;
        }
        self.items.push(item.clone());
        Ok(())
    }

    fn rest(&mut self, part: Part, text: Option<&str>, id: Option<&str>, out: &mut Out<'_>) -> Result<(), Broken> {
        let rest = self.told.entry(part).or_default().rest(text.unwrap_or_default());
        tell(part, rest, id, out)
    }

    pub(super) fn finish(self) -> Option<Reply> {
        let response = self.response?;
        let mut reply = Reply {
            stop_reason: text_at(&response, "/incomplete_details/reason").or(text_at(&response, "/status")).map(str::to_owned),
            usage: usage(&response),
            model: text_at(&response, "/model").map(str::to_owned),
            ..Reply::default()
        };
        reply.end = match text_at(&response, "/incomplete_details/reason") {
            Some("content_filter") => ReplyEnd::Refused,
            _ if self.refused => ReplyEnd::Refused,
            Some(_) => ReplyEnd::Length,
            None => ReplyEnd::Done,
        };
        for item in self.items {
            match text_at(&item, "/type") {
                Some("message") => reply.text = text_of(&item),
                Some("function_call") => reply.calls.push(Call {
                    id: text_at(&item, "/call_id").or(text_at(&item, "/id")).unwrap_or_default().to_owned(),
                    name: text_at(&item, "/name").unwrap_or_default().to_owned(),
                    arguments: text_at(&item, "/arguments").unwrap_or_default().to_owned(),
                }),
                _ => {}
            }
            reply.items.extend(sent_back(item));
        }
        Some(reply)
    }
}

fn tell((_, kind, part): Part, text: &str, id: Option<&str>, out: &mut Out<'_>) -> Result<(), Broken> {
    // The parts of a summary are paragraphs of their own.
    let own_id = id.filter(|_| part > 0).map(|id| format!("{id}:{part}"));
    let id = own_id.as_deref().or(id);
    match kind {
        "summary" | "reasoning" => out.thinking(text, id)?,
        _ => out.text(text, id)?,
    }
    Ok(())
}

fn text_of(message: &Value) -> String {
    let content = message.get("content").and_then(Value::as_array);
    content.into_iter().flatten().filter_map(|part| text_at(part, "/text")).collect()
}

/// An item as the next request repeats it: the endpoint has kept nothing, so ids mean nothing, and reasoning is of use
/// only in its sealed form.
fn sent_back(mut item: Value) -> Option<Value> {
    let useless = text_at(&item, "/type") == Some("reasoning") && text_at(&item, "/encrypted_content").is_none();
    let fields = item.as_object_mut()?;
    fields.remove("id");
    fields.remove("status");
    (!useless).then_some(item)
}

fn usage(response: &Value) -> Option<Usage> {
    Some(Usage {
        input: number_at(response, "/usage/input_tokens")?,
        cached: number_at(response, "/usage/input_tokens_details/cached_tokens"),
        output: number_at(response, "/usage/output_tokens")?,
        reasoning: number_at(response, "/usage/output_tokens_details/reasoning_tokens"),
    })
}
