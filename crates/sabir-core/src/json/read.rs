//! JSON text to values, fast where agents' lines are long.
//!
//! Nearly all bytes of a stream are in a few long strings that pass through as they are or that nobody asks for. Here
//! objects, lists and strings are walked; numbers, pairs of escapes and enums are handed to `serde_json` piece by piece.
//!
//! What is read and to which value is the same as with `serde_json`, but for keys that are not read as strings, which are
//! refused, and for values that nobody asks for: of those only the brackets and quotes have to be right.

use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::scan::{self, Escapes};

/// Parses a JSON text, as [`serde_json::from_str`] does.
pub(super) fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Refused> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = T::deserialize(&mut reader)?;
    if reader.peek().is_none() { Ok(value) } else { Err(Refused) }
}

/// The name by which a `RawValue` asks for the text of a value, and gives it.
pub(crate) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The name by which an [`Unread`](super::Unread) asks for the text of a value.
pub(super) const UNREAD: &str = "$sabir::Unread";

/// The name by which who does not know the shape of a value asks to try several.
pub(super) const SHAPES: &str = "$sabir::Shapes";

/// The name by which a [`Text`](crate::event::Text) asks for a string as it is written.
pub(crate) const TEXT: &str = "$sabir::Text";

/// The number that a word is, where it is nothing but digits.
fn plain(word: &str) -> Option<u64> {
    let digits = word.as_bytes();
    let is_plain =
        matches!(digits.len(), 1..=19) && (digits[0] != b'0' || digits.len() == 1) && digits.iter().all(u8::is_ascii_digit);
    is_plain.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// How deep values may be nested that are not only stepped over.
const DEPTH: u8 = 127;

struct Reader<'de> {
    text: &'de str,
    /// Up to where it has been read.
    at: usize,
    depth: u8,
}

/// A string as it is written.
#[derive(Clone, Copy)]
struct Quoted<'de> {
    /// With its quotes.
    json: &'de str,
    escapes: Escapes,
}

impl<'de> Quoted<'de> {
    /// Gives out what it says.
    #[inline]
    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let Self { json, escapes } = self;
        if !escapes.any() {
            return visitor.visit_borrowed_str(json.get(1..json.len() - 1).unwrap_or_default());
        }
        visitor.visit_string(match scan::unescaped(json) {
            Some(text) => text,
            None => serde_json::from_str(json)?,
        })
    }
}

/// The text is not the JSON that is expected. That is said often, where a value of one of several shapes is tried, and what
/// exactly was expected nobody asks.
#[derive(Debug)]
pub(super) struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the JSON that is expected")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl From<serde_json::Error> for Refused {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

impl<'de> Reader<'de> {
    /// The next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        match self.text.as_bytes().get(self.at) {
            Some(byte) if *byte > b' ' => Some(*byte),
            _ => self.peek_beyond_space(),
        }
    }

    #[cold]
    fn peek_beyond_space(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over the next byte, which must be this one.
    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Refused> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// What was read since.
    #[inline]
    fn since(&self, start: usize) -> &'de str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// What has not been read.
    fn rest(&self) -> &'de str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Steps over a string.
    #[inline]
    fn string(&mut self) -> Result<Quoted<'de>, Refused> {
        self.peek();
        let start = self.at;
        let Some(scan::Quoted { end, escapes }) = scan::string(self.text.as_bytes(), start) else { return Err(Refused) };
        self.at = end;
        Ok(Quoted { json: self.since(start), escapes })
    }

    /// Steps over what may be a number, `true`, `false` or `null`.
    #[inline]
    fn word(&mut self) -> &'de str {
        let in_word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E');
        let start = self.at;
        while self.text.as_bytes().get(self.at).is_some_and(|byte| in_word(*byte)) {
            self.at += 1;
        }
        self.since(start)
    }

    /// Steps over any value and gives its text.
    fn value(&mut self) -> Result<&'de str, Refused> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => {
                self.string()?;
            }
            // What nobody looks into may be nested to any depth, which `serde_json` steps over without recursion.
            Some(b'{' | b'[') if self.depth == DEPTH => {
                let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<de::IgnoredAny>();
                if !matches!(values.next(), Some(Ok(_))) {
                    return Err(Refused);
                }
                self.at += values.byte_offset();
            }
            Some(b'{') => self.nested(|items| {
                while items.next(b'}')? {
                    items.reader.string()?;
                    items.reader.expect(b':')?;
                    items.reader.value()?;
                }
                Ok(())
            })?,
            Some(b'[') => self.nested(|items| {
                while items.next(b']')? {
                    items.reader.value()?;
                }
                Ok(())
            })?,
            _ => match self.word() {
                "null" | "true" | "false" => {}
                word if plain(word).is_some() => {}
                word => drop(serde_json::from_str::<de::IgnoredAny>(word)?),
            },
        }
        Ok(self.since(start))
    }

    /// Steps over any value without looking at what its strings and words are.
    fn skip(&mut self) -> Result<(), Refused> {
        match self.peek() {
            Some(b'"') => match scan::end(self.text.as_bytes(), self.at) {
                Some(end) => {
                    self.at = end;
                    Ok(())
                }
                None => Err(Refused),
            },
            Some(b'{') if self.depth < DEPTH => self.nested(|items| {
                while items.next(b'}')? {
                    items.reader.string()?;
                    items.reader.expect(b':')?;
                    items.reader.skip()?;
                }
                Ok(())
            }),
            Some(b'[') if self.depth < DEPTH => self.nested(|items| {
                while items.next(b']')? {
                    items.reader.skip()?;
                }
                Ok(())
            }),
            Some(b'{' | b'[') => self.value().map(drop),
            _ if self.word().is_empty() => Err(Refused),
            _ => Ok(()),
        }
    }

    /// Reads an object or a list: from its opening bracket, which comes next, to its closing one.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Items<'_, 'de>) -> Result<T, Refused>) -> Result<T, Refused> {
        if self.depth == DEPTH {
            return Err(Refused);
        }
        let close = if self.peek() == Some(b'{') { b'}' } else { b']' };
        self.at += 1;
        self.depth += 1;
        let value = read(&mut Items { reader: self, first: true })?;
        self.depth -= 1;
        self.expect(close)?;
        Ok(value)
    }

    /// `serde_json` at the next value.
    fn by_serde_json(&mut self) -> Result<serde_json::Deserializer<serde_json::de::StrRead<'de>>, Refused> {
        self.value().map(serde_json::Deserializer::from_str)
    }
}

/// What an object or a list holds.
struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    /// Whether none has been read.
    first: bool,
}

impl Items<'_, '_> {
    /// Steps to the next item; false before the closing bracket.
    #[inline]
    fn next(&mut self, close: u8) -> Result<bool, Refused> {
        match self.reader.peek() {
            Some(byte) if byte == close => return Ok(false),
            _ if std::mem::take(&mut self.first) => {}
            Some(b',') => {
                self.reader.at += 1;
                if self.reader.peek() == Some(close) {
                    return Err(Refused);
                }
            }
            _ => return Err(Refused),
        }
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        if self.next(b']')? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

/// A value that may be of several shapes, as a list: each that is asked for is read out of the same value, until one fits.
struct Attempts<'r, 'de>(&'r mut Reader<'de>);

impl<'de> SeqAccess<'de> for Attempts<'_, 'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let Reader { at, depth, .. } = *self.0;
        let value = seed.deserialize(&mut *self.0).ok();
        if value.is_none() {
            (self.0.at, self.0.depth) = (at, depth);
        }
        Ok(value)
    }
}

/// What is known of a string, as a list: how it is written, and the two figures of its [`Escapes`].
struct Written<'de> {
    quoted: Quoted<'de>,
    told: u8,
}

impl<'de> SeqAccess<'de> for Written<'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let Quoted { json, escapes } = self.quoted;
        self.told += 1;
        match self.told {
            1 => seed.deserialize(BorrowedStrDeserializer::new(json)).map(Some),
            2 => seed.deserialize(escapes.surplus.into_deserializer()).map(Some),
            3 => seed.deserialize(escapes.foreign.into_deserializer()).map(Some),
            _ => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if self.next(b'}')? { seed.deserialize(Key(self.reader)).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        self.reader.expect(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}

/// The key that comes next. Keys are what there is most of, and strings, so nothing else is looked for.
struct Key<'r, 'de>(&'r mut Reader<'de>);

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Refused;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.0.string()?.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        if self.0.peek() == Some(b'"') { self.0.deserialize_newtype_struct(name, visitor) } else { Err(Refused) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        if self.0.peek() == Some(b'"') { self.0.deserialize_enum(name, variants, visitor) } else { Err(Refused) }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.peek() {
            Some(b'{') => self.nested(|items| visitor.visit_map(items)),
            Some(b'[') => self.nested(|items| visitor.visit_seq(items)),
            Some(b'"') => self.string()?.visit(visitor),
            _ => match self.word() {
                "null" => visitor.visit_unit(),
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                word => match plain(word) {
                    Some(number) => visitor.visit_u64(number),
                    None => Ok(serde_json::from_str::<Number>(word)?.deserialize_any(visitor)?),
                },
            },
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.peek() != Some(b'n') {
            return visitor.visit_some(self);
        }
        self.value()?;
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        if name == UNREAD {
            self.peek();
            let start = self.at;
            self.skip()?;
            return visitor.visit_borrowed_str(self.since(start));
        }
        if name == SHAPES {
            return visitor.visit_seq(Attempts(self));
        }
        if name == TEXT {
            return visitor.visit_seq(Written { quoted: self.string()?, told: 0 });
        }
        if name != RAW_VALUE {
            return visitor.visit_newtype_struct(self);
        }
        let text = BorrowedStrDeserializer::new(self.value()?);
        visitor.visit_map(MapDeserializer::new(std::iter::once((RAW_VALUE, text))))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        Ok(self.by_serde_json()?.deserialize_enum(name, variants, visitor)?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Ok(self.by_serde_json()?.deserialize_bytes(visitor)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Ok(self.by_serde_json()?.deserialize_byte_buf(visitor)?)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Ok(self.by_serde_json()?.deserialize_i128(visitor)?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Ok(self.by_serde_json()?.deserialize_u128(visitor)?)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string unit unit_struct seq tuple tuple_struct map struct
        identifier
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use serde::Deserialize;
    use serde::de::IgnoredAny;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::{DEPTH, from_str};
    use crate::json::{Str, StringOr};

    const OBJECT: &str =
        r#" {"name":"a\n\"b\"" , "list":[1,-2.5e3,true,null,"x",[],{}],"raw":{"k":["Gr\u00f6\u00dfe \\ é"]},"unit":"A"} "#;

    #[derive(Debug, Deserialize)]
    #[serde(bound = "'de: 'a")]
    #[allow(dead_code, reason = "compared by what Debug prints")]
    struct Shape<'a> {
        name: Option<Str<'a>>,
        list: Option<Vec<StringOr<'a, IgnoredAny>>>,
        raw: Option<&'a RawValue>,
        unit: Option<Unit>,
    }

    #[derive(Debug, Deserialize)]
    enum Unit {
        A,
    }

    /// What is read here is what `serde_json` reads; gives whether it was read.
    fn agrees<'a, T: Deserialize<'a> + Debug>(json: &'a str) -> bool {
        let (here, there) = (from_str::<T>(json).ok(), serde_json::from_str::<T>(json).ok());
        assert_eq!(format!("{here:?}"), format!("{there:?}"), "{json}");
        here.is_some()
    }

    /// The same of a type that does not look at all of it: what `serde_json` reads is read here.
    fn covers<'a, T: Deserialize<'a> + Debug>(json: &'a str) -> bool {
        let Ok(there) = serde_json::from_str::<T>(json) else { return false };
        let here = from_str::<T>(json).ok();
        assert_eq!(format!("{here:?}"), format!("{:?}", Some(there)), "{json}");
        true
    }

    /// The number of types that it was read as.
    fn agreements(json: &str) -> usize {
        let all = [
            agrees::<Value>(json),
            covers::<Shape<'_>>(json),
            agrees::<&RawValue>(json),
            covers::<IgnoredAny>(json),
            agrees::<BTreeMap<Str<'_>, &RawValue>>(json),
            agrees::<Option<Vec<u64>>>(json),
            agrees::<(u8, f64)>(json),
            agrees::<String>(json),
        ];
        all.into_iter().filter(|read| *read).count()
    }

    #[test]
    fn what_agents_print_is_read() {
        assert_eq!(agreements(OBJECT), 4, "not as the shape, whose list holds other things, nor as lists and strings");
        assert_eq!(agreements(r#"{"name":null,"list":["x",[1]],"raw":[ 1 ],"unit":"A","more":18446744073709551616}"#), 5);
        assert_eq!(agreements("[1, 2]"), 5);
        assert_eq!(agreements("null"), 4);
        assert_eq!(agreements(r#""a\tb""#), 4);
    }

    #[test]
    fn nothing_is_read_otherwise_than_by_serde_json() {
        for end in (0..OBJECT.len()).filter(|end| OBJECT.is_char_boundary(*end)) {
            agreements(&OBJECT[..end]);
            for piece in
                ["", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "n", "u", " ", "\n", "\0", "\u{1}", "é"]
            {
                let next = OBJECT[end..].chars().next().map_or(end, |c| end + c.len_utf8());
                agreements(&format!("{}{piece}{}", &OBJECT[..end], &OBJECT[end..]));
                agreements(&format!("{}{piece}{}", &OBJECT[..end], &OBJECT[next..]));
            }
        }
    }

    #[test]
    fn values_are_nested_as_deep_as_serde_json_allows() {
        for depth in [2, DEPTH - 1, DEPTH, DEPTH + 1, u8::MAX].map(usize::from) {
            let nested = "[".repeat(depth) + &"]".repeat(depth);
            assert_eq!(agreements(&nested), if depth <= usize::from(DEPTH) { 3 } else { 2 }, "{depth}");
            assert_eq!(agreements(&nested.replace("[]", "[}")), 0, "{depth}");
        }
    }
}
