//! Finding where a JSON string ends, and what is escaped in it, in long strings most of all.
//!
//! A loop that looks at one byte after another spends its time on the bytes that mean nothing. Here many are looked at
//! together, and only the quotes and backslashes among them one by one:
//!
//! ```text
//! 64 bytes      fn main() {\n    println!(\"hello\");\n}\n", "next": …
//! stops         ───────────^──────────────^──────^───^──^─^
//! ```
//!
//! All that anybody wants to know of a string is told by the one pass over it.

use wide::u8x16;

/// Where a JSON string ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quoted {
    /// Behind its closing quote.
    pub(super) end: usize,
    pub(super) escapes: Escapes,
}

/// What is escaped in a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Escapes {
    /// How many bytes more are written than said, where every escape says one byte. Without an escape there are none.
    pub surplus: usize,
    /// There is a `\u` that we would not write: of anything but a control character that has no shorter escape.
    pub foreign: bool,
}

impl Escapes {
    /// Whether anything is escaped.
    #[inline]
    pub fn any(self) -> bool {
        self.surplus > 0
    }
}

/// Sixteen bytes are compared at once; nearly all keys, names and ids end among the first two times sixteen.
const LANES: usize = 16;
const SHORT: usize = 2 * LANES;
/// Of longer strings so many bytes are looked at together, one bit for each.
const BLOCK: usize = 64;

/// The string that starts there; `None` when none does, or one that is not as JSON wants it.
#[inline]
pub(super) fn string(bytes: &[u8], start: usize) -> Option<Quoted> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    match first_stop(bytes, start + 1, |lanes| is_mark(lanes) | is_control(lanes)) {
        Some(end) if bytes[end] == b'"' => Some(Quoted { end: end + 1, escapes: Escapes::default() }),
        _ => long_string(bytes, start),
    }
}

/// The same of a string that is long, or has something in it that matters. It is kept apart, so that the way of short ones
/// is short wherever it is taken.
#[inline(never)]
fn long_string(bytes: &[u8], start: usize) -> Option<Quoted> {
    let mut escapes = Escapes::default();
    // The least of the bytes before the block, in sixteen parts.
    let mut least = u8x16::splat(u8::MAX);
    let mut at = start + 1;
    let mut end_of_text = [0; BLOCK];
    loop {
        let block = block_at(bytes, at, &mut end_of_text)?;
        let mut stops = marks(block, is_mark);
        let mut next = at + BLOCK;
        while stops != 0 {
            let stop = stops.trailing_zeros() as usize;
            if block[stop] == b'"' {
                let has_controls = is_control(least).to_bitmask() != 0 || block[..stop].iter().any(|byte| *byte < 0x20);
                return (!has_controls).then_some(Quoted { end: at + stop + 1, escapes });
            }
            let length = escape(bytes.get(at + stop + 1..)?, &mut escapes)?;
            let behind = stop + length;
            if behind >= BLOCK {
                // The next block begins behind the escape, so that none is ever cut.
                next = at + behind;
                break;
            }
            stops &= u64::MAX << behind;
        }
        block.as_chunks().0.iter().for_each(|lanes| least = least.min(u8x16::new(*lanes)));
        at = next;
    }
}

/// Takes note of the escape whose backslash these bytes follow; gives its length. `None` when it is none.
#[inline]
fn escape(behind: &[u8], escapes: &mut Escapes) -> Option<usize> {
    match behind.first()? {
        b'n' | b'"' | b'\\' | b't' | b'r' | b'/' | b'b' | b'f' => {
            escapes.surplus += 1;
            Some(2)
        }
        b'u' => {
            let digits: &[u8; 4] = behind[1..].first_chunk()?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            escapes.surplus += 5;
            escapes.foreign |= !is_own_unit(*digits);
            Some(6)
        }
        _ => None,
    }
}

/// Whether these are the digits of a control character that has no shorter escape, as we write them.
pub(super) fn is_own_unit(digits: [u8; 4]) -> bool {
    match digits {
        [b'0', b'0', b'0', low] => matches!(low, b'0'..=b'7' | b'b' | b'e' | b'f'),
        [b'0', b'0', b'1', low] => matches!(low, b'0'..=b'9' | b'a'..=b'f'),
        _ => false,
    }
}

/// Where the string ends that starts there: behind its closing quote. What is between the quotes is not looked at.
#[inline]
pub(super) fn end(bytes: &[u8], start: usize) -> Option<usize> {
    match first_stop(bytes, start + 1, is_mark) {
        Some(end) if bytes[end] == b'"' => Some(end + 1),
        stop => long_end(bytes, start, stop),
    }
}

/// The same of a string that is long, or has an escape in it, which the stop is at then.
#[inline(never)]
fn long_end(bytes: &[u8], start: usize, stop: Option<usize>) -> Option<usize> {
    let behind = start + 1 + SHORT;
    // Many ids are a little longer.
    let from = match stop.or_else(|| first_stop(bytes, behind, is_mark)) {
        Some(end) if bytes[end] == b'"' => return Some(end + 1),
        Some(escape) => escape,
        None => behind + SHORT,
    };
    let mut at = from;
    let mut end_of_text = [0; BLOCK];
    loop {
        let block = block_at(bytes, at, &mut end_of_text)?;
        // In most blocks of a long string there is no quote at all, and then backslashes do not matter either.
        if has_quote(block) {
            let mut carry = is_cut_escape(&bytes[from..at]);
            let ends = marks(block, is_quote) & !escaped(marks(block, is_backslash), &mut carry);
            if ends != 0 {
                return Some(at + ends.trailing_zeros() as usize + 1);
            }
        }
        at += BLOCK;
    }
}

#[inline]
fn has_quote(block: &[u8; BLOCK]) -> bool {
    let quotes = block.as_chunks::<LANES>().0.iter().map(|lanes| is_quote(u8x16::new(*lanes)));
    quotes.fold(u8x16::splat(0), |any, quotes| any | quotes).to_bitmask() != 0
}

/// Whether these bytes end with a backslash that escapes what comes behind them.
#[inline]
fn is_cut_escape(before: &[u8]) -> bool {
    before.last() == Some(&b'\\') && before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Which bytes are behind a backslash that escapes them, by the places of all backslashes. The carry says whether the byte
/// before the block escapes the first one, and then whether the last one escapes the byte behind it.
#[inline]
fn escaped(backslashes: u64, carry: &mut bool) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    // Of a row of backslashes every second one escapes. Where a row begins at an odd place, adding its first place to it
    // turns the row over, and tells even from odd for all rows at once.
    let first = u64::from(*carry);
    let backslashes = backslashes & !first;
    let behind = backslashes << 1 | first;
    let odd_rows = backslashes & !EVEN & !behind;
    let (turned, over) = odd_rows.overflowing_add(backslashes);
    *carry = over;
    (EVEN ^ (turned << 1)) & behind
}

#[inline]
fn is_quote(lanes: u8x16) -> u8x16 {
    lanes.simd_eq(u8x16::splat(b'"'))
}

#[inline]
fn is_backslash(lanes: u8x16) -> u8x16 {
    lanes.simd_eq(u8x16::splat(b'\\'))
}

#[inline]
fn is_mark(lanes: u8x16) -> u8x16 {
    is_quote(lanes) | is_backslash(lanes)
}

#[inline]
fn is_control(lanes: u8x16) -> u8x16 {
    lanes.min(u8x16::splat(0x1f)).simd_eq(lanes)
}

/// The bytes of a block that are so, the first one lowest.
#[inline]
fn marks(block: &[u8; BLOCK], is: impl Fn(u8x16) -> u8x16) -> u64 {
    let lanes = block.as_chunks::<LANES>().0.iter().enumerate();
    lanes.fold(0, |marks, (place, lanes)| marks | u64::from(is(u8x16::new(*lanes)).to_bitmask()) << (place * LANES))
}

/// The first byte that is so, if it is among the first few from there on.
#[inline]
fn first_stop(bytes: &[u8], start: usize, is: impl Fn(u8x16) -> u8x16) -> Option<usize> {
    let Some(short) = bytes.get(start..).and_then(|rest| rest.first_chunk()) else { return last_stop(bytes, start, is) };
    let stops = short_marks(short, is);
    (stops != 0).then(|| start + stops.trailing_zeros() as usize)
}

/// The same where the text ends so soon: of its last bytes, those before the start do not count.
#[inline(never)]
fn last_stop(bytes: &[u8], start: usize, is: impl Fn(u8x16) -> u8x16) -> Option<usize> {
    let stops = if let Some(short) = bytes.last_chunk() {
        let before = start.checked_sub(bytes.len() - SHORT)?;
        short_marks(short, is).checked_shr(u32::try_from(before).ok()?)?
    } else {
        // What is behind the text is nothing that stops.
        let mut short = [b' '; SHORT];
        let rest = bytes.get(start..)?;
        short[..rest.len()].copy_from_slice(rest);
        short_marks(&short, is)
    };
    (stops != 0).then(|| start + stops.trailing_zeros() as usize)
}

#[inline]
fn short_marks(short: &[u8; SHORT], is: impl Fn(u8x16) -> u8x16) -> u32 {
    let lanes = short.as_chunks::<LANES>().0.iter().enumerate();
    lanes.fold(0, |stops: u32, (place, lanes)| stops | is(u8x16::new(*lanes)).to_bitmask() << (place * LANES))
}

/// How long the word is that these bytes begin with, up to its closing quote, if it is short and nothing in it is escaped.
#[inline]
pub(super) fn word(bytes: &[u8]) -> Option<usize> {
    first_stop(bytes, 0, is_mark).filter(|end| bytes[*end] == b'"')
}

/// The bytes from there on; at the end of the text as many as there are, and what is in that buffer. `None` when there are
/// none.
#[inline]
fn block_at<'b>(bytes: &'b [u8], at: usize, end_of_text: &'b mut [u8; BLOCK]) -> Option<&'b [u8; BLOCK]> {
    let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
    if let Some(block) = rest.first_chunk() {
        return Some(block);
    }
    end_of_text[..rest.len()].copy_from_slice(rest);
    Some(end_of_text)
}

/// What a JSON string says, in memory that is taken once. `None` when it holds a pair of escapes or half of one, or what
/// is no escape at all.
pub(super) fn unescaped(json: &str) -> Option<String> {
    unescaped_inside(json.strip_prefix('"')?.strip_suffix('"')?)
}

/// The same of what is written between its quotes.
pub(super) fn unescaped_inside(inside: &str) -> Option<String> {
    let mut text = String::with_capacity(inside.len());
    // Up to where it was copied, and up to where it was looked at.
    let (mut copied, mut at) = (0, 0);
    let mut end_of_text = [0; BLOCK];
    while let Some(block) = block_at(inside.as_bytes(), at, &mut end_of_text) {
        let mut stops = marks(block, is_backslash);
        let mut next = at + BLOCK;
        while stops != 0 {
            let stop = at + stops.trailing_zeros() as usize;
            let (character, length) = said(inside, stop)?;
            text.push_str(inside.get(copied..stop)?);
            text.push(character);
            copied = stop + length;
            if copied - at >= BLOCK {
                next = copied;
                break;
            }
            stops &= u64::MAX << (copied - at);
        }
        at = next;
    }
    text.push_str(inside.get(copied..)?);
    Some(text)
}

/// The character that an escape says which stands there, and how long the escape is.
#[inline]
fn said(inside: &str, at: usize) -> Option<(char, usize)> {
    Some(match inside.as_bytes().get(at + 1)? {
        b'n' => ('\n', 2),
        byte @ (b'"' | b'\\' | b'/') => (char::from(*byte), 2),
        b't' => ('\t', 2),
        b'r' => ('\r', 2),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'u' => {
            let digits = inside.get(at + 2..at + 6).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
            (char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, 6)
        }
        _ => return None,
    })
}

/// Hands out what stands between the quotes of a JSON string that says that text: what needs no escape as it is, and the
/// escapes between.
pub(super) fn escaped_pieces(text: &str, mut take: impl FnMut(&str)) {
    let (mut copied, mut at) = (0, 0);
    let mut end_of_text = [b' '; BLOCK];
    while let Some(block) = block_at(text.as_bytes(), at, &mut end_of_text) {
        let mut stops = marks(block, |lanes| is_mark(lanes) | is_control(lanes));
        while stops != 0 {
            let stop = stops.trailing_zeros() as usize;
            take(text.get(copied..at + stop).unwrap_or_default());
            take(ESCAPES.get(usize::from(block[stop])).copied().unwrap_or("\\\\"));
            copied = at + stop + 1;
            stops &= stops - 1;
        }
        at += BLOCK;
    }
    take(text.get(copied..).unwrap_or_default());
}

/// How bytes are written that need an escape, but for the backslash.
const ESCAPES: [&str; 35] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t", "\\n", "\\u000b",
    "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
    "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f", " ", "!", "\\\"",
];

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::{BLOCK, Escapes, SHORT, end, escaped_pieces, string, unescaped};

    #[test]
    fn what_is_escaped_is_what_serde_json_writes() {
        let every: String = (0_u32..0x100).filter_map(char::from_u32).collect();
        for before in 0..2 * BLOCK {
            for text in ["", "\"", "\\", "\n\n", "\u{0}\u{1f}é", every.as_str()] {
                let text = format!("{}{text}", "a".repeat(before));
                let mut written = String::new();
                escaped_pieces(&text, |piece| written.push_str(piece));
                assert_eq!(serde_json::to_string(&text).ok(), Some(format!("\"{written}\"")));
                assert_eq!(unescaped(&format!("\"{written}\"")), Some(text));
            }
        }
    }

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
    fn a_byte_that_matters_is_found_wherever_it_is() {
        for at in 0..3 * BLOCK {
            for (byte, is_end, is_refused) in [
                (b'"', true, false),
                (0, false, true),
                (0x1f, false, true),
                (0x20, false, false),
                (0x7f, false, false),
                (0x80, false, false),
                (0xff, false, false),
            ] {
                for behind in ["\"", "aaaa\"", "\", \n\u{0}\"", &format!("{}\" \"", "a".repeat(2 * BLOCK))] {
                    let mut bytes = vec![b'a'; at + 1];
                    bytes[0] = b'"';
                    bytes.push(byte);
                    bytes.extend(behind.bytes());
                    let closing = if is_end { at + 1 } else { at + 2 + behind.find('"').expect("a quote") };
                    let wanted = (!is_refused).then_some(closing + 1);
                    assert_eq!(string(&bytes, 0).map(|found| found.end), wanted, "{bytes:?}");
                    assert_eq!(end(&bytes, 0), Some(closing + 1), "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_escaped_is_counted() {
        for before in 0..2 * BLOCK {
            for (json, surplus, foreign) in [
                ("", 0, false),
                (r#"\n\t\r\"\\\/\b\f"#, 8, false),
                (r"\u001b[0m", 5, false),
                (r"\\u001b", 1, false),
                (r"\\\u0000", 6, false),
                (r"\u001B", 5, true),
                (r"\u000a", 5, true),
                (r"\u00e9\n", 6, true),
                (r"\ud83d\ude00", 10, true),
            ] {
                let json = format!("\"{}{json}é\"", "a".repeat(before));
                let found = string(json.as_bytes(), 0).expect("a string");
                assert_eq!((found.end, found.escapes), (json.len(), Escapes { surplus, foreign }), "{json}");
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
        for before in 0..2 * BLOCK {
            for backslashes in (0..20).chain(60..70) {
                let text = format!("\"{}{}\" x\"", "a".repeat(before), "\\".repeat(backslashes));
                let wanted = if backslashes % 2 == 0 { text.len() - 3 } else { text.len() };
                assert_eq!(end(&text), Some(wanted), "{text}");
            }
        }
        assert_eq!((end("\"a\\\""), end("\"")), (None, None));
        // Where the text ends soon behind it, or with it.
        for (before, behind) in (0..3 * SHORT).flat_map(|before| (0..SHORT).map(move |behind| (before, behind))) {
            let text = format!("\"{}\"a{}", "\"".repeat(before), "x".repeat(behind));
            assert_eq!(super::end(text.as_bytes(), before), Some(before + 2), "{text}");
            assert_eq!(super::word(&text.as_bytes()[before + 2..]), None, "{text}");
        }
    }

    #[test]
    fn a_string_ends_at_the_quote_that_is_not_escaped() {
        let of = |text: &'static str| string(text.as_bytes(), 0).map(|found| (&text[..found.end], found.escapes.any()));
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
