//! Redaction of JSON texts, such as tool arguments.

use serde_json::Value;

use super::{Kinds, Redactor};

/// Redacts a JSON text; `None` if it has no secrets.
pub(super) fn redact(redactor: &Redactor, text: &str) -> Option<String> {
    let plain = redactor.redact_text(text, Kinds::All);
    // Without escapes, strings equal their source text.
    if plain.is_none() && memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return None;
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return plain };
    if !redact_value(redactor, &mut value) {
        // The text matched but no string did: a match across an escape. Keep it only if the result is valid JSON.
        return plain.filter(|plain| serde_json::from_str::<serde::de::IgnoredAny>(plain).is_ok());
    }
    serde_json::to_string(&value).ok()
}

fn redact_value(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let new = redactor.redact_text(text, Kinds::All);
            let changed = new.is_some();
            if let Some(new) = new {
                *text = new;
            }
            changed
        }
        // A secret number becomes a string.
        Value::Number(number) => {
            let new = redactor.redact_text(&number.to_string(), Kinds::KnownSecrets);
            let changed = new.is_some();
            if let Some(new) = new {
                *value = Value::String(new);
            }
            changed
        }
        Value::Array(items) => items.iter_mut().filter_map(|item| redact_value(redactor, item).then_some(())).count() > 0,
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let mut changed = false;
            for name in names {
                if let Some(new) = redactor.redact_text(&name, Kinds::All)
                    && let Some(value) = fields.remove(&name)
                {
                    fields.insert(new, value);
                    changed = true;
                }
            }
            fields.values_mut().fold(changed, |changed, item| redact_value(redactor, item) || changed)
        }
        _ => false,
    }
}
