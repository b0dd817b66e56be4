//! [`RawJson`]: foreign JSON that is embedded in a record as text.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{parse, scan, without_lone_surrogates};

/// A JSON value as text without line breaks: what JSON Lines records embed instead of `RawValue`.
///
/// Models write tool arguments over several lines, and such a text inside a record would end the record in the middle. No
/// constructor lets a line break through, so a record that embeds only this type is one line.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

/// Values nested deeper than this are kept as a string: most JSON parsers refuse a record at a depth of 128 or more.
const MAX_DEPTH: usize = 64;

impl RawJson {
    /// Parses a JSON text. `None` if it is not valid JSON, or is nested too deep to be embedded in a record.
    ///
    /// The value keeps its numbers, key order and repeated keys. Whitespace between tokens goes if there is a line break in
    /// it, and an escaped half of a surrogate pair, which is no character, becomes U+FFFD.
    pub fn parse(text: &str) -> Option<Self> {
        let text = without_lone_surrogates(text);
        let raw: &RawValue = parse(&text)?;
        let json = raw.get().as_bytes();
        let is_embeddable =
            memchr::memchr2(b'\n', b'\r', json).is_none() && memchr::memchr2_iter(b'{', b'[', json).nth(MAX_DEPTH).is_none();
        if is_embeddable {
            return Some(Self(raw.to_owned()));
        }
        RawValue::from_string(compact(raw.get())?).ok().map(Self)
    }

    /// The JSON value that a text is, or else the JSON string of the text.
    pub fn from_text(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|| Self::of(&text))
    }

    /// Serializes a value.
    pub fn of<T: Serialize>(value: &T) -> Self {
        // Values of ours are made of strings and numbers and cannot fail.
        Self(to_raw_value(value).unwrap_or_default())
    }

    /// Takes over JSON of one of our own writers, which is checked but not copied.
    pub fn written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut json = Vec::new();
        write(&mut json);
        let json = String::from_utf8(json).ok().filter(|json| memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_none());
        Self(json.and_then(|json| RawValue::from_string(json).ok()).unwrap_or_default())
    }

    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self::from_text(raw.get()))
    }
}

/// Removes the whitespace between the tokens of valid JSON. `None` if it is nested deeper than [`MAX_DEPTH`].
fn compact(json: &str) -> Option<String> {
    let mut compacted = String::with_capacity(json.len());
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = json.as_bytes().get(at) {
        let mut end = at + 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at = end;
                continue;
            }
            b'"' => end = scan::string(json.as_bytes(), at)?.end,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return None;
        }
        compacted.push_str(json.get(at..end)?);
        at = end;
    }
    Some(compacted)
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, RawJson};

    #[test]
    fn removes_line_breaks_between_tokens_only() {
        for (text, want) in [
            ("{\n  \"path\": \".\",\r\n\t\"n\": [ 1.0,\n 2e5 ]\n}\n", r#"{"path":".","n":[1.0,2e5]}"#),
            // Without a line break the text stays as it is.
            (r#" { "path" : "a  b" } "#, r#"{ "path" : "a  b" }"#),
            ("{\"a\\\"\\n b\":\n\" : {\"}", r#"{"a\"\n b":" : {"}"#),
            ("{\"k\":1,\n\"k\":2}", r#"{"k":1,"k":2}"#),
            ("\"é \u{2028}\"\n", "\"é \u{2028}\""),
            ("{\"half\":\"\\ud83d\"}", r#"{"half":"\ufffd"}"#),
        ] {
            assert_eq!(RawJson::parse(text).as_ref().map(RawJson::get), Some(want), "{text}");
        }
    }

    #[test]
    fn keeps_invalid_json_as_a_string() {
        for text in ["not json", "{\"a\":\"line\nbreak\"}", "{\"a\":1,}", "{\"a\":tru}", "{\n", "", "{}{}", "{\"a\":\"\u{1}\"}"] {
            assert!(RawJson::parse(text).is_none(), "{text}");
            let json = RawJson::from_text(text);
            assert_eq!(serde_json::from_str::<String>(json.get()).ok().as_deref(), Some(text));
            assert!(!json.get().contains('\n'), "{text}");
        }
    }

    #[test]
    fn keeps_what_most_parsers_refuse_as_a_string() {
        let nested = |depth: usize, space: &str| format!("{}{space}{}", "[".repeat(depth), "]".repeat(depth));
        for space in ["", "\n"] {
            assert_eq!(RawJson::from_text(&nested(MAX_DEPTH, space)).get(), nested(MAX_DEPTH, ""));
            assert!(RawJson::from_text(&nested(MAX_DEPTH + 1, space)).get().starts_with('"'));
            assert!(RawJson::from_text(&nested(100_000, space)).get().starts_with('"'));
        }
        // Many brackets are not deep ones.
        let flat = format!("[{}0]", "[],".repeat(1_000));
        assert_eq!(RawJson::from_text(&flat).get(), flat);
    }
}
