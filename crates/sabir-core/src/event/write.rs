//! JSON writer for events.
//!
//! Writing is a hot path: unlike serde's writer, this one has constant keys that need no escaping, and scans strings eight
//! bytes at a time.

use std::borrow::Cow;

use serde::Serialize;

use super::enums::{Cause, Change, ChangeSource, Detection, Outcome, Timeout, ToolKind, ToolStatus, UsageScope};
use super::{Accounting, CostParts, PermissionOption, PlanItem, SuggestedEdit, Text};
use crate::json;

/// A field of an event kind.
pub(super) trait Field {
    /// The type of the field without borrowed text.
    type Static;
    /// Whether it is left out of the JSON.
    fn is_absent(&self) -> bool {
        false
    }
    /// Appends the JSON value.
    fn write(&self, out: &mut Vec<u8>);
    /// Copies borrowed texts.
    fn into_static(self) -> Self::Static;
    /// Calls the function with every text; a returned text replaces it.
    fn map_text(&mut self, _: &mut dyn FnMut(&str) -> Option<String>) {}
}

impl Field for Cow<'_, str> {
    type Static = Cow<'static, str>;
    fn write(&self, out: &mut Vec<u8>) {
        string(self, out);
    }
    fn into_static(self) -> Self::Static {
        Cow::Owned(self.into_owned())
    }
    fn map_text(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        if let Some(text) = change(self) {
            *self = Cow::Owned(text);
        }
    }
}

impl Field for Text<'_> {
    type Static = Text<'static>;
    fn write(&self, out: &mut Vec<u8>) {
        Text::write(self, out);
    }
    fn into_static(self) -> Self::Static {
        self.into_owned()
    }
    fn map_text(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        if let Some(text) = change(self) {
            *self = Text::from(text);
        }
    }
}

impl<T: Field> Field for Option<T> {
    type Static = Option<T::Static>;
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(out);
        }
    }
    fn into_static(self) -> Self::Static {
        self.map(Field::into_static)
    }
    fn map_text(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        if let Some(value) = self {
            value.map_text(change);
        }
    }
}

impl<T: Field + Serialize> Field for Vec<T>
where
    T::Static: Sized,
{
    type Static = Vec<T::Static>;
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item.write(out);
        }
        out.push(b']');
    }
    fn into_static(self) -> Self::Static {
        self.into_iter().map(Field::into_static).collect()
    }
    fn map_text(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        self.iter_mut().for_each(|item| item.map_text(change));
    }
}

/// Implements [`Field`] for types without borrowed text.
macro_rules! plain_fields {
    ($($Type:ty => |$value:ident, $out:ident| $write:expr),* $(,)?) => {$(
        impl Field for $Type {
            type Static = Self;
            fn write(&self, $out: &mut Vec<u8>) {
                let $value = self;
                $write;
            }
            fn into_static(self) -> Self {
                self
            }
        }
    )*};
}

plain_fields! {
    bool => |value, out| out.extend_from_slice(if *value { b"true" } else { b"false" }),
    u32 => |value, out| integer(u64::from(*value), out),
    u64 => |value, out| integer(*value, out),
    i32 => |value, out| { if *value < 0 { out.push(b'-'); } integer(u64::from(value.unsigned_abs()), out) },
    f64 => |value, out| serde_value(value, out),
    Accounting => |value, out| serde_value(value, out),
    CostParts => |value, out| serde_value(value, out),
    ToolKind => |value, out| word(value.as_str(), out),
    ToolStatus => |value, out| word(value.as_str(), out),
    Change => |value, out| word(value.as_str(), out),
    ChangeSource => |value, out| word(value.as_str(), out),
    UsageScope => |value, out| word(value.as_str(), out),
    Outcome => |value, out| word(value.as_str(), out),
    Cause => |value, out| word(value.as_str(), out),
    Timeout => |value, out| word(value.as_str(), out),
    Detection => |value, out| word(value.as_str(), out),
}

/// Implements [`Field`] for structs with text, which are rare enough to be written by serde.
macro_rules! record_fields {
    ($($Type:ident { $($text:ident),* }),* $(,)?) => {$(
        impl Field for $Type<'_> {
            type Static = $Type<'static>;
            fn write(&self, out: &mut Vec<u8>) {
                serde_value(self, out);
            }
            fn into_static(self) -> Self::Static {
                self.into_owned()
            }
            fn map_text(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
                $(self.$text.map_text(change);)*
            }
        }
    )*};
}

record_fields! {
    SuggestedEdit { file_path, replacement, title },
    PlanItem { text },
    PermissionOption { id, label },
}

/// Appends what serde writes for a value. Serializing our own types cannot fail.
fn serde_value<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

/// Appends a JSON string in which no character needs escaping.
pub(crate) fn word(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

pub(crate) fn integer(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a JSON string, escaped as `serde_json` does, and in addition the three line separators beyond ASCII (U+0085,
/// U+2028, U+2029): some languages split lines at them, and an event must be one line for every reader.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut at = 0;
    while let Some(special) = next_special(bytes, at) {
        out.extend_from_slice(&bytes[at..special]);
        at = special + escape(&bytes[special..], out);
    }
    out.extend_from_slice(&bytes[at..]);
    out.push(b'"');
}

/// Appends a JSON string, escaped exactly as `serde_json` does.
pub(crate) fn plain_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    json::escaped_pieces(text, |piece| out.extend_from_slice(piece.as_bytes()));
    out.push(b'"');
}

/// Appends the escape of the first character of `bytes` and returns the length of that character.
fn escape(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match bytes {
        [b'"', ..] => b'"',
        [b'\\', ..] => b'\\',
        [b'\n', ..] => b'n',
        [b'\r', ..] => b'r',
        [b'\t', ..] => b't',
        [0x08, ..] => b'b',
        [0x0c, ..] => b'f',
        [0xc2, ..] => {
            out.extend_from_slice(b"\\u0085");
            return 2;
        }
        [0xe2, _, last, ..] => {
            out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
            return 3;
        }
        _ => {
            let byte = bytes.first().copied().unwrap_or_default();
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return 1;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
    1
}

/// Position of the next character that must be escaped.
fn next_special(bytes: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Sets the high bit of the first zero byte, and possibly of bytes after it.
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = from;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| chunk.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let ascii = quote | backslash | control;
        if word & HIGH == 0 {
            if ascii != 0 {
                return Some(at + ascii.trailing_zeros() as usize / 8);
            }
        } else if let Some(found) = (at..at + 8).find(|&index| is_special(&bytes[index..])) {
            return Some(found);
        }
        at += 8;
    }
    (at..bytes.len()).find(|&index| is_special(&bytes[index..]))
}

/// Whether a JSON text contains one of the line separators that [`string`] escapes.
pub(super) fn has_line_separator(json: &str) -> bool {
    let bytes = json.as_bytes();
    memchr::memchr2_iter(0xc2, 0xe2, bytes).any(|index| is_special(&bytes[index..]))
}

fn is_special(bytes: &[u8]) -> bool {
    matches!(bytes, [0..0x20 | b'"' | b'\\', ..] | [0xc2, 0x85, ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..])
}

#[cfg(test)]
mod tests {
    use super::{integer, plain_string, string};

    #[test]
    fn string_escapes_as_serde_does() {
        let every: String = (0_u32..0x250).filter_map(char::from_u32).collect();
        for text in ["", "plain", "a\"b\\c\nd\u{0}e\u{1f}f\u{7f}g\u{2028}", every.as_str()] {
            for start in text.char_indices().map(|(index, _)| index) {
                let mut out = Vec::new();
                string(&text[start..], &mut out);
                let written = String::from_utf8(out).expect("UTF-8");
                let plain = written.replace("\\u0085", "\u{85}").replace("\\u2028", "\u{2028}");
                assert_eq!(plain, serde_json::to_string(&text[start..]).expect("a string"));
                assert_eq!(serde_json::from_str::<String>(&written).expect("JSON"), text[start..]);
                let mut out = Vec::new();
                plain_string(&text[start..], &mut out);
                assert_eq!(out, serde_json::to_vec(&text[start..]).expect("a string"));
            }
        }
    }

    #[test]
    fn integer_writes_all_digits() {
        for value in [0, 7, 10, 1_234_567, u64::MAX] {
            let mut out = Vec::new();
            integer(value, &mut out);
            assert_eq!(String::from_utf8(out).expect("digits"), value.to_string());
        }
    }
}
