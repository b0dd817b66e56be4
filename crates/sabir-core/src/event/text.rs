//! Lazily unescaped strings.
//!
//! Messages and tool output are the bulk of every stream, and both input and output are JSON strings. A [`Text`] made from
//! a JSON string keeps the escaped form and unescapes it on first access.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::write;
use crate::cut;
use crate::json::{self, Escapes, Str};

/// A string, plain or as the escaped JSON string that was read. Dereferences to `str`, which unescapes it once.
#[derive(Clone)]
pub struct Text<'a>(Form<'a>);

#[derive(Clone)]
enum Form<'a> {
    Plain(Cow<'a, str>),
    Json {
        /// The JSON string with its quotes. It has at least one escape, and of `\u` escapes only those that we write.
        json: Cow<'a, str>,
        /// Number of bytes after the opening quote that no longer belong to the text.
        from: usize,
        /// Length in bytes when unescaped.
        size: usize,
        /// The unescaped text, after the first access.
        plain: OnceLock<Box<str>>,
    },
}

impl<'a> Text<'a> {
    /// The text of a JSON value; `None` if it is not a string.
    pub fn from_json(value: &'a RawValue) -> Option<Self> {
        json::escapes_of(value.get()).map(|escapes| Self::from_written(value.get(), escapes))
    }

    /// The text of a JSON string with these escapes.
    pub fn from_written(json: &'a str, escapes: Escapes) -> Self {
        match escapes {
            // It may be a lone surrogate, which only unescaping finds.
            Escapes { foreign: true, .. } => Self::from(unescape(json)),
            Escapes { surplus: 0, .. } => Self::from(strip_quotes(json)),
            Escapes { surplus, .. } => Self::from_escaped(Cow::Borrowed(json), surplus),
        }
    }

    fn from_escaped(json: Cow<'a, str>, surplus: usize) -> Self {
        let size = json.len() - 2 - surplus;
        Self(Form::Json { json, from: 0, size, plain: OnceLock::new() })
    }

    /// The text of a JSON string inside another JSON string, and the rest of the outer one. It is unescaped once and kept as
    /// the inner JSON string. `None` for rare escapes such as surrogate pairs.
    pub fn from_nested(written: &str) -> Option<(Text<'static>, &str)> {
        let mut rest = written.strip_prefix(r#"\""#)?;
        let mut json = String::with_capacity(written.len());
        json.push('"');
        let mut surplus = 0;
        loop {
            let at = memchr::memchr(b'\\', rest.as_bytes())?;
            json.push_str(&rest[..at]);
            let (escape, length) = match &rest.as_bytes()[at + 1..] {
                [b'"', ..] => break rest = &rest[at + 2..],
                [b'\\', b'\\', b'\\', ..] => (r"\\", 4),
                [b'\\', b'\\', b'"', ..] => (r#"\""#, 4),
                [b'\\', b'n', ..] => (r"\n", 3),
                [b'\\', b't', ..] => (r"\t", 3),
                [b'\\', b'r', ..] => (r"\r", 3),
                [b'\\', b'u', digits @ ..] if json::is_own_unit(digits) => (r"\u", 3),
                _ => return None,
            };
            json.push_str(escape);
            surplus += if escape == r"\u" { 5 } else { 1 };
            rest = &rest[at + length..];
        }
        let text = if surplus > 0 {
            json.push('"');
            Text::from_escaped(Cow::Owned(json), surplus)
        } else {
            json.remove(0);
            Text::from(json)
        };
        Some((text, rest))
    }

    /// The escaped form without quotes, if the text is kept in it.
    pub fn escaped(&self) -> Option<&str> {
        matches!(self.0, Form::Json { .. }).then(|| self.written())
    }

    /// The escaped form without quotes if the text is kept in it, else the text. Unlike the dereference, this never
    /// unescapes.
    pub fn written(&self) -> &str {
        match &self.0 {
            Form::Plain(text) => text,
            Form::Json { json, from, .. } => &strip_quotes(json)[*from..],
        }
    }

    /// Whether it is empty. Unlike `str::is_empty` through the dereference, this never unescapes.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Plain(text) => text.is_empty(),
            // It has at least one escape.
            Form::Json { .. } => false,
        }
    }

    /// Length in bytes when unescaped. Never unescapes.
    pub fn size(&self) -> usize {
        match &self.0 {
            Form::Plain(text) => text.len(),
            Form::Json { size, .. } => *size,
        }
    }

    /// An owned copy of at most the first `bytes` bytes. Never unescapes.
    pub fn head(&self, bytes: usize) -> Text<'static> {
        match &self.0 {
            Form::Plain(text) => Text::from(cut::head(text, bytes).to_owned()),
            Form::Json { size, .. } if *size <= bytes => Self::of_inside(self.written(), *size),
            Form::Json { .. } => {
                let (head, size) = escaped_head(self.written(), bytes);
                Self::of_inside(head, size)
            }
        }
    }

    /// Appends at most the first `bytes` bytes as a JSON string, in the escaped form if the text is kept in it and it has
    /// no line separator.
    pub fn write_head(&self, bytes: usize, out: &mut Vec<u8>) {
        let (inside, size) = match &self.0 {
            Form::Plain(text) => return write::plain_string(cut::head(text, bytes), out),
            Form::Json { size, .. } if *size <= bytes => (self.written(), *size),
            Form::Json { .. } => escaped_head(self.written(), bytes),
        };
        if inside.len() > size && write::has_line_separator(inside) {
            return write::plain_string(&unescape(&quote(inside)), out);
        }
        out.reserve(inside.len() + 2);
        out.push(b'"');
        out.extend_from_slice(inside.as_bytes());
        out.push(b'"');
    }

    /// Drops the first `bytes` bytes of [`Text::written`].
    #[must_use]
    pub fn after_written(self, bytes: usize) -> Self {
        let bytes = cut::before(self.written(), bytes);
        let (head, rest) = self.written().split_at(bytes);
        // The dropped head is short, so the size of the rest follows from it.
        let size = self.size() - if self.escaped().is_some() { escaped_head(head, usize::MAX).1 } else { bytes };
        if rest.len() == size {
            return Self::from(rest.to_owned());
        }
        Self(match self.0 {
            Form::Json { json, from, .. } => Form::Json { json, from: from + bytes, size, plain: OnceLock::new() },
            plain @ Form::Plain(_) => plain,
        })
    }

    /// The text of a JSON string without its quotes that unescapes to `size` bytes.
    fn of_inside(inside: &str, size: usize) -> Text<'static> {
        if inside.len() == size {
            return Text::from(inside.to_owned());
        }
        Text(Form::Json { json: Cow::Owned(quote(inside)), from: 0, size, plain: OnceLock::new() })
    }

    /// Copies borrowed text.
    pub fn into_owned(self) -> Text<'static> {
        match self.0 {
            Form::Plain(text) => Text::from(text.into_owned()),
            Form::Json { json, from, size, plain } => Text(Form::Json { json: Cow::Owned(json.into_owned()), from, size, plain }),
        }
    }

    /// The JSON string, if the text is kept as one and it has no line separator.
    pub fn as_json(&self) -> Option<&str> {
        match &self.0 {
            Form::Json { json, from: 0, .. } if !write::has_line_separator(json) => Some(json),
            _ => None,
        }
    }

    /// Converts it to a string.
    pub fn into_string(self) -> String {
        match self.0 {
            Form::Plain(text) => text.into_owned(),
            Form::Json { json, from: 0, plain, .. } => plain.into_inner().map_or_else(|| unescape(&json), String::from),
            Form::Json { .. } => self.as_ref().to_owned(),
        }
    }

    /// Appends the JSON string.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self.escaped().filter(|escaped| !write::has_line_separator(escaped)) {
            Some(escaped) => {
                out.push(b'"');
                out.extend_from_slice(escaped.as_bytes());
                out.push(b'"');
            }
            None => write::string(self, out),
        }
    }
}

impl Text<'static> {
    /// The text of a JSON string that we wrote and that unescapes to `size` bytes. It has quotes, at least one escape and
    /// no lone surrogate.
    pub fn from_own_json(json: String, size: usize) -> Self {
        Self(Form::Json { json: Cow::Owned(json), from: 0, size, plain: OnceLock::new() })
    }
}

fn quote(inside: &str) -> String {
    let mut json = String::with_capacity(inside.len() + 2);
    json.extend(["\"", inside, "\""]);
    json
}

/// The content of a JSON string.
fn strip_quotes(json: &str) -> &str {
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default()
}

/// The longest prefix of the content of a JSON string that unescapes to at most `bytes` bytes, and its unescaped length.
fn escaped_head(inside: &str, bytes: usize) -> (&str, usize) {
    // Length of the prefix, escaped and unescaped.
    let (mut end, mut size) = (0, 0);
    while let Some(rest) = inside.get(end..).filter(|rest| !rest.is_empty() && size < bytes) {
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        let whole = cut::before(rest, plain.min(bytes - size));
        (end, size) = (end + whole, size + whole);
        if whole < plain || plain == rest.len() || size == bytes {
            break;
        }
        // Every escape stands for one byte.
        end += if rest.as_bytes().get(plain + 1) == Some(&b'u') { 6 } else { 2 };
        size += 1;
    }
    // If the text ends within an escape, the prefix is all of it.
    (inside.get(..end).unwrap_or(inside), size)
}

fn unescape(json: &str) -> String {
    if let Some(text) = json::unescaped(json) {
        return text;
    }
    serde_json::from_str(json).or_else(|_| serde_json::from_str(&json::without_lone_surrogates(json))).unwrap_or_default()
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self::from("")
    }
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match &self.0 {
            Form::Plain(text) => text,
            Form::Json { json, from: 0, plain, .. } => plain.get_or_init(|| unescape(json).into_boxed_str()),
            Form::Json { plain, .. } => plain.get_or_init(|| unescape(&quote(self.written())).into_boxed_str()),
        }
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl<'a> From<Cow<'a, str>> for Text<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self(Form::Plain(text))
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::from(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::from(Cow::Owned(text))
    }
}

impl<'a> From<Str<'a>> for Text<'a> {
    fn from(text: Str<'a>) -> Self {
        Self::from(text.0)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            /// Our reader provides the escaped form and information about its escapes.
            fn visit_seq<A: de::SeqAccess<'de>>(self, written: A) -> Result<Self::Value, A::Error> {
                let (json, surplus, foreign) = Deserialize::deserialize(SeqAccessDeserializer::new(written))?;
                Ok(Text::from_written(json, Escapes { surplus, foreign }))
            }
            /// Any other reader provides the unescaped text.
            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                Str::deserialize(deserializer).map(Text::from)
            }
        }
        deserializer.deserialize_newtype_struct(json::TEXT, TextVisitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Text<'_> {
    fn schema_name() -> Cow<'static, str> {
        "string".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::{Text, cut};
    use serde_json::value::RawValue;

    #[test]
    fn escaped_and_plain_text_are_equal() {
        for json in [
            r#""""#,
            r#""plain""#,
            r#""a\nb \"c\" \\ d""#,
            r#""\u001b[0m é""#,
            r#""\\u001b \\\u001b[1m \\\\n\\n \n""#,
            r#""\\ \\\" \\\\\n\u001b\u001b ä""#,
            r#""pair \ud83d\ude00""#,
            r#""\u001B and \u000a and \u0008, \\u001b and \\\u001b""#,
            r#""\\ \" \u0000\u0007\u000b""#,
            "\"line\u{2028}end\\n\"",
        ] {
            let raw: &RawValue = serde_json::from_str(json).expect("JSON");
            let text = Text::from_json(raw).expect("a string");
            let plain: String = serde_json::from_str(json).expect("a string");
            let (mut from_raw, mut from_plain) = (Vec::new(), Vec::new());
            text.write(&mut from_raw);
            Text::from(plain.as_str()).write(&mut from_plain);
            assert_eq!(String::from_utf8(from_raw), String::from_utf8(from_plain), "{json}");
            assert_eq!(text.is_empty(), plain.is_empty());
            assert_eq!(text.size(), plain.len());
            for bytes in 0..=plain.len() + 1 {
                assert_eq!(&*text.head(bytes), cut::head(&plain, bytes), "{json} {bytes}");
            }
            for bytes in 0..=text.written().len() {
                let (head, rest) = text.written().split_at(cut::before(text.written(), bytes));
                let [head, rest] = [head, rest].map(|part| match text.escaped() {
                    Some(_) => serde_json::from_str(&format!("\"{part}\"")).ok(),
                    None => Some(part.to_owned()),
                });
                // Callers never cut within an escape.
                if let (Some(_), Some(rest)) = (head, rest) {
                    let rest_text = text.clone().after_written(bytes);
                    let (mut one, mut other) = (Vec::new(), Vec::new());
                    rest_text.write(&mut one);
                    Text::from(rest.as_str()).write(&mut other);
                    assert_eq!(String::from_utf8(one), String::from_utf8(other), "{json} {bytes}");
                    assert_eq!(
                        (rest_text.size(), &*rest_text.head(3), &*rest_text.head(1000)),
                        (rest.len(), cut::head(&rest, 3), &*rest)
                    );
                    assert_eq!(
                        (rest_text.clone().into_string(), rest_text.clone().into_owned().into_string()),
                        (rest.clone(), rest.clone())
                    );
                    assert_eq!(rest_text.after_written(0), rest.as_str());
                }
            }
            assert_eq!(text.clone().into_owned(), plain.as_str());
            assert_eq!(text, plain.as_str());
            assert_eq!(text.into_string(), plain);
        }
    }

    #[test]
    fn from_nested_reads_twice_escaped_text() {
        for (text, at_once) in [
            ("", true),
            ("plain é 日本語", true),
            ("a\nb\tc\r\n\"d\" \\ \\n \\\\ \\\" \"\\\"", true),
            ("\u{1b}[0m \u{0}", true),
            ("\u{8} has a short escape", false),
        ] {
            let inner = serde_json::to_string(text).expect("JSON") + ", more \"x\"";
            let outer = serde_json::to_string(&inner).expect("JSON");
            let nested = Text::from_nested(&outer[1..outer.len() - 1]);
            assert_eq!(nested, at_once.then(|| (Text::from(text), r#", more \"x\""#)), "{text:?}");
            if let Some((nested, _)) = nested {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                nested.write(&mut one);
                Text::from(text).write(&mut other);
                assert_eq!(one, other, "{text:?}");
            }
        }
        for written in ["x", r#"\""#, r#"\"a"#, r#"\"\\""#, r#"\"\\ud83d\\ude00\""#, r#"\"\n\""#, r#"\"\\x\""#] {
            assert_eq!(Text::from_nested(written), None, "{written}");
        }
    }

    #[test]
    fn deserializes_alike_with_any_reader() {
        for json in [r#""""#, r#""plain""#, r#""a\nb \"c\" \u001b[0m é""#, r#""pair \ud83d\ude00""#] {
            let ours: Text<'_> = crate::json::parse(json).expect("a string");
            let theirs: Text<'_> = serde_json::from_str(json).expect("a string");
            assert_eq!(ours, theirs);
            let (mut one, mut other) = (Vec::new(), Vec::new());
            ours.write(&mut one);
            theirs.write(&mut other);
            assert_eq!(one, other);
        }
        for json in ["1", "null", "[\"a\"]", r#"{"a":"b"}"#, r#""\x""#] {
            assert!(crate::json::parse::<Text<'_>>(json).is_none(), "{json}");
            assert!(serde_json::from_str::<Text<'_>>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn from_json_replaces_lone_surrogate_and_refuses_other_types() {
        let half: &RawValue = serde_json::from_str(r#""a\ud83d b""#).expect("JSON");
        assert_eq!(Text::from_json(half).expect("a string"), "a\u{fffd} b");
        let number: &RawValue = serde_json::from_str("1").expect("JSON");
        assert!(Text::from_json(number).is_none());
    }
}
