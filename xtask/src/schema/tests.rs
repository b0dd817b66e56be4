//! What is printed is what the schema says.

use std::fs;
use std::path::PathBuf;

use sabir_core::event::{Event, EventKind};
use sabir_core::fold::timeline::{Change, TimelineFold};
use sabir_core::fold::{Overview, OverviewFold, SessionResult};
use serde_json::{Value, json};

use super::schema_of;

/// Whether a value is of a schema, as far as our schemas go; says where not.
fn conforms(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).ok_or(format!("no {reference}"))?;
        conforms(value, target, root)?;
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        conforms(value, part, root)?;
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let fitting = choices.iter().filter(|one| conforms(value, one, root).is_ok()).count();
            if fitting == 0 || (choice == "oneOf" && fitting > 1) {
                return Err(format!("{value} fits {fitting} of {choice}"));
            }
        }
    }
    if !schema["const"].is_null() && &schema["const"] != value {
        return Err(format!("{value} is not {}", schema["const"]));
    }
    let word = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = |kind: &Value| kind == word || (kind == "number" && word == "integer");
    let fits = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(allowed),
        Value::Null => true,
        kind => allowed(kind),
    };
    if !fits {
        return Err(format!("{value} is not of type {}", schema["type"]));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            return Err(format!("{name} is missing in {value}"));
        }
    }
    if let (Some(fields), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, field) in object {
            // The head's fields are in a schema of their own.
            if let Some(schema) = fields.get(name) {
                conforms(field, schema, root).map_err(|error| format!("{name}: {error}"))?;
            }
        }
    }
    if let (items @ Value::Object(_), Some(list)) = (&schema["items"], value.as_array()) {
        list.iter().try_for_each(|item| conforms(item, items, root))?;
    }
    Ok(())
}

/// Every field that some event has by the schema, with a value that it may have.
fn one_of_each_kind(schema: &Value) -> Vec<Value> {
    fn sample(schema: &Value, root: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return sample(root.pointer(reference.trim_start_matches('#')).expect("a definition"), root);
        }
        if let Some(first) = schema["oneOf"].get(0) {
            return sample(first, root);
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        match schema["type"].as_str().expect("a type") {
            "string" if schema["format"] == "date-time" => json!("2026-11-15T17:53:23.541Z"),
            "string" => json!("text"),
            "integer" => json!(7),
            "number" => json!(0.5),
            "boolean" => json!(true),
            "array" => json!([sample(&schema["items"], root)]),
            "object" => {
                let fields = schema["properties"].as_object().expect("fields");
                let bases = schema["allOf"].as_array().into_iter().flatten().map(|base| sample(base, root));
                let mut object: serde_json::Map<String, Value> =
                    fields.iter().map(|(name, field)| (name.clone(), sample(field, root))).collect();
                bases.for_each(|base| object.extend(base.as_object().expect("an object").clone()));
                object.into()
            }
            other => panic!("no sample of {other}"),
        }
    }
    schema["oneOf"].as_array().expect("kinds").iter().map(|kind| sample(kind, schema)).collect()
}

fn fixtures(file: &str) -> Vec<(PathBuf, String)> {
    let agents = fs::read_dir(crate::root().join("crates/sabir-agents/fixtures")).into_iter().flatten();
    let cases = agents.filter_map(|agent| fs::read_dir(agent.ok()?.path()).ok()).flatten();
    let files = cases.filter_map(|case| Some(case.ok()?.path().join(file)));
    files.filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

#[test]
fn the_schema_has_every_kind_and_every_field() {
    let schema = schema_of::<Event<'static>>().expect("a schema");
    let samples = one_of_each_kind(&schema);
    let tags: Vec<&str> = samples.iter().filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(tags, EventKind::TAGS);
    for sample in samples {
        // A field whose name or type the schema has wrong would not survive reading and writing.
        let json = sample.to_string();
        let event: Event<'_> = serde_json::from_str(&json).expect("an event");
        assert_eq!(serde_json::to_value(&event).expect("JSON"), sample);
    }
}

#[test]
fn events_conform_to_the_schema() {
    let schema = schema_of::<Event<'static>>().expect("a schema");
    for sample in one_of_each_kind(&schema) {
        conforms(&sample, &schema, &schema).expect("a sample conforms");
        let mut broken = sample.clone();
        broken["seq"] = json!("one");
        conforms(&broken, &schema, &schema).expect_err("a seq is a number");
    }
    for (path, text) in fixtures("events.jsonl") {
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).expect("JSON");
            conforms(&event, &schema, &schema).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

#[test]
fn results_conform_to_the_schema() {
    let schema = schema_of::<SessionResult>().expect("a schema");
    for (path, text) in fixtures("result.json") {
        let result: Value = serde_json::from_str(&text).expect("JSON");
        conforms(&result, &schema, &schema).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn timelines_and_overviews_conform_to_the_schema() {
    let timeline = schema_of::<Change>().expect("a schema");
    let overview = schema_of::<Overview>().expect("a schema");
    let mut seen = 0;
    for (path, text) in fixtures("events.jsonl") {
        let (mut items, mut figures) = (TimelineFold::default(), OverviewFold::default());
        let mut changes = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let event: Event<'_> = serde_json::from_str(line).expect("an event");
            items.event(number, &event, &mut changes);
            figures.event(&event);
        }
        for change in &changes {
            let change = serde_json::to_value(change).expect("JSON");
            conforms(&change, &timeline, &timeline).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let figures = serde_json::to_value(figures.overview()).expect("JSON");
        conforms(&figures, &overview, &overview).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        seen += changes.len();
    }
    assert!(seen > 1_000, "only {seen} changes were seen");
}
