//! The one line that makes up most of a stream with partial messages, read without a parser.
//!
//! A piece of text comes in a quarter of a kilobyte of the same keys in the same order. They are compared one by one;
//! a line that differs in anything (another key, another order) is parsed like all others.

use sabir_core::event::Text;
use sabir_core::json;

/// A piece of text of the main agent.
#[derive(Debug, PartialEq)]
pub(super) struct TextDelta<'a> {
    pub(super) text: Text<'a>,
    pub(super) message_id: &'a str,
}

/// The piece that a line is, if it is such a line.
pub(super) fn text_delta(line: &str) -> Option<TextDelta<'_>> {
    let rest = line.strip_prefix(r#"{"type":"stream_event","event":{"type":"content_block_delta","index":"#)?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(r#","delta":{"type":"text_delta","text":"#)?;
    let (text, rest) = json::leading_text(rest)?;
    let rest = rest.strip_prefix(r#"}},"session_id":"#)?;
    let (_, rest) = plain_string(rest)?;
    let rest = rest.strip_prefix(r#","parent_tool_use_id":null,"uuid":"#)?;
    let (_, rest) = plain_string(rest)?;
    let rest = rest.strip_prefix(r#","api_message_id":"#)?;
    let (message_id, rest) = plain_string(rest)?;
    (rest == "}").then_some(TextDelta { text, message_id })
}

/// A JSON string with no escape in it, and what follows it.
fn plain_string(json: &str) -> Option<(&str, &str)> {
    let inside = json.strip_prefix('"')?;
    let end = memchr::memchr2(b'"', b'\\', inside.as_bytes())?;
    let (text, rest) = inside.split_at_checked(end)?;
    let plain = !text.bytes().any(|byte| byte < 0x20);
    rest.strip_prefix('"').filter(|_| plain).map(|rest| (text, rest))
}

#[cfg(test)]
mod tests {
    use super::text_delta;

    const LINE: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Größe "}},"session_id":"s","parent_tool_use_id":null,"uuid":"u","api_message_id":"msg_1"}"#;

    #[test]
    fn only_the_very_line_is_read() {
        let delta = text_delta(LINE).expect("the line");
        assert_eq!((&*delta.text, delta.message_id), ("Größe ", "msg_1"));
        let escaped = LINE.replace("Größe", r#"\"Gr\u00f6\u00dfe\"\n"#);
        assert_eq!(text_delta(&escaped).expect("the line").text, "\"Größe\"\n ");
        for (from, to) in [
            ("Größe", "Gr\\u00f"),
            ("Größe", "Gr\u{1}"),
            ("null", "\"toolu_1\""),
            ("text_delta", "thinking_delta"),
            ("\"uuid\":\"u\",", ""),
            ("\"msg_1\"}", "\"msg_1\",\"more\":1}"),
            ("\"msg_1\"}", "\"msg_1\""),
            ("index\":0", "index\":-1"),
        ] {
            assert_eq!(text_delta(&LINE.replace(from, to)), None, "{from} → {to}");
        }
    }
}
