//! Long texts that mostly pass through.
//!
//! What an agent says and what its tools print are the bulk of every stream, and they come as JSON strings and leave as
//! JSON strings. A [`Text`] made from a JSON string keeps it as it is written; it is unescaped only when somebody looks
//! at it.

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

/// A text, as itself or as the JSON string that it came in. Dereferences to `str`.
#[derive(Clone)]
pub struct Text<'a>(Form<'a>);

#[derive(Clone)]
enum Form<'a> {
    Plain(Cow<'a, str>),
    Json {
        /// The JSON string with its quotes; holds an escape, and no `\u` escape but those that we would write ourselves.
        json: Cow<'a, str>,
        /// What is not a part of it any more: so many bytes behind the first quote.
        from: usize,
        /// How many bytes it says.
        size: usize,
        /// What it says, once somebody asked.
        plain: OnceLock<Box<str>>,
    },
}

impl<'a> Text<'a> {
    /// The text that a JSON value is, if it is a string.
    pub fn from_json(value: &'a RawValue) -> Option<Self> {
        json::escapes_of(value.get()).map(|escapes| Self::from_written(value.get(), escapes))
    }

    /// The text of a JSON string in which that is escaped.
    pub fn from_written(json: &'a str, escapes: Escapes) -> Self {
        match escapes {
            // It may be half of a pair, which only unescaping tells.
            Escapes { foreign: true, .. } => Self::from(unescaped(json)),
            Escapes { surplus: 0, .. } => Self::from(between_quotes(json)),
            Escapes { surplus, .. } => Self::kept(Cow::Borrowed(json), surplus),
        }
    }

    fn kept(json: Cow<'a, str>, surplus: usize) -> Self {
        let size = json.len() - 2 - surplus;
        Self(Form::Json { json, from: 0, size, plain: OnceLock::new() })
    }

    /// The text of a JSON string that is written inside another one, and what follows it there. Escaped twice, it is
    /// unescaped once and kept as the JSON string that it is. `None` for what is rare in it: pairs of escapes.
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
            Text::kept(Cow::Owned(json), surplus)
        } else {
            json.remove(0);
            Text::from(json)
        };
        Some((text, rest))
    }

    /// What stands between the quotes of the JSON string that it is kept as, if it is.
    pub fn escaped(&self) -> Option<&str> {
        matches!(self.0, Form::Json { .. }).then(|| self.written())
    }

    /// The text as it is written, in JSON where it is kept so. Never unescapes, unlike the dereference.
    pub fn written(&self) -> &str {
        match &self.0 {
            Form::Plain(text) => text,
            Form::Json { json, from, .. } => &between_quotes(json)[*from..],
        }
    }

    /// Whether it says nothing. Unlike `str::is_empty` through the dereference, this never unescapes.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Plain(text) => text.is_empty(),
            // It holds an escape at least.
            Form::Json { .. } => false,
        }
    }

    /// How many bytes it has, which is told without unescaping it.
    pub fn size(&self) -> usize {
        match &self.0 {
            Form::Plain(text) => text.len(),
            Form::Json { size, .. } => *size,
        }
    }

    /// Its beginning, of at most so many bytes, with nothing borrowed. Never unescapes.
    pub fn head(&self, bytes: usize) -> Text<'static> {
        match &self.0 {
            Form::Plain(text) => Text::from(cut::head(text, bytes).to_owned()),
            Form::Json { size, .. } if *size <= bytes => Self::of_inside(self.written(), *size),
            Form::Json { .. } => {
                let (head, said) = escaped_head(self.written(), bytes);
                Self::of_inside(head, said)
            }
        }
    }

    /// Appends its beginning, of at most so many bytes, as a JSON string: as it is kept, where it is kept as one
    /// that can stand in a line.
    pub fn write_head(&self, bytes: usize, out: &mut Vec<u8>) {
        let (inside, said) = match &self.0 {
            Form::Plain(text) => return write::plain_string(cut::head(text, bytes), out),
            Form::Json { size, .. } if *size <= bytes => (self.written(), *size),
            Form::Json { .. } => escaped_head(self.written(), bytes),
        };
        if inside.len() > said && write::ends_a_line_for_some(inside) {
            return write::plain_string(&unescaped(&in_quotes(inside)), out);
        }
        out.reserve(inside.len() + 2);
        out.push(b'"');
        out.extend_from_slice(inside.as_bytes());
        out.push(b'"');
    }

    /// What follows so many bytes of it as it is written: of what [`Text::escaped`] gives, or else of itself.
    pub fn after_written(self, bytes: usize) -> Self {
        let bytes = cut::before(self.written(), bytes);
        let (head, rest) = self.written().split_at(bytes);
        // The head is short, and tells what the rest says as well.
        let size = self.size() - if self.escaped().is_some() { escaped_head(head, usize::MAX).1 } else { bytes };
        if rest.len() == size {
            return Self::from(rest.to_owned());
        }
        Self(match self.0 {
            Form::Json { json, from, .. } => Form::Json { json, from: from + bytes, size, plain: OnceLock::new() },
            plain @ Form::Plain(_) => plain,
        })
    }

    /// The text of what stands between the quotes of a JSON string and says so many bytes.
    fn of_inside(inside: &str, size: usize) -> Text<'static> {
        if inside.len() == size {
            return Text::from(inside.to_owned());
        }
        Text(Form::Json { json: Cow::Owned(in_quotes(inside)), from: 0, size, plain: OnceLock::new() })
    }

    /// The text with nothing borrowed.
    pub fn into_owned(self) -> Text<'static> {
        match self.0 {
            Form::Plain(text) => Text::from(text.into_owned()),
            Form::Json { json, from, size, plain } => Text(Form::Json { json: Cow::Owned(json.into_owned()), from, size, plain }),
        }
    }

    /// The JSON string that it is kept as, if it is and can stand in a line.
    pub fn as_json(&self) -> Option<&str> {
        match &self.0 {
            Form::Json { json, from: 0, .. } if !write::ends_a_line_for_some(json) => Some(json),
            _ => None,
        }
    }

    /// The text as a string of its own.
    pub fn into_string(self) -> String {
        match self.0 {
            Form::Plain(text) => text.into_owned(),
            Form::Json { json, from: 0, plain, .. } => plain.into_inner().map_or_else(|| unescaped(&json), String::from),
            Form::Json { .. } => self.as_ref().to_owned(),
        }
    }

    /// Appends the JSON string.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self.escaped().filter(|escaped| !write::ends_a_line_for_some(escaped)) {
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
    /// The text of a JSON string of our own making that says so many bytes: with its quotes, with an escape, and with no
    /// half of a pair.
    pub fn from_own_json(json: String, size: usize) -> Self {
        Self(Form::Json { json: Cow::Owned(json), from: 0, size, plain: OnceLock::new() })
    }
}

fn in_quotes(inside: &str) -> String {
    let mut json = String::with_capacity(inside.len() + 2);
    json.extend(["\"", inside, "\""]);
    json
}

/// What stands between the quotes of a JSON string.
fn between_quotes(json: &str) -> &str {
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default()
}

/// The part of what stands between the quotes of a JSON string that says at most so many bytes, and how many it says.
fn escaped_head(inside: &str, bytes: usize) -> (&str, usize) {
    // Bytes of the head as it is written, and as it is said.
    let (mut end, mut said) = (0, 0);
    while let Some(rest) = inside.get(end..).filter(|rest| !rest.is_empty() && said < bytes) {
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        let whole = cut::before(rest, plain.min(bytes - said));
        (end, said) = (end + whole, said + whole);
        if whole < plain || plain == rest.len() || said == bytes {
            break;
        }
        // All that is escaped is one byte.
        end += if rest.as_bytes().get(plain + 1) == Some(&b'u') { 6 } else { 2 };
        said += 1;
    }
    // Should the text end within an escape, all of it is meant.
    (inside.get(..end).unwrap_or(inside), said)
}

fn unescaped(json: &str) -> String {
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
            Form::Json { json, from: 0, plain, .. } => plain.get_or_init(|| unescaped(json).into_boxed_str()),
            Form::Json { plain, .. } => plain.get_or_init(|| unescaped(&in_quotes(self.written())).into_boxed_str()),
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
            /// Our reader gives it as it is written, with what is escaped in it.
            fn visit_seq<A: de::SeqAccess<'de>>(self, written: A) -> Result<Self::Value, A::Error> {
                let (json, surplus, foreign) = Deserialize::deserialize(SeqAccessDeserializer::new(written))?;
                Ok(Text::from_written(json, Escapes { surplus, foreign }))
            }
            /// Any other reader gives what it says.
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
    fn a_text_is_the_same_whichever_way_it_came() {
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
                // Where an escape would be cut, nobody cuts.
                if let (Some(_), Some(rest)) = (head, rest) {
                    let behind = text.clone().after_written(bytes);
                    let (mut one, mut other) = (Vec::new(), Vec::new());
                    behind.write(&mut one);
                    Text::from(rest.as_str()).write(&mut other);
                    assert_eq!(String::from_utf8(one), String::from_utf8(other), "{json} {bytes}");
                    assert_eq!((behind.size(), &*behind.head(3), &*behind.head(1000)), (rest.len(), cut::head(&rest, 3), &*rest));
                    assert_eq!(
                        (behind.clone().into_string(), behind.clone().into_owned().into_string()),
                        (rest.clone(), rest.clone())
                    );
                    assert_eq!(behind.after_written(0), rest.as_str());
                }
            }
            assert_eq!(text.clone().into_owned(), plain.as_str());
            assert_eq!(text, plain.as_str());
            assert_eq!(text.into_string(), plain);
        }
    }

    #[test]
    fn a_json_string_inside_another_one_is_the_same_text() {
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
    fn a_text_is_read_the_same_by_any_reader() {
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
    fn half_a_character_is_replaced_and_what_is_no_string_is_none() {
        let half: &RawValue = serde_json::from_str(r#""a\ud83d b""#).expect("JSON");
        assert_eq!(Text::from_json(half).expect("a string"), "a\u{fffd} b");
        let number: &RawValue = serde_json::from_str("1").expect("JSON");
        assert!(Text::from_json(number).is_none());
    }
}
