//! The words that say what a line is. They stand at its beginning, so that a line of megabytes need not be read to be
//! passed over.

use std::borrow::Cow;

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
        Self::split(line, |word, _| std::str::from_utf8(word).ok()).map(|(head, _)| head)
    }

    /// The same, and the text of what the line is about, if nothing comes behind it. Whether that is a whole value is
    /// left to who reads it.
    pub(super) fn with_payload(line: &'l str) -> Option<(Self, &'l str)> {
        // It is text already: a word ends that far before the end of the line, at a quote.
        let text = |word: &[u8], rest: &[u8]| {
            let end = line.len() - rest.len() - 1;
            line.get(end - word.len()..end)
        };
        let (head, rest) = Self::split(line.as_bytes(), text)?;
        Some((head, line.get(line.len() - rest.len()..)?.strip_suffix('}')?))
    }

    /// The head and what follows it. A word is made a text by what is given, of its bytes and of those behind its quote.
    fn split(line: &'l [u8], text: impl Fn(&'l [u8], &'l [u8]) -> Option<&'l str>) -> Option<(Self, &'l [u8])> {
        let word = |bytes| {
            let (word, rest) = word(bytes)?;
            Some((text(word, rest)?, rest))
        };
        let (timestamp, rest) = word(line.strip_prefix(br#"{"timestamp":""#)?)?;
        let rest = match rest.strip_prefix(br#","ordinal":"#) {
            Some(rest) => rest.get(rest.iter().position(|byte| !byte.is_ascii_digit())?..)?,
            None => rest,
        };
        let (kind, rest) = word(rest.strip_prefix(br#","type":""#)?)?;
        let payload = rest.strip_prefix(br#","payload":"#).filter(|payload| payload.starts_with(b"{"))?;
        let inner = payload.strip_prefix(br#"{"type":""#).and_then(word).map(|(inner, _)| inner).unwrap_or_default();
        let typed = matches!(kind, "event_msg" | "response_item");
        (!typed || !inner.is_empty()).then_some((Self { timestamp, kind, inner }, payload))
    }
}

/// What comes up to the next quote, if nothing in it is escaped, and what comes behind that.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', bytes.get(..WORD).unwrap_or(bytes))?;
    Some((&bytes[..end], bytes[end..].strip_prefix(b"\"")?))
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
    let first = payload.strip_prefix(r#"{"type":""#).and_then(|rest| rest.get(..word(rest.as_bytes())?.0.len()));
    let first = first.map(Cow::Borrowed);
    first.or_else(|| json::parse::<Typed<'_>>(payload).and_then(|typed| typed.r#type).map(Cow::from))
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
            assert_eq!(Head::of(line.as_bytes()), None, "{line}");
        }
    }
}
