//! Fast path for text deltas, which are most lines of a stream with partial messages.
//!
//! A delta of a few bytes comes in a quarter of a kilobyte of the same keys in the same order, which are compared as they are
//! written. A line that differs in any key or in their order takes the normal path.

use sabir_core::event::Text;
use sabir_core::json;

/// Parses a text delta of the main agent into its text and message id.
pub(super) fn parse(line: &str) -> Option<(Text<'_>, &str)> {
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
    (rest == "}").then_some((text, message_id))
}

/// Splits off a leading JSON string that has no escapes.
fn plain_string(json: &str) -> Option<(&str, &str)> {
    let inside = json.strip_prefix('"')?;
    let end = memchr::memchr2(b'"', b'\\', inside.as_bytes())?;
    let (text, rest) = inside.split_at_checked(end)?;
    let plain = !text.bytes().any(|byte| byte < 0x20);
    rest.strip_prefix('"').filter(|_| plain).map(|rest| (text, rest))
}

#[cfg(test)]
mod tests {
    use super::parse;

    const LINE: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Größe "}},"session_id":"s","parent_tool_use_id":null,"uuid":"u","api_message_id":"msg_1"}"#;

    #[test]
    fn parses_only_the_exact_layout() {
        let (text, message_id) = parse(LINE).expect("the line");
        assert_eq!((&*text, message_id), ("Größe ", "msg_1"));
        let escaped = LINE.replace("Größe", r#"\"Gr\u00f6\u00dfe\"\n"#);
        assert_eq!(parse(&escaped).expect("the line").0, "\"Größe\"\n ");
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
            assert_eq!(parse(&LINE.replace(from, to)), None, "{from} → {to}");
        }
    }
}
