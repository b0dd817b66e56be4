//! JSON Schema of an event: the fields of its kind and the head that every event has.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Event, EventKind};
use crate::time::Timestamp;

/// The head as it is in JSON.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[allow(dead_code, reason = "only its schema is used")]
struct EventHead {
    /// The run it belongs to.
    run_id: String,
    /// Its place in the run: dense, from 1.
    seq: u64,
    /// When: the agent's own time where it gives one, else when the line was read, else absent.
    at: Option<Timestamp>,
    /// 1-based number of the raw line that caused it.
    line: Option<u64>,
    /// The tool call that started the sub-agent which this happened in.
    parent_tool_call_id: Option<String>,
}

impl JsonSchema for Event<'_> {
    fn schema_name() -> Cow<'static, str> {
        "RunEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let head = generator.subschema_for::<EventHead>();
        let mut schema = EventKind::json_schema(generator);
        schema.insert("description".into(), json!("One thing that happened in a run."));
        let kinds = schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
        for kind in kinds.filter_map(Value::as_object_mut) {
            if let Some(tag) = kind.get("properties").and_then(|fields| fields["kind"]["const"].as_str()) {
                kind.insert("title".into(), json!(format!("{}Event", capitalized(tag))));
            }
            kind.insert("allOf".into(), json!([head]));
            leave_out_null(kind);
        }
        for record in generator.definitions_mut().values_mut().filter_map(Value::as_object_mut) {
            leave_out_null(record);
        }
        schema
    }
}

/// What is absent is left out of an event, so no field is `null`, and a field that could be is not required.
fn leave_out_null(object: &mut Map<String, Value>) {
    let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let mut optional = Vec::new();
    for (name, field) in fields.iter_mut() {
        let Some(field) = field.as_object_mut() else { continue };
        if let Some(types) = field.get_mut("type").and_then(Value::as_array_mut)
            && types.contains(&json!("null"))
        {
            types.retain(|word| word != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                field.insert("type".into(), only);
            }
            optional.push(name.clone());
        }
        if let Some(Value::Array(choices)) = field.get("anyOf")
            && let [choice, null] = choices.as_slice()
            && null == &json!({"type": "null"})
            && let Some(choice) = choice.as_object().cloned()
        {
            field.remove("anyOf");
            field.extend(choice);
            optional.push(name.clone());
        }
    }
    if let Some(required) = object.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| optional.iter().any(|other| other == name)));
    }
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
