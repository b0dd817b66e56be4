//! Secrets in JSON texts: the arguments of tools.

use serde_json::Value;

use super::{Only, Redactor};

/// The JSON text without its secrets; `None` when there are none.
pub(super) fn redact(redactor: &Redactor, text: &str) -> Option<String> {
    let plain = redactor.whole(text, Only::All);
    // Without an escape, what stands in the strings is what stands in the text.
    if plain.is_none() && memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return None;
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return plain };
    if !change(redactor, &mut value) {
        // What the text has and its strings have not is a key that was cut by an escape; the text is right as it is only if it is
        // JSON still.
        return plain.filter(|plain| serde_json::from_str::<serde::de::IgnoredAny>(plain).is_ok());
    }
    serde_json::to_string(&value).ok()
}

fn change(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let new = redactor.whole(text, Only::All);
            let changed = new.is_some();
            if let Some(new) = new {
                *text = new;
            }
            changed
        }
        // A number that is a secret becomes a text.
        Value::Number(number) => {
            let new = redactor.whole(&number.to_string(), Only::Secrets);
            let changed = new.is_some();
            if let Some(new) = new {
                *value = Value::String(new);
            }
            changed
        }
        Value::Array(items) => items.iter_mut().filter_map(|item| change(redactor, item).then_some(())).count() > 0,
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let mut changed = false;
            for name in names {
                if let Some(new) = redactor.whole(&name, Only::All)
                    && let Some(value) = fields.remove(&name)
                {
                    fields.insert(new, value);
                    changed = true;
                }
            }
            fields.values_mut().fold(changed, |changed, item| change(redactor, item) || changed)
        }
        _ => false,
    }
}
