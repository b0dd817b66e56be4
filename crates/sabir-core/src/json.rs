//! JSON lines: what all dialects that print one JSON value per line share.
//!
//! A dialect declares the shape it reads as a struct of optional, borrowed fields and is handed the parsed value;
//! `#[serde(bound = "'de: 'a")]` on the struct lets every field borrow from the line. What does not fit is repaired where
//! that loses nothing that a dialect could use (a key given twice, half of a surrogate pair), and preserved as
//! `unrecognized` where it can't be.

mod frame;
mod raw;
mod read;
mod scan;
mod shapes;
mod unroll;
mod walk;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{SerializeStruct as _, Serializer};
use serde_json::value::RawValue;

pub use frame::{Fit, Frame, Framed};
pub use raw::RawJson;
pub(crate) use read::TEXT;
pub use scan::Escapes;
pub use shapes::fitting;
pub use shapes::{TextOr, lenient};
pub use unroll::Unroll;
pub use walk::{NotJson, Walk, text as text_inside};

use crate::dialect::{Dialect, End, Facts, RecordingHeader, Verdict};
use crate::event::{ErrorEvent, EventKind, Text, Unrecognized};
use crate::line::Line;

/// A dialect whose lines are JSON values of one shape.
pub trait JsonDialect: Send {
    /// All that the dialect wants to know of a line.
    type Wire<'a>: Deserialize<'a>;

    /// Reads a line that comes by the thousand without parsing all of it; false when it is not that line.
    fn fast<'a>(&mut self, _: &'a str, _: &mut Facts<'a>) -> bool {
        false
    }

    /// Reads one message.
    fn message<'a>(&mut self, wire: Self::Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>);

    /// Reads a line that is not a JSON value of that shape. Blank lines do not come here.
    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        unrecognized(line, facts);
    }

    /// See [`Dialect::recording_header`].
    fn recording_header(&self, _: &str) -> Option<RecordingHeader> {
        None
    }

    /// See [`Dialect::resumed`].
    fn resumed(&mut self) {}

    /// See [`Dialect::over`].
    fn over(&self) -> Option<bool> {
        None
    }

    /// See [`Dialect::end`].
    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict;
}

impl<D: JsonDialect> Dialect for D {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if line.text.trim_ascii().is_empty() {
            return;
        }
        if let Cow::Borrowed(text) = line.text {
            if self.fast(text, facts) {
                return;
            }
            if let Ok(wire) = read::from_str(text) {
                self.message(wire, line, facts);
                return;
            }
        }
        if !message_from_copy(self, &line.text, line, facts) {
            match mended(&line.text) {
                Some(text) if message_from_copy(self, &text, line, facts) => {}
                None if breaks_off(line) => facts.push(broken_off(&line.text)),
                _ => self.other(line, facts),
            }
        }
    }

    fn recording_header(&self, line: &str) -> Option<RecordingHeader> {
        JsonDialect::recording_header(self, line)
    }

    fn resumed(&mut self) {
        JsonDialect::resumed(self);
    }

    fn over(&self) -> Option<bool> {
        JsonDialect::over(self)
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        JsonDialect::end(self, end, facts)
    }
}

/// Whether the stream ended inside an object. Some CLIs exit before all that they printed is out of the pipe.
fn breaks_off(line: &Line<'_>) -> bool {
    !line.terminated && line.text.trim_ascii_start().starts_with("{\"")
}

/// The error of a stream that ended inside a JSON value. It ends no run: a missing last sign does.
pub fn broken_off(text: &str) -> ErrorEvent<'static> {
    let message = format!("the output breaks off inside a JSON value, after {} bytes of it", text.len());
    ErrorEvent::new(message)
}

/// Reads a text that does not live as long as the line, so that its facts must be copied. False when it does not parse.
fn message_from_copy<'a, D: JsonDialect>(dialect: &mut D, text: &str, line: &Line<'a>, facts: &mut Facts<'a>) -> bool {
    let Ok(wire) = read::from_str(text) else { return false };
    let copy = Line { text: Cow::Borrowed(text), ..line.clone() };
    let mut copied = Facts::default();
    dialect.message(wire, &copy, &mut copied);
    for fact in copied.drain() {
        let mut fact = fact.into_owned();
        if let EventKind::Unrecognized(Unrecognized { raw, .. }) = &mut fact.kind {
            *raw = line.text.clone().into_owned().into();
        }
        facts.push_fact(fact);
    }
    true
}

/// The text of a value that may be read later, or never. Only its brackets and quotes are known to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread<'a>(pub &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Unread<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UnreadVisitor;
        impl<'de> Visitor<'de> for UnreadVisitor {
            type Value = Unread<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Unread(text))
            }
            /// Of any other reader than ours.
            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                <&'de RawValue>::deserialize(deserializer).map(|raw| Unread(raw.get()))
            }
        }
        deserializer.deserialize_newtype_struct(read::UNREAD, UnreadVisitor)
    }
}

/// Gives out the text of a value as it is, as a `RawValue` does, but without reading it once more.
pub fn write_raw<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let mut raw = serializer.serialize_struct(read::RAW_VALUE, 1)?;
    raw.serialize_field(read::RAW_VALUE, json)?;
    raw.end()
}

/// Keeps a line that no rule knows, with the type that it gives itself.
pub fn unrecognized<'a>(line: &Line<'a>, facts: &mut Facts<'a>) {
    #[derive(serde::Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Typed<'a> {
        r#type: Option<Str<'a>>,
    }
    let r#type = parse::<Typed<'_>>(&line.text).and_then(|typed| typed.r#type);
    let r#type = r#type.map(|name| Cow::Owned(name.0.into_owned()));
    facts.unrecognized(r#type, line);
}

/// The same JSON with halves of surrogate pairs replaced and, of keys given twice, the last one kept. `None` when it is
/// not JSON at all, or is nested deeper than any agent nests.
fn mended(text: &str) -> Option<String> {
    let whole = without_lone_surrogates(text);
    let value: serde_json::Value = serde_json::from_str(&whole).ok()?;
    serde_json::to_string(&value).ok()
}

/// JavaScript programs cut strings between the halves of a pair and print the half as an escape, which is no character.
pub fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    let half = |at: usize| -> Option<u16> {
        let digits = text.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        (0xd800..0xe000).contains(&code).then_some(code)
    };
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        at += offset;
        match half(at) {
            Some(0xd800..=0xdbff) if matches!(half(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(_) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // An escape of one character; stepping over it keeps `\\u` from looking like `\u`.
            None => at = (at + 2).min(text.len()),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// A string that borrows from the line when nothing in it is escaped, also inside `Option` and `Vec`, where serde's
/// own `Cow` would copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Str<'a>(pub Cow<'a, str>);

impl std::ops::Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<Str<'a>> for Cow<'a, str> {
    fn from(text: Str<'a>) -> Self {
        text.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                self.visit_string(text.to_owned())
            }
            fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Str(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

/// A string, or something with more structure: agents use both for the same field.
#[derive(Debug, Clone, PartialEq)]
pub enum StringOr<'a, T> {
    /// The plain form.
    String(Str<'a>),
    /// The structured form.
    Other(T),
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for StringOr<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EitherVisitor<T> {
            type Value = StringOr<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list or an object")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(StringOr::String(Str(Cow::Borrowed(text))))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                self.visit_string(text.to_owned())
            }
            fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(StringOr::String(Str(Cow::Owned(text))))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                T::deserialize(SeqAccessDeserializer::new(list)).map(StringOr::Other)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(StringOr::Other)
            }
        }
        deserializer.deserialize_any(EitherVisitor(PhantomData))
    }
}

/// Parses a JSON text as far as a dialect wants to know it.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    read::from_str(text).ok()
}

/// What a JSON string says, where that is told without looking for pairs of escapes.
pub fn unescaped(json: &str) -> Option<String> {
    scan::unescaped(json)
}

/// Hands out what stands between the quotes of a JSON string that says that text, piece by piece, as `serde_json` writes it.
pub fn escaped_pieces(text: &str, take: impl FnMut(&str)) {
    scan::escaped_pieces(text, take);
}

/// What is escaped in a JSON string that is nothing else; `None` when the text is not one.
pub fn escapes_of(json: &str) -> Option<Escapes> {
    scan::string(json.as_bytes(), 0).filter(|quoted| quoted.end == json.len()).map(|quoted| quoted.escapes)
}

/// Whether these are the digits of an escape as we write it: of a control character that has no shorter one.
pub fn is_own_unit(digits: &[u8]) -> bool {
    digits.first_chunk().is_some_and(|digits| scan::is_own_unit(*digits))
}

/// How long the word is that a text begins with, behind its opening quote, if nothing in it is escaped. No word that tells
/// what a line is, and no moment, is too long for this.
pub fn leading_word(text: &[u8]) -> Option<usize> {
    scan::word(text)
}

/// The text of the JSON string that a line goes on with, and what follows it.
pub fn leading_text(json: &str) -> Option<(Text<'_>, &str)> {
    let scan::Quoted { end, escapes } = scan::string(json.as_bytes(), 0)?;
    let (string, rest) = json.split_at_checked(end)?;
    Some((Text::from_written(string, escapes), rest))
}

/// The type that a JSON object gives itself in `type`, for finding its dialect.
pub fn type_of(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Typed<'a> {
        r#type: Str<'a>,
    }
    parse::<Typed<'_>>(text).map(|typed| typed.r#type.0.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Str, StringOr, mended, without_lone_surrogates};
    use std::borrow::Cow;

    #[test]
    fn halves_of_pairs_become_replacement_characters_and_pairs_stay() {
        let text = r#"{"a":"\ud83d\ude00 \ud83d \\ud83d \ude00x"}"#;
        assert_eq!(without_lone_surrogates(text), r#"{"a":"\ud83d\ude00 \ufffd \\ud83d \ufffdx"}"#);
        assert!(matches!(without_lone_surrogates(r#"{"a":"\n"}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn of_a_key_given_twice_the_last_one_counts() {
        assert_eq!(mended(r#"{"id":"a","id":"b"}"#).as_deref(), Some(r#"{"id":"b"}"#));
        assert_eq!(mended("not json"), None);
    }

    #[test]
    fn strings_borrow_inside_option_and_list() {
        let list: Vec<Option<Str<'_>>> = serde_json::from_str(r#"["plain",null,"a\nb"]"#).expect("a list");
        assert!(matches!(&list[0], Some(Str(Cow::Borrowed("plain")))));
        assert!(matches!(&list[2], Some(Str(Cow::Owned(text))) if text == "a\nb"));
    }

    #[test]
    fn either_form_is_read() {
        let text: StringOr<'_, Vec<u8>> = serde_json::from_str(r#""a""#).expect("a string");
        assert_eq!(text, StringOr::String(Str("a".into())));
        let list: StringOr<'_, Vec<u8>> = serde_json::from_str("[1,2]").expect("a list");
        assert_eq!(list, StringOr::Other(vec![1, 2]));
    }
}
