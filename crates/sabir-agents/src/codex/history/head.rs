//! The words that say what a line is. They stand at its beginning, so that a line of megabytes need not be read to be
//! passed over.

use std::borrow::Cow;

use serde::Deserialize;

use sabir_core::json::{self, Str};

/// What a line is, as bytes: of nearly every line no more is looked at.
#[derive(Debug, PartialEq)]
pub(super) struct Marks<'l> {
    pub(super) timestamp: &'l [u8],
    /// The type of the line.
    pub(super) kind: &'l [u8],
    /// The type of what it is about; empty where that has none.
    pub(super) inner: &'l [u8],
}

/// No type and no time is longer.
const WORD: usize = 64;

impl<'l> Marks<'l> {
    /// Reads the head by position, and gives the rest of the line, which begins with what the line is about. `None` when the
    /// line is not written in the usual order.
    pub(super) fn of(line: &'l [u8]) -> Option<(Self, &'l [u8])> {
        let (timestamp, rest) = word(line.strip_prefix(br#"{"timestamp":""#)?)?;
        let rest = match rest.strip_prefix(br#","ordinal":"#) {
            Some(rest) => rest.get(rest.iter().position(|byte| !byte.is_ascii_digit())?..)?,
            None => rest,
        };
        let (kind, rest) = word(rest.strip_prefix(br#","type":""#)?)?;
        let payload = rest.strip_prefix(br#","payload":"#).filter(|payload| payload.starts_with(b"{"))?;
        let inner = inner(payload).unwrap_or_default();
        let typed = matches!(kind, b"event_msg" | b"response_item");
        (!typed || !inner.is_empty()).then_some((Self { timestamp, kind, inner }, payload))
    }
}

/// The same as text.
#[derive(Debug, PartialEq)]
pub(super) struct Head<'l> {
    pub(super) timestamp: &'l str,
    pub(super) kind: &'l str,
    pub(super) inner: &'l str,
}

impl<'l> Head<'l> {
    /// The head of a line, and the text of what it is about, if nothing comes behind it. Whether that is a whole value is
    /// left to who reads it.
    pub(super) fn with_payload(line: &'l str) -> Option<(Self, &'l str)> {
        let (Marks { timestamp, kind, inner }, rest) = Marks::of(line.as_bytes())?;
        let text = |bytes: &'l [u8]| std::str::from_utf8(bytes).ok();
        let head = Self { timestamp: text(timestamp)?, kind: text(kind)?, inner: text(inner)? };
        Some((head, line.get(line.len() - rest.len()..)?.strip_suffix('}')?))
    }
}

/// The type of what a line is about, if it stands first.
fn inner(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_prefix(br#"{"type":""#).and_then(word).map(|(inner, _)| inner)
}

/// What is written up to the next quote, if nothing in it is escaped.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let longer = || memchr::memchr2(b'"', b'\\', bytes.get(..WORD).unwrap_or(bytes));
    let (word, rest) = bytes.split_at(json::leading_word(bytes).or_else(longer)?);
    Some((word, rest.strip_prefix(b"\"")?))
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

/// Whether an event is about what other lines say too, or about the state of the user interface.
pub(super) fn says_nothing_new(event: &str) -> bool {
    const KNOWN: &[&str] = &[
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "thread_settings_applied",
        "thread_name_updated",
        "thread_rolled_back",
        "thread_goal_updated",
        "entered_review_mode",
        "exited_review_mode",
        "undo_completed",
        "turn_diff",
        "plan_update",
        "item_started",
        "exec_command_begin",
        "exec_command_end",
        "patch_apply_begin",
        "patch_apply_end",
        "mcp_tool_call_begin",
        "mcp_tool_call_end",
        "web_search_begin",
        "web_search_end",
        "view_image_tool_call",
        "image_generation_end",
        "dynamic_tool_call_request",
        "dynamic_tool_call_response",
    ];
    KNOWN.contains(&event) || event.starts_with("collab_")
}

/// Whether an item is what the model is given to work with, or what other agents tell it.
pub(super) fn is_given(item: &str) -> bool {
    const KNOWN: &[&str] = &[
        "additional_tools",
        "configuration_update",
        "agent_message",
        "ghost_snapshot",
        "compaction",
        "compaction_summary",
        "context_compaction",
    ];
    KNOWN.contains(&item)
}

/// What an item or an event is.
pub(super) fn type_of(payload: &str) -> Option<Cow<'_, str>> {
    let first = inner(payload.as_bytes()).and_then(|inner| std::str::from_utf8(inner).ok()).map(Cow::Borrowed);
    first.or_else(|| json::parse::<Typed<'_>>(payload).and_then(|typed| typed.r#type).map(Cow::from))
}

#[cfg(test)]
mod tests {
    use super::{Head, Marks};

    #[test]
    fn heads_are_read_by_position() {
        let time = "2026-11-15T17:56:02.489Z";
        let line = format!(r#"{{"timestamp":"{time}","ordinal":17,"type":"event_msg","payload":{{"type":"token_count","info":"#);
        let marks = Marks { timestamp: time.as_bytes(), kind: b"event_msg", inner: b"token_count" };
        assert_eq!(Marks::of(line.as_bytes()).map(|(marks, _)| marks), Some(marks));
        let line = format!(r#"{{"timestamp":"{time}","type":"session_meta","payload":{{"id":"x"}}}}"#);
        let marks = Marks { timestamp: time.as_bytes(), kind: b"session_meta", inner: b"" };
        assert_eq!(Marks::of(line.as_bytes()), Some((marks, br#"{"id":"x"}}"#.as_slice())));
    }

    #[test]
    fn what_a_line_is_about_ends_before_its_last_bracket() {
        let line = r#"{"timestamp":"x","type":"event_msg","payload":{"type":"token_count","info":null}}"#;
        let payload = Head::with_payload(line).map(|(_, payload)| payload);
        assert_eq!(payload, Some(r#"{"type":"token_count","info":null}"#));
        assert_eq!(Head::with_payload(&line.replace("}}", "} ")), None);
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
            assert_eq!(Marks::of(line.as_bytes()), None, "{line}");
        }
    }
}
