//! Finding where a JSON string ends, in long strings most of all.
//!
//! Two passes that processors run many bytes at a time replace one that stops at every escape: the first looks for the
//! closing quote, the second makes sure that the string is written as nearly all are. Only a string with something
//! rare in it is looked at escape by escape.

/// What lies between the quotes of a JSON string.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Inside<'a> {
    pub(super) json: &'a str,
    /// Whether anything in it is escaped.
    pub(super) escaped: bool,
}

/// The inside of the string whose opening quote stands right before the text; `None` when it has no end or is not as
/// JSON wants it.
pub(super) fn inside(text: &str) -> Option<Inside<'_>> {
    let bytes = text.as_bytes();
    let mut end = 0;
    loop {
        end += memchr::memchr(b'"', bytes.get(end..)?)?;
        let backslashes = bytes[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            break;
        }
        end += 1;
    }
    let json = text.get(..end)?;
    let Looks { rare, escaped } = look(json.as_bytes(), &bytes[1..=end]);
    (!rare || is_valid(json.as_bytes())).then_some(Inside { json, escaped })
}

struct Looks {
    /// Control characters, or escapes beyond the usual ones.
    rare: bool,
    escaped: bool,
}

/// Looks at every byte together with the next one. That takes a backslash that is itself escaped for the start of an
/// escape, so `rare` may be wrong when it is true, and never when it is false. There is no branch in the loop, so the compiler
/// can do many bytes at a time.
fn look(bytes: &[u8], nexts: &[u8]) -> Looks {
    let (mut rare, mut escaped) = (false, false);
    for (&byte, &next) in bytes.iter().zip(nexts) {
        let backslash = byte == b'\\';
        let usual = (next == b'n') | (next == b'"') | (next == b'\\') | (next == b't') | (next == b'r');
        escaped |= backslash;
        rare |= (byte < 0x20) | (backslash & !usual);
    }
    Looks { rare, escaped }
}

/// Whether this may stand between quotes: no control characters, and only escapes that JSON has.
fn is_valid(inside: &[u8]) -> bool {
    let mut rest = inside;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let length = match &rest[at + 1..] {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return false,
        };
        rest = &rest[at + length..];
    }
    inside.iter().all(|byte| *byte >= 0x20)
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn a_string_ends_at_the_quote_that_is_not_escaped() {
        let of = |text| inside(text).map(|found| (found.json, found.escaped));
        assert_eq!(of(r#"" and more"#), Some(("", false)));
        assert_eq!(of(r#"plain" "more""#), Some(("plain", false)));
        assert_eq!(of(r#"a\"b\\" "more""#), Some((r#"a\"b\\"#, true)));
        assert_eq!(of(r#"Größe \\s \u00e9 \/" "#), Some((r"Größe \\s \u00e9 \/", true)));
        assert_eq!(of(r#"no end \""#), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn what_serde_json_refuses_is_refused() {
        let long = "a long run of plain text that fills a vector or two ".repeat(3);
        for piece in ["", "\\n", "\\\\", "\\/", "\\x", "\\\\x", "\\u12", "\\u12g4", "\\ud83d", "\u{1}", "\u{7f}", "\t", "é\\"] {
            for text in [format!("{piece}\""), format!("{long}{piece}\""), format!("{long}{piece}{long}\"")] {
                let json = format!("\"{text}");
                let valid = serde_json::from_str::<serde::de::IgnoredAny>(&json).is_ok();
                assert_eq!(inside(&text).is_some(), valid, "{json}");
            }
        }
    }
}
