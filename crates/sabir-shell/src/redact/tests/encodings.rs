//! Known secrets in every supported encoding, split at any place.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::{end, joined_text, text};
use crate::redact::{EventRedactor, Redactor};
use sabir_core::event::{Event, RunId};

const BEFORE: &str = "say ";
const AFTER: &str = ", then more";
const MARK: &str = "[secret S]";

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).expect("small")
    }

    fn secret(&mut self) -> String {
        const LETTERS: &str = "abcXYZ0189/~+=&<>\"'\\% -_.:;#?@!$*()[]{}|^`,ü→€😀";
        let letters: Vec<char> = LETTERS.chars().collect();
        let count = 8 + self.below(40);
        let secret: String = (0..count).map(|_| letters[self.below(letters.len())]).collect();
        // Secrets do not begin or end with a space.
        format!("{}{}9", char::from(b'a' + u8::try_from(self.below(26)).expect("a letter")), secret)
    }
}

fn secrets() -> Vec<String> {
    let fixed = [
        "hunter2-hunter2",
        "/vC1xLpRkQ0tZsYw+UoMnBe8/gHd3JfTa9KiXr2S",
        "~/looks.like~a/path",
        "p\"a/s\\s word+1",
        "a&b<c>d\"e'f=g~h/i",
        "100%41%2F&amp;\\n\\u0041",
        "Passwört → 😀 für alle",
    ];
    let mut numbers = Numbers(20_261_119);
    let mut secrets: Vec<String> = fixed.map(str::to_owned).to_vec();
    secrets.extend((0..40).map(|_| numbers.secret()));
    secrets
}

fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent(text: &str, unreserved: &str, hex: fn(u8) -> String) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || unreserved.as_bytes().contains(&byte);
    text.bytes().map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { hex(byte) }).collect()
}

fn upper(byte: u8) -> String {
    format!("%{byte:02X}")
}

fn lower(byte: u8) -> String {
    format!("%{byte:02x}")
}

fn mixed(byte: u8) -> String {
    if byte & 1 == 0 { upper(byte) } else { lower(byte) }
}

fn each(text: &str, write: impl Fn(char) -> Option<String>) -> String {
    text.chars().map(|character| write(character).unwrap_or_else(|| character.to_string())).collect()
}

fn utf16(character: char) -> String {
    character.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |mut text, unit| {
        let _ = write!(text, "\\u{unit:04x}");
        text
    })
}

fn entity(character: char) -> Option<String> {
    let name = match character {
        '&' => "amp",
        '<' => "lt",
        '>' => "gt",
        '"' => "quot",
        _ => return None,
    };
    Some(format!("&{name};"))
}

/// Encodings in which the secret is replaced exactly, with their names.
fn exact(secret: &str) -> Vec<(&'static str, String)> {
    let after_third = |what: &str| {
        let at = secret.char_indices().nth(3).expect("longer").0;
        format!("{}{what}{}", &secret[..at], &secret[at..])
    };
    let between = |what: &str| each(secret, |character| Some(format!("{character}{what}"))).trim_end_matches(what).to_owned();
    vec![
        ("as it is", secret.to_owned()),
        ("JSON", json(secret)),
        ("JSON in JSON", json(&json(secret))),
        ("JSON in JSON in JSON", json(&json(&json(secret)))),
        ("JSON with escaped slashes", json(secret).replace('/', "\\/")),
        ("JSON for HTML", each(&json(secret), |character| "<>&'".contains(character).then(|| utf16(character)))),
        ("JSON in ASCII", each(&json(secret), |character| (!character.is_ascii()).then(|| utf16(character)))),
        ("JSON, all escaped", each(secret, |character| Some(utf16(character)))),
        ("all in hexadecimal escapes", secret.bytes().fold(String::new(), |text, byte| format!("{text}\\x{byte:02x}"))),
        ("all in octal escapes", secret.bytes().fold(String::new(), |text, byte| format!("{text}\\{byte:03o}"))),
        ("percent, upper case", percent(secret, "-_.~", upper)),
        ("percent, lower case", percent(secret, "-_.~", lower)),
        ("percent, both cases", percent(secret, "-_.~", mixed)),
        ("percent, all", percent(secret, "", upper).replace('a', "%61")),
        ("Python's quote", percent(secret, "-_.~/", upper)),
        ("encodeURI", percent(secret, "-_.~!*'();/?:@&=+$,#", upper)),
        ("encodeURIComponent", percent(secret, "-_.~!*'()", upper)),
        ("a form", percent(secret, "-_.* ", upper).replace(' ', "+")),
        ("percent, twice", percent(&percent(secret, "-_.~", upper), "-_.~", upper)),
        ("percent in JSON in percent", percent(&json(&percent(secret, "-_.~/", lower)), "-_.~", upper)),
        ("HTML", each(secret, entity)),
        (
            "HTML, with quotes and slashes",
            each(secret, |character| match character {
                '\'' => Some("&#39;".to_owned()),
                '/' => Some("&#x2F;".to_owned()),
                _ => entity(character),
            }),
        ),
        ("HTML, decimal", each(secret, |character| Some(format!("&#{};", u32::from(character))))),
        ("HTML, hexadecimal", each(secret, |character| Some(format!("&#x{:X};", u32::from(character))))),
        ("HTML in JSON", json(&each(secret, entity)).replace('&', "\\u0026")),
        ("HTML, twice", each(&each(secret, entity), entity)),
        (
            "for a shell",
            each(secret, |character| (character.is_ascii_punctuation() || character == ' ').then(|| format!("\\{character}"))),
        ),
        ("a colour within", after_third("\u{1b}[01;31m\u{1b}[K")),
        ("a link within", after_third("\u{1b}]8;;http://x\u{7}")),
        ("a colour within, in JSON", after_third("\\u001b[0m")),
        ("zero-width spaces", between("\u{200b}")),
        ("soft hyphens", between("\u{ad}")),
        ("joiners and a byte-order mark", between("\u{2060}\u{feff}")),
    ]
}

fn wrapped(text: &str, columns: usize, line_end: &str) -> String {
    text.as_bytes().chunks(columns).map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join(line_end)
}

/// Base64 encodings of texts that contain the secret.
fn in_base64(secret: &str, shift: usize) -> Vec<(&'static str, String)> {
    let text = format!("{}{secret}{}", "x".repeat(shift), "y".repeat(70));
    let (standard, url) = (STANDARD.encode(&text), URL_SAFE.encode(&text));
    vec![
        ("base64", standard.clone()),
        ("base64 for addresses", url.clone()),
        ("base64 in an address", percent(&standard, "", upper)),
        ("base64 at 76", wrapped(&standard, 76, "\n")),
        ("base64 at 64", wrapped(&standard, 64, "\n")),
        ("base64 at 76, CRLF", wrapped(&standard, 76, "\r\n")),
        ("base64 at 64, CRLF", wrapped(&url, 64, "\r\n")),
        ("base64 at 76, indented", wrapped(&standard, 76, "\n    ")),
        ("base64 at 76 in JSON", wrapped(&standard, 76, "\\n")),
        ("base64 at 64 in JSON, CRLF", wrapped(&standard, 64, "\\r\\n")),
        ("base64 at 76 in JSON in JSON", wrapped(&standard, 76, "\\\\n")),
        ("base64, twice", STANDARD.encode(&standard)),
        ("base64, twice, at 76", wrapped(&STANDARD.encode(&standard), 76, "\n")),
    ]
}

fn redactor(secret: &str) -> Arc<Redactor> {
    Arc::new(Redactor::new([("S".to_owned(), secret.to_owned())]).expect("a redactor"))
}

/// Concatenated text of a redacted stream of deltas.
fn streamed<'t>(redactor: &Arc<Redactor>, pieces: impl IntoIterator<Item = &'t str>) -> String {
    let mut stream = EventRedactor::new(Arc::clone(redactor));
    let mut redacted = Vec::new();
    let kinds = pieces.into_iter().filter(|piece| !piece.is_empty()).map(|piece| text(piece, "m")).chain([end()]);
    for (kind, seq) in kinds.zip(1..) {
        let event = Event { run_id: RunId::from("r"), seq, at: None, line: None, parent_tool_call_id: None, kind };
        stream.event(&event, &mut |event| redacted.push(event.clone().into_owned()));
    }
    joined_text(&redacted)
}

/// Split positions: each single one of a short text, some pairs, and all at once.
fn cuts(text: &str, numbers: &mut Numbers) -> Vec<Vec<usize>> {
    let offsets: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
    let mut cuts: Vec<Vec<usize>> = if offsets.len() <= 120 {
        offsets.iter().map(|at| vec![*at]).collect()
    } else {
        (0..40).map(|_| vec![offsets[numbers.below(offsets.len())]]).collect()
    };
    for _ in 0..20 {
        let mut two = vec![offsets[numbers.below(offsets.len())], offsets[numbers.below(offsets.len())]];
        two.sort_unstable();
        cuts.push(two);
    }
    cuts.push(offsets);
    cuts
}

fn pieces<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t str> {
    let ends = cuts.iter().copied().chain([text.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(from, to)| &text[from..to]).collect()
}

#[test]
fn redacts_each_encoding_split_anywhere() {
    let mut numbers = Numbers(7);
    for secret in secrets() {
        let redactor = redactor(&secret);
        for (way, written) in exact(&secret) {
            let full = format!("{BEFORE}{written}{AFTER}");
            let want = format!("{BEFORE}{MARK}{AFTER}");
            // A backslash before the first character may remain.
            let normalized = |text: &str| text.replace(&format!("\\{MARK}"), MARK);
            assert_eq!(normalized(&redactor.text(&full)), want, "{way}: {secret}");
            for cuts in cuts(&full, &mut numbers) {
                let pieces = pieces(&full, &cuts);
                assert_eq!(normalized(&streamed(&redactor, pieces.iter().copied())), want, "{way}: {secret}: {pieces:?}");
            }
        }
    }
}

#[test]
fn redacts_base64_with_any_line_wrapping() {
    let mut numbers = Numbers(11);
    for (number, secret) in secrets().into_iter().enumerate() {
        let redactor = redactor(&secret);
        for shift in (number % 3..80).step_by(5) {
            for (way, written) in in_base64(&secret, shift) {
                let full = format!("{BEFORE}{written}{AFTER}");
                let redacted = redactor.text(&full).into_owned();
                let (before, after) = redacted.split_once(MARK).unwrap_or_else(|| panic!("{way}, {shift}: {secret}: {redacted}"));
                // The first and last letters also encode neighbouring bytes.
                let left = before.len() + after.len();
                let plain = full.len() - written.len() * secret.len() / (shift + secret.len() + 70);
                assert!(left <= plain + 16, "{way}, {shift}: {secret}: {redacted}");
                let at = pieces(&full, &[1 + numbers.below(full.len() - 1)]);
                assert_eq!(streamed(&redactor, at.iter().copied()), redacted, "{way}, {shift}: {secret}: {at:?}");
            }
        }
    }
}

#[test]
fn keeps_similar_escaped_text() {
    let redactor = redactor("hunter2-hunter2");
    for text in [
        "hunter2\\n-hunter2",
        "hunter2%2-hunter2",
        "hunter2&-hunter2",
        "hunter2 -hunter2",
        "a line\nof prose\nand another",
        "C:\\new\\table\\u",
        "\u{1b}[31mred\u{1b}[0m and 100%",
        "\u{1b}]0;a title that does not end",
    ] {
        assert_eq!(redactor.text(text), text);
        assert_eq!(streamed(&redactor, text.split_inclusive(' ')), text);
        assert_eq!(streamed(&redactor, text.split_inclusive('\\')), text);
    }
}

#[test]
fn redacts_across_chunk_boundaries_of_long_text() {
    let redactor = redactor("a/secret/of/mine");
    // Longer than several chunks.
    let text = format!("{}a%2Fsecret%2Fof%2Fmine{}", "%41-".repeat(50_000), "\\".repeat(300_000));
    for before in 0..24 {
        let text = format!("{}{text}\u{200b}a%2Fsecret%2Fof%2Fmine", "x".repeat(before * 11_003));
        let redacted = redactor.text(&text);
        assert_eq!((redacted.matches(MARK).count(), redacted.contains("secret%2Fof")), (2, false), "{before}");
    }
}
