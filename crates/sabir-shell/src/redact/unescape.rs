//! Unescaping, with a mapping back to the original text.
//!
//! Encoders choose freely which characters they escape, so escaped secrets cannot be enumerated. Instead, the text is unescaped
//! layer by layer until nothing changes, and searched for secrets in the same canonical form. Percent escapes, backslash
//! escapes (JSON, JavaScript, C, shells) and HTML entities are decoded; terminal control sequences, invisible characters, and
//! line breaks within base64 are removed.

use std::ops::Range;

/// Maximum nesting of escapes.
const MAX_LAYERS: usize = 4;
/// Maximum length of a terminal control sequence.
const MAX_CONTROL_SEQUENCE: usize = 256;
/// Minimum length of a base64 line; shorter lines are prose or code.
const MIN_BASE64_LINE: usize = 16;
/// Length of the longest name in [`ENTITIES`] with `&` and `;`, and of `&#x10FFFF;`.
const MAX_ENTITY: usize = 10;

/// Unescaped text.
#[derive(Debug)]
pub(super) struct UnescapedText {
    pub(super) bytes: Vec<u8>,
    /// Edits of each layer.
    layers: Vec<Vec<Edit>>,
    /// Offset of an escape that is cut off by the end of the text.
    pub(super) incomplete: Option<usize>,
}

/// A replaced span.
#[derive(Debug, Clone, Copy)]
struct Edit {
    /// Offset and length in the output.
    to: usize,
    to_len: usize,
    /// Offset and length in the input.
    from: usize,
    from_len: usize,
}

/// Result of parsing an escape.
enum Escape {
    /// Not an escape.
    None,
    /// An escape of `len` input bytes and its replacement.
    Replaced { len: usize, bytes: [u8; 4], count: usize },
    /// The escape is cut off. `may_start_secret`: a secret may begin with it.
    Incomplete { may_start_secret: bool },
}

impl UnescapedText {
    /// Unescapes a text; `None` if it has no escapes. `run_before`: length of the preceding [base64 run](base64_run);
    /// `is_final`: no more text follows.
    pub(super) fn new(text: &[u8], run_before: usize, is_final: bool) -> Option<Self> {
        let mut view = Self { bytes: Vec::new(), layers: Vec::new(), incomplete: None };
        for _ in 0..MAX_LAYERS {
            let text = if view.layers.is_empty() { text } else { &view.bytes };
            let Some(layer) = unescape(text, run_before, is_final) else { break };
            let changed = !layer.edits.is_empty();
            // An incomplete escape of a later layer precedes that of an earlier one.
            view.incomplete = layer.incomplete.or(view.incomplete.map(|_| layer.bytes.len()));
            view.bytes = layer.bytes;
            view.layers.push(layer.edits);
            if !changed {
                break;
            }
        }
        (!view.layers.is_empty()).then_some(view)
    }

    /// Original offset of the byte at `at`.
    pub(super) fn start(&self, at: usize) -> usize {
        self.layers.iter().rev().fold(at, |at, edits| match last_edit_before(edits, at) {
            Some(edit) if at < edit.to + edit.to_len => edit.from,
            Some(edit) => edit.from + edit.from_len + (at - edit.to - edit.to_len),
            None => at,
        })
    }

    /// Original end of the byte before `at`.
    pub(super) fn end(&self, at: usize) -> usize {
        self.layers.iter().rev().fold(at, |at, edits| match at.checked_sub(1).and_then(|last| last_edit_before(edits, last)) {
            Some(edit) if at <= edit.to + edit.to_len => edit.from + edit.from_len,
            Some(edit) => edit.from + edit.from_len + (at - edit.to - edit.to_len),
            None => at,
        })
    }
}

/// Regions with escapes, extended by `reach` bytes on both sides. Outside of them, unescaping changes nothing.
pub(super) fn regions(text: &[u8], run_before: usize, is_final: bool, reach: usize) -> Vec<Range<usize>> {
    let mut regions: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].iter().position(|byte| may_start_escape(*byte)) {
        let start = at + next;
        at = match escape(&text[start..], || base64_run(&text[..start], run_before), is_final) {
            Escape::None => {
                at = start + skip_len(&text[start..]);
                continue;
            }
            Escape::Replaced { len, .. } => start + len,
            Escape::Incomplete { .. } => text.len(),
        };
        let (from, to) = (start.saturating_sub(reach), text.len().min(at + reach));
        match regions.last_mut() {
            Some(last) if from <= last.end => last.end = to,
            _ => regions.push(from..to),
        }
    }
    regions
}

/// Canonical form of a value.
pub(super) fn canonical(value: &[u8]) -> Vec<u8> {
    UnescapedText::new(value, 0, true).map_or_else(|| value.to_vec(), |view| view.bytes)
}

/// Number of trailing base64 letters, including those before the text, up to [`MIN_BASE64_LINE`].
pub(super) fn base64_run(text: &[u8], run_before: usize) -> usize {
    let letters = text.iter().rev().take(MIN_BASE64_LINE).take_while(|byte| is_base64(**byte)).count();
    if letters == text.len() { (letters + run_before).min(MIN_BASE64_LINE) } else { letters }
}

/// The last edit at or before an offset.
fn last_edit_before(edits: &[Edit], at: usize) -> Option<&Edit> {
    edits[..edits.partition_point(|edit| edit.to <= at)].last()
}

struct Layer {
    bytes: Vec<u8>,
    edits: Vec<Edit>,
    incomplete: Option<usize>,
}

/// Decodes one layer; `None` if it has no escapes.
fn unescape(text: &[u8], run_before: usize, is_final: bool) -> Option<Layer> {
    let mut layer = Layer { bytes: Vec::new(), edits: Vec::new(), incomplete: None };
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = text[at..].iter().position(|byte| may_start_escape(*byte)) {
        let start = at + next;
        let run = || base64_run(&text[copied..start], base64_run(&layer.bytes, run_before));
        match escape(&text[start..], run, is_final) {
            Escape::None => at = start + skip_len(&text[start..]),
            Escape::Replaced { len, bytes, count } => {
                layer.bytes.extend_from_slice(&text[copied..start]);
                layer.edits.push(Edit { to: layer.bytes.len(), to_len: count, from: start, from_len: len });
                layer.bytes.extend_from_slice(&bytes[..count]);
                at = start + len;
                copied = at;
            }
            Escape::Incomplete { may_start_secret } => {
                layer.bytes.extend_from_slice(&text[copied..start]);
                layer.incomplete = may_start_secret.then_some(layer.bytes.len());
                return Some(layer);
            }
        }
    }
    layer.bytes.extend_from_slice(&text[copied..]);
    (!layer.edits.is_empty()).then_some(layer)
}

/// Number of leading bytes that are not an escape. Consecutive backslashes are parsed together.
fn skip_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count().max(1)
}

/// Bytes that can start an escape.
const ESCAPE_STARTS: [bool; 256] = {
    let bytes = [b'\\', b'%', b'&', 0x1b, b'\r', b'\n', 0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xef];
    let mut table = [false; 256];
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
};

fn may_start_escape(byte: u8) -> bool {
    ESCAPE_STARTS[usize::from(byte)]
}

/// Parses the escape at the beginning of a text after a [base64 run](base64_run).
fn escape(text: &[u8], run_before: impl FnOnce() -> usize, is_final: bool) -> Escape {
    let found = match text[0] {
        b'\\' => backslash(text, is_final),
        b'%' => percent(text),
        b'&' => entity(text),
        0x1b => control_sequence(text),
        b'\r' | b'\n' => line_break(text, run_before),
        _ => invisible(text),
    };
    match found {
        // Nothing follows that could complete it.
        Escape::Incomplete { .. } if is_final => Escape::None,
        found => found,
    }
}

const fn single_byte(len: usize, byte: u8) -> Escape {
    Escape::Replaced { len, bytes: [byte, 0, 0, 0], count: 1 }
}

const fn removed(len: usize) -> Escape {
    Escape::Replaced { len, bytes: [0; 4], count: 0 }
}

const INCOMPLETE: Escape = Escape::Incomplete { may_start_secret: true };

fn character(len: usize, code: u32) -> Escape {
    let Some(character) = char::from_u32(code) else { return Escape::None };
    let mut bytes = [0; 4];
    let count = character.encode_utf8(&mut bytes).len();
    Escape::Replaced { len, bytes, count }
}

/// Parses `count` hexadecimal digits.
fn digits(text: &[u8], from: usize, count: usize) -> Result<u32, Escape> {
    let given = text.get(from..).unwrap_or_default();
    let given = &given[..given.len().min(count)];
    if !given.iter().all(u8::is_ascii_hexdigit) {
        return Err(Escape::None);
    }
    if given.len() < count {
        return Err(INCOMPLETE);
    }
    Ok(given.iter().fold(0, |number, digit| number * 16 + char::from(*digit).to_digit(16).unwrap_or(0)))
}

/// `%2F`, and the non-standard `%u002F`.
fn percent(text: &[u8]) -> Escape {
    if text.get(1) == Some(&b'u') {
        return digits(text, 2, 4).map_or_else(|escape| escape, |code| character(6, code));
    }
    digits(text, 1, 2).map_or_else(|escape| escape, |code| single_byte(3, u8::try_from(code).unwrap_or_default()))
}

/// `\u002f`, `\u{2f}`, `\x2f`, `\057`, `\n`, `\/`. The number of backslashes is irrelevant, because nested JSON doubles them; backslashes that escape nothing are
/// removed.
fn backslash(text: &[u8], is_final: bool) -> Escape {
    let more = text.iter().take_while(|byte| **byte == b'\\').count() - 1;
    match after_backslash(&text[more..]) {
        Escape::Replaced { len, bytes, count } => Escape::Replaced { len: more + len, bytes, count },
        Escape::Incomplete { may_start_secret } if !is_final => Escape::Incomplete { may_start_secret },
        // The removal exposes the next escape.
        _ if matches!(text.get(more + 1), Some(0x1b)) || is_invisible(&text[more + 1..]) => Escape::None,
        _ => removed(more + 1),
    }
}

fn after_backslash(text: &[u8]) -> Escape {
    match text.get(1) {
        None => INCOMPLETE,
        Some(b'u') if text.get(2) == Some(&b'{') => {
            let length = text[3..].iter().take(7).position(|byte| *byte == b'}');
            match length {
                Some(length) => digits(text, 3, length).map_or_else(|escape| escape, |code| character(length + 4, code)),
                None if text.len() < 10 && text[3..].iter().all(u8::is_ascii_hexdigit) => INCOMPLETE,
                None => Escape::None,
            }
        }
        Some(b'u') => match digits(text, 2, 4) {
            Ok(high @ 0xd800..=0xdbff) => surrogates(text, high),
            Ok(code) => character(6, code),
            Err(escape) => escape,
        },
        Some(b'x') => {
            digits(text, 2, 2).map_or_else(|escape| escape, |code| single_byte(4, u8::try_from(code).unwrap_or_default()))
        }
        Some(b'0'..=b'3') => {
            let octal = &text[1..text.len().min(4)];
            match (octal.iter().all(|byte| (b'0'..=b'7').contains(byte)), octal.len()) {
                (true, 3) => {
                    single_byte(4, octal.iter().fold(0, |number: u8, digit| number.wrapping_mul(8).wrapping_add(digit - b'0')))
                }
                (true, _) => INCOMPLETE,
                (false, _) => Escape::None,
            }
        }
        Some(b'n') => single_byte(2, b'\n'),
        Some(b'r') => single_byte(2, b'\r'),
        Some(b't') => single_byte(2, b'\t'),
        Some(b'b') => single_byte(2, 8),
        Some(b'f') => single_byte(2, 12),
        // A shell line continuation.
        Some(b'\n') => removed(2),
        Some(_) => Escape::None,
    }
}

/// A surrogate pair: `\ud83d\ude00`.
fn surrogates(text: &[u8], high: u32) -> Escape {
    let slashes = text[6..].iter().take_while(|byte| **byte == b'\\').count();
    match text.get(6 + slashes) {
        None => INCOMPLETE,
        Some(b'u') if slashes > 0 => match digits(text, 7 + slashes, 4) {
            Ok(low @ 0xdc00..=0xdfff) => character(11 + slashes, 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)),
            Ok(_) => Escape::None,
            Err(escape) => escape,
        },
        Some(_) => Escape::None,
    }
}

/// Named HTML entities.
const ENTITIES: &[(&[u8], u8)] = &[
    (b"amp", b'&'),
    (b"lt", b'<'),
    (b"gt", b'>'),
    (b"quot", b'"'),
    (b"apos", b'\''),
    (b"sol", b'/'),
    (b"bsol", b'\\'),
    (b"equals", b'='),
    (b"plus", b'+'),
    (b"colon", b':'),
    (b"semi", b';'),
    (b"comma", b','),
    (b"period", b'.'),
    (b"excl", b'!'),
    (b"quest", b'?'),
    (b"num", b'#'),
    (b"dollar", b'$'),
    (b"percnt", b'%'),
    (b"commat", b'@'),
    (b"ast", b'*'),
    (b"lpar", b'('),
    (b"rpar", b')'),
    (b"lsqb", b'['),
    (b"rsqb", b']'),
    (b"lbrack", b'['),
    (b"rbrack", b']'),
    (b"lcub", b'{'),
    (b"rcub", b'}'),
    (b"lbrace", b'{'),
    (b"rbrace", b'}'),
    (b"verbar", b'|'),
    (b"vert", b'|'),
    (b"lowbar", b'_'),
    (b"grave", b'`'),
    (b"Hat", b'^'),
];

/// `&amp;`, `&#38;`, `&#x26;`.
fn entity(text: &[u8]) -> Escape {
    let within = &text[1..text.len().min(MAX_ENTITY)];
    let Some(length) = within.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'#')) else {
        return if text.len() < MAX_ENTITY { INCOMPLETE } else { Escape::None };
    };
    if within[length] != b';' {
        return Escape::None;
    }
    let name = &within[..length];
    if let Some(number) = name.strip_prefix(b"#") {
        let parse = |digits: &[u8], radix| u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok();
        let code = match number.strip_prefix(b"x").or_else(|| number.strip_prefix(b"X")) {
            Some(digits) => parse(digits, 16),
            None => parse(number, 10),
        };
        return code.map_or(Escape::None, |code| character(length + 2, code));
    }
    let known = ENTITIES.iter().find(|(entity, _)| *entity == name);
    known.map_or(Escape::None, |(_, byte)| single_byte(length + 2, *byte))
}

/// Colours, titles, links and other terminal control sequences.
fn control_sequence(text: &[u8]) -> Escape {
    let within = &text[..text.len().min(MAX_CONTROL_SEQUENCE)];
    let unterminated = if text.len() < MAX_CONTROL_SEQUENCE { INCOMPLETE } else { removed(1) };
    let end = match within.get(1) {
        None => return INCOMPLETE,
        Some(b'[') => within[2..].iter().position(|byte| !(0x20..0x40).contains(byte)).map(|length| length + 3),
        // Terminated by BEL or ESC `\`: titles and links.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let bell = memchr::memchr(7, within).map(|at| at + 1);
            bell.or_else(|| memchr::memmem::find(within, b"\x1b\\").map(|at| at + 2))
        }
        Some(0x20..=0x2f) => within[2..].iter().position(|byte| !(0x20..0x30).contains(byte)).map(|length| length + 3),
        Some(0x30..=0x7e) => Some(2),
        Some(_) => Some(1),
    };
    end.map_or(unterminated, removed)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// A line break with indentation between base64 letters.
fn line_break(text: &[u8], run_before: impl FnOnce() -> usize) -> Escape {
    if run_before() < MIN_BASE64_LINE {
        return Escape::None;
    }
    let rest = text.strip_prefix(b"\r").unwrap_or(text);
    let Some(rest) = rest.strip_prefix(b"\n") else {
        return if rest.is_empty() { Escape::Incomplete { may_start_secret: false } } else { Escape::None };
    };
    match rest.iter().position(|byte| !matches!(byte, b' ' | b'\t')) {
        None => Escape::Incomplete { may_start_secret: false },
        Some(indent) if is_base64(rest[indent]) => removed(text.len() - rest.len() + indent),
        Some(_) => Escape::None,
    }
}

/// Zero-width characters.
fn invisible(text: &[u8]) -> Escape {
    if is_invisible(text) { removed(if text[0] < 0xe0 { 2 } else { 3 }) } else { Escape::None }
}

fn is_invisible(text: &[u8]) -> bool {
    matches!(
        *text,
        [0xc2, 0xad, ..]
            | [0xcd, 0x8f, ..]
            | [0xd8, 0x9c, ..]
            | [0xe2, 0x80, 0x8b..=0x8f | 0xaa..=0xae, ..]
            | [0xe2, 0x81, 0xa0..=0xaf, ..]
            | [0xe1, 0xa0, 0x8e, ..]
            | [0xef, 0xbb, 0xbf, ..]
            | [0xef, 0xb8, 0x80..=0x8f, ..]
    )
}
