//! The words that say what a line is. They stand at its beginning, so that a line of megabytes need not be read to be
//! passed over.

use serde::Deserialize;

use crate::json::{self, Str};

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) struct Head<'l> {
    pub(super) timestamp: &'l str,
    /// The type of the line.
    pub(super) kind: &'l str,
    /// The type of what it is about; empty where that has none.
    pub(super) inner: &'l str,
}

/// No type and no time is longer.
const WORD: usize = 64;

impl<'l> Head<'l> {
    /// Reads the head by position. `None` when the line is not written in the usual order.
    pub(super) fn of(line: &'l [u8]) -> Option<Self> {
        let (timestamp, rest) = word(line.strip_prefix(br#"{"timestamp":""#)?)?;
        let rest = match rest.strip_prefix(br#","ordinal":"#) {
            Some(rest) => rest.get(rest.iter().position(|byte| !byte.is_ascii_digit())?..)?,
            None => rest,
        };
        let (kind, rest) = word(rest.strip_prefix(br#","type":""#)?)?;
        let inner = inner(rest.strip_prefix(br#","payload":"#).filter(|payload| payload.starts_with(b"{"))?).unwrap_or_default();
        let typed = matches!(kind, "event_msg" | "response_item");
        (!typed || !inner.is_empty()).then_some(Self { timestamp, kind, inner })
    }
}

/// The type of what a line is about, if it stands first.
pub(super) fn inner(payload: &[u8]) -> Option<&str> {
    payload.strip_prefix(br#"{"type":""#).and_then(word).map(|(inner, _)| inner)
}

/// The text up to the next quote.
fn word(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr(b'"', bytes.get(..WORD).unwrap_or(bytes))?;
    let text = std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.contains('\\'))?;
    Some((text, &bytes[end + 1..]))
}

/// The same of a line in any order.
#[derive(Deserialize)]
pub(super) struct AnyOrder<'a> {
    #[serde(borrow, default)]
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) payload: Option<Typed<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Typed<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<Str<'a>>,
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn heads_are_read_by_position() {
        let time = "2026-11-15T17:56:02.489Z";
        let line = format!(r#"{{"timestamp":"{time}","ordinal":17,"type":"event_msg","payload":{{"type":"token_count","info":"#);
        let head = Head { timestamp: time, kind: "event_msg", inner: "token_count" };
        assert_eq!(Head::of(line.as_bytes()), Some(head));
        let line = format!(r#"{{"timestamp":"{time}","type":"session_meta","payload":{{"id":"x"}}}}"#);
        assert_eq!(Head::of(line.as_bytes()), Some(Head { timestamp: time, kind: "session_meta", inner: "" }));
    }

    #[test]
    fn other_orders_are_left_to_the_reader_of_json() {
        for line in [
            r#"{"type":"event_msg","timestamp":"x","payload":{"type":"token_count"}}"#,
            r#"{"timestamp":"x","type":"event_msg","payload":{"info":null,"type":"token_count"}}"#,
            r#"{"timestamp":"x","type":"event_msg""#,
            r#"{"timestamp":"x"#,
            "",
        ] {
            assert_eq!(Head::of(line.as_bytes()), None, "{line}");
        }
    }
}
