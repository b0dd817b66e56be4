//! Finding where a JSON string ends, in long strings most of all.
//!
//! A loop that stops at every escape of a long text spends its time on the stops. Here one pass looks for the closing
//! quote and a second one, which never stops, makes sure that the string is written as nearly all are. Only a part of
//! it that has something rare is looked at escape by escape.

use std::ops::Range;

/// Where a JSON string ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quoted {
    /// Behind its closing quote.
    pub(super) end: usize,
    /// Whether anything in it is escaped.
    pub(super) escaped: bool,
}

/// Keys, names and ids are looked for in the first so many bytes before anything else is done.
const SHORT: usize = 40;

/// How many bytes are looked at by themselves when one of them is rare.
const BLOCK: usize = 1024;

/// The string that starts there; `None` when none does, or one that is not as JSON wants it.
#[inline]
pub(super) fn string(bytes: &[u8], start: usize) -> Option<Quoted> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    match stop(bytes, start + 1) {
        Some(end) if bytes[end] == b'"' => Some(Quoted { end: end + 1, escaped: false }),
        _ => long_string(bytes, start),
    }
}

/// The same of a string that is long, or has something in it that matters.
fn long_string(bytes: &[u8], start: usize) -> Option<Quoted> {
    let end = closing_quote(bytes, start, start + 1)?;
    let mut escaped = false;
    let mut start = start + 1;
    while start < end {
        // A block that ends inside a row of backslashes would hide from both blocks what the row means.
        let aim = end.min(start + BLOCK);
        let row = bytes[aim..].iter().take_while(|byte| **byte == b'\\').count();
        let block = start..aim + row;
        start = block.end;
        let looks = if block.end + NEIGHBOURS <= bytes.len() {
            look(bytes, block.clone())
        } else {
            // The text ends too early to look at all neighbours.
            Looks { rare: true, escaped: bytes[block.clone()].contains(&b'\\') }
        };
        if looks.rare && !is_valid(bytes, block) {
            return None;
        }
        escaped |= looks.escaped;
    }
    Some(Quoted { end: end + 1, escaped })
}

/// Where the string ends that starts there: behind its closing quote. What is between the quotes is not looked at.
#[inline]
pub(super) fn end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while let Some(word) = word_at(bytes, at).filter(|_| at <= start + SHORT) {
        let found = (equal(word, b'"') | equal(word, b'\\')) & HIGHS;
        if found != 0 {
            at += first_byte(found);
            if bytes[at] == b'"' {
                return Some(at + 1);
            }
            break;
        }
        at += 8;
    }
    closing_quote(bytes, start, at).map(|end| end + 1)
}

/// The closing quote of the string that starts there, from a place on that no escape reaches over.
fn closing_quote(bytes: &[u8], start: usize, from: usize) -> Option<usize> {
    let quotes = memchr::memchr_iter(b'"', bytes.get(from..)?).map(|offset| from + offset);
    // The opening quote ends every row of backslashes.
    let is_escaped = |at: usize| bytes[start..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    quotes.into_iter().find(|at| !is_escaped(*at))
}

/// What a JSON string says, in memory that is taken once. `None` when it holds a pair of escapes or half of one, or what
/// is no escape at all.
pub(super) fn unescaped(json: &str) -> Option<String> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (character, length) = match rest.as_bytes().get(at + 1)? {
            b'n' => ('\n', 2),
            byte @ (b'"' | b'\\' | b'/') => (char::from(*byte), 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'u' => {
                let digits = rest.get(at + 2..at + 6).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
                (char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, 6)
            }
            _ => return None,
        };
        text.push_str(&rest[..at]);
        text.push(character);
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    Some(text)
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES * 0x80;

/// Eight bytes, the first one lowest.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// A byte that is below a limit gets its high bit set when the limit is taken from it. A borrow can only spoil bytes behind
/// the first one that is found.
#[inline]
fn below(word: u64, limit: u64) -> u64 {
    word.wrapping_sub(ONES * limit) & !word
}

#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// Which byte the lowest high bit is of.
#[inline]
fn first_byte(found: u64) -> usize {
    found.trailing_zeros() as usize / 8
}

/// The first quote, backslash or control character, if it is among the first bytes from there on.
#[inline]
fn stop(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while at < start + SHORT {
        let Some(word) = word_at(bytes, at) else {
            let found = bytes.get(at..)?.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'));
            return found.map(|found| at + found);
        };
        let found = (below(word, 0x20) | equal(word, b'"') | equal(word, b'\\')) & HIGHS;
        if found != 0 {
            return Some(at + first_byte(found));
        }
        at += 8;
    }
    None
}

struct Looks {
    /// A control character, three backslashes in a row, or an escape that is not one of the usual ones.
    rare: bool,
    escaped: bool,
}

/// How many bytes behind a backslash belong to the longest escape.
const NEIGHBOURS: usize = 5;

/// Looks at every byte of a block inside the quotes, together with its neighbours. Nothing depends on the byte before
/// and nothing branches, so the compiler can do many bytes at a time.
#[allow(clippy::needless_bitwise_bool, reason = "a lazy operator is a branch")]
fn look(bytes: &[u8], block: Range<usize>) -> Looks {
    let length = block.len();
    // Slices of one length, so that no index is checked in the loop: the byte before, the byte, and those behind it.
    let at = |offset: usize| &bytes[block.start + offset - 1..][..length];
    let (before, byte, after, digits) = (at(0), at(1), at(2), [at(3), at(4), at(5), at(6)]);
    let (mut rare, mut escaped) = (false, false);
    for index in 0..length {
        let backslash = byte[index] == b'\\';
        // The second of two backslashes starts no escape, unless there are more.
        let second = before[index] == b'\\';
        let first = after[index] == b'\\';
        // What programs colour their output with is a control character, and usual.
        let colours = (after[index] == b'u')
            & (digits[0][index] == b'0')
            & (digits[1][index] == b'0')
            & ((digits[2][index] | 1) == b'1')
            & ((digits[3][index].wrapping_sub(b'0') < 10) | (digits[3][index].wrapping_sub(b'a') < 6));
        let short = (after[index] == b'n') | (after[index] == b'"') | (after[index] == b't') | (after[index] == b'r');
        let usual = first | short | colours;
        rare |= (byte[index] < 0x20) | (backslash & ((second & first) | !(second | usual)));
        escaped |= backslash;
    }
    Looks { rare, escaped }
}

/// Whether a block has no control characters and all its escapes are ones that JSON has.
fn is_valid(bytes: &[u8], block: Range<usize>) -> bool {
    let mut at = block.start;
    while let Some(offset) = bytes.get(at..block.end).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += offset;
        at += match &bytes[at + 1..] {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return false,
        };
    }
    // Values, not references: the compiler takes the least of many bytes at a time.
    bytes[block].iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= 0x20
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::{BLOCK, SHORT, end, stop, string, unescaped};

    #[test]
    fn what_is_unescaped_at_once_is_what_serde_json_reads() {
        for (json, at_once) in [
            (r#""""#, true),
            (r#""plain é""#, true),
            (r#""\"a\" \\ \/ \b\f\n\r\t é\n""#, true),
            (r#""\u001b[0m \u00e9\u2028 \uFFFD""#, true),
            (r#""\ud83d\ude00""#, false),
        ] {
            let text: String = serde_json::from_str(json).expect("a string");
            assert_eq!(unescaped(json), at_once.then_some(text), "{json}");
        }
        for json in [r#""\ud83d""#, r#""\x""#, r#""\u+123""#, r#""\u12""#, r#""\""#, "1"] {
            assert_eq!(unescaped(json), None, "{json}");
        }
    }

    #[test]
    fn the_first_byte_that_matters_is_found_wherever_it_is() {
        for at in 0..SHORT {
            for (byte, found) in
                [(b'"', true), (b'\\', true), (0, true), (0x1f, true), (0x20, false), (0x80, false), (0xff, false)]
            {
                for (before, behind) in [(b'a', b'"'), (b' ', b'\n'), (0xe9, b'a'), (b'#', 0)] {
                    let mut bytes = vec![before; at];
                    bytes.extend([byte, behind, behind]);
                    let wanted =
                        bytes.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')).filter(|at| *at < SHORT);
                    assert_eq!(stop(&bytes, 0), wanted, "{bytes:?}");
                    assert!(!found || wanted == Some(at));
                }
            }
        }
    }

    #[test]
    fn where_a_string_ends_does_not_depend_on_what_is_in_it() {
        let end = |text: &str| end(text.as_bytes(), 0);
        for text in ["\"\" x", "\"a\\\"b\" x", "\"\u{1}\\x\" x", &format!("\"{}\\\\\" x", "é".repeat(100))] {
            assert_eq!(end(text), Some(text.len() - 2), "{text}");
        }
        // A quote behind any number of backslashes, anywhere.
        for before in 0..2 * SHORT {
            for backslashes in 0..20 {
                let text = format!("\"{}{}\" x\"", "a".repeat(before), "\\".repeat(backslashes));
                let wanted = if backslashes % 2 == 0 { text.len() - 3 } else { text.len() };
                assert_eq!(end(&text), Some(wanted), "{text}");
            }
        }
        assert_eq!((end("\"a\\\""), end("\"")), (None, None));
    }

    #[test]
    fn a_string_ends_at_the_quote_that_is_not_escaped() {
        let of = |text: &'static str| string(text.as_bytes(), 0).map(|found| (&text[..found.end], found.escaped));
        assert_eq!(of(r#""" and more"#), Some((r#""""#, false)));
        assert_eq!(of(r#""plain" "more""#), Some((r#""plain""#, false)));
        assert_eq!(of(r#""a\"b\\" "more""#), Some((r#""a\"b\\""#, true)));
        assert_eq!(of(r#""Größe \\s \u00e9 \/" "#), Some((r#""Größe \\s \u00e9 \/""#, true)));
        assert_eq!(of(r#""no end \""#), None);
        assert_eq!(of("1"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn what_serde_json_refuses_is_refused() {
        let pieces = [
            "",
            "\\n",
            "\\\\",
            "\\/",
            "\\x",
            "\\\\x",
            "\\\\\\x",
            "\\\\\\n",
            "\\\\\\\\x",
            "\\u12",
            "\\u12g4",
            "\\u00e9",
            "\\ud83d",
            "\u{1}",
            "\u{7f}",
            "\t",
            "é\\",
            "\\\"",
            "\\\\\\\"",
        ];
        // Wherever it stands: at the start, in the middle, and over the border of two blocks.
        for before in [0, 1, SHORT - 1, SHORT, SHORT + 1, BLOCK - 3, BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1] {
            for piece in pieces {
                for after in ["", "x", "plain \\n and \\t"] {
                    let json = format!("\"{}{piece}{after}\"", "a".repeat(before));
                    let valid = serde_json::from_str::<IgnoredAny>(&json).is_ok();
                    let found = string(json.as_bytes(), 0).filter(|found| found.end == json.len());
                    assert_eq!(found.is_some(), valid, "{before} bytes and {piece}{after}");
                }
            }
        }
    }
}
