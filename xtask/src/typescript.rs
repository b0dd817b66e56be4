//! TypeScript types of a JSON Schema: as much of the language as our own schemas use.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

/// The names that the types of a schema have, its definitions only.
pub(crate) fn names(schema: &Value) -> BTreeSet<String> {
    schema["$defs"].as_object().map(|types| types.keys().cloned().collect()).unwrap_or_default()
}

/// A module with every type of a schema. Names that `elsewhere` has are imported from that module.
pub(crate) fn write(schema: &Value, elsewhere: &BTreeSet<String>, module: &str) -> String {
    let mut text = String::from("// Written by `cargo xtask schema` from the Rust types. Do not edit.\n");
    let types = schema["$defs"].as_object();
    let imported: Vec<&str> = names(schema)
        .intersection(elsewhere)
        .filter_map(|name| types?.get_key_value(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if !imported.is_empty() {
        let _ = write!(text, "\nimport type {{ {} }} from \"./{module}\";\n", imported.join(", "));
    }
    let title = schema["title"].as_str().unwrap_or("Root");
    declare(title, schema, &mut text);
    for (name, schema) in types.into_iter().flatten().filter(|(name, _)| !elsewhere.contains(*name)) {
        declare(name, schema, &mut text);
    }
    text
}

/// One exported type.
fn declare(name: &str, schema: &Value, out: &mut String) {
    out.push('\n');
    if let Some(kinds) = titled_choices(schema) {
        comment(schema, "", out);
        let names: Vec<String> = kinds.iter().map(|(title, _)| format!("\n  | {title}")).collect();
        let _ = writeln!(out, "export type {name} ={};", names.concat());
        for (title, kind) in kinds {
            declare(title, kind, out);
        }
        return;
    }
    comment(schema, "", out);
    if let Some(choices) = schema["oneOf"].as_array().filter(|choices| choices.iter().all(|one| one["properties"].is_object())) {
        let _ = writeln!(out, "export type {name} =");
        for (place, choice) in choices.iter().enumerate() {
            comment(choice, "  ", out);
            out.push_str("  | {\n");
            fields(choice, "    ", out);
            out.push_str(if place + 1 == choices.len() { "  };\n" } else { "  }\n" });
        }
    } else if schema["properties"].is_object() {
        let base = schema["allOf"][0]["$ref"].as_str().map(|base| format!(" extends {}", last_part(base)));
        let _ = writeln!(out, "export interface {name}{} {{", base.unwrap_or_default());
        fields(schema, "  ", out);
        out.push_str("}\n");
    } else {
        let _ = writeln!(out, "export type {name} = {};", expression(schema));
    }
}

/// The choices of a union whose members are types of their own.
fn titled_choices(schema: &Value) -> Option<Vec<(&str, &Value)>> {
    schema["oneOf"].as_array()?.iter().map(|kind| Some((kind["title"].as_str()?, kind))).collect()
}

fn fields(schema: &Value, indent: &str, out: &mut String) {
    let required: BTreeSet<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = schema["properties"].as_object().into_iter().flatten();
    // The tag first: it is what a reader looks for.
    let (tag, rest): (Vec<_>, Vec<_>) = all.partition(|(name, _)| *name == "kind" && field_is_tag(schema));
    for (name, field) in tag.into_iter().chain(rest) {
        comment(field, indent, out);
        let mark = if required.contains(name.as_str()) { "" } else { "?" };
        let _ = writeln!(out, "{indent}{name}{mark}: {};", expression(field));
    }
}

/// Whether `kind` tells the members of a union apart, and is not a field like any other.
fn field_is_tag(schema: &Value) -> bool {
    !schema["properties"]["kind"]["const"].is_null()
}

/// A type where it is used.
fn expression(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return last_part(reference).to_owned();
    }
    if !schema["const"].is_null() {
        return schema["const"].to_string();
    }
    for choice in ["oneOf", "anyOf", "enum"] {
        if let Some(choices) = schema[choice].as_array() {
            let each = choices.iter().map(|one| if choice == "enum" { one.to_string() } else { expression(one) });
            return each.collect::<Vec<_>>().join(" | ");
        }
    }
    match &schema["type"] {
        Value::String(word) => of_type(word, schema),
        Value::Array(words) => {
            let each = words.iter().filter_map(Value::as_str).map(|word| of_type(word, schema));
            each.collect::<Vec<_>>().join(" | ")
        }
        _ => "unknown".to_owned(),
    }
}

fn of_type(word: &str, schema: &Value) -> String {
    match word {
        "integer" | "number" => "number".to_owned(),
        "array" => {
            let item = expression(&schema["items"]);
            if item.contains(' ') { format!("({item})[]") } else { format!("{item}[]") }
        }
        "object" if schema["additionalProperties"].is_object() => {
            format!("Record<string, {}>", expression(&schema["additionalProperties"]))
        }
        "object" => "Record<string, unknown>".to_owned(),
        other => other.to_owned(),
    }
}

fn comment(schema: &Value, indent: &str, out: &mut String) {
    let Some(text) = schema["description"].as_str() else { return };
    // An enum's words carry the meaning of each; they belong to the type's comment.
    let words = schema["oneOf"].as_array().into_iter().flatten();
    let words: Vec<String> =
        words.filter_map(|word| Some(format!("- `{}`: {}", word["const"].as_str()?, word["description"].as_str()?))).collect();
    let lines: Vec<&str> = text.lines().chain(words.iter().map(String::as_str)).collect();
    if let [line] = lines.as_slice() {
        let _ = writeln!(out, "{indent}/** {line} */");
        return;
    }
    let _ = writeln!(out, "{indent}/**");
    for line in lines {
        let _ = writeln!(out, "{indent} * {line}");
    }
    let _ = writeln!(out, "{indent} */");
}

fn last_part(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}
