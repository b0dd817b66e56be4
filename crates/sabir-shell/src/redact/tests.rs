//! Tests of redaction in texts, JSON and event streams.

use std::sync::Arc;

use base64::Engine as _;
use sabir_core::event::{Activity, Event, EventKind, RunId, TextDelta, ToolKind, ToolStart, ToolUpdate, TurnEnd};

use super::{EventRedactor, Redactor};

mod encodings;

fn redactor() -> Redactor {
    let secrets = [("DB_PASSWORD", "p\"a/s\\s word+1"), ("PIN_SECRET", "8675309123"), ("MY_TOKEN", "hunter2-hunter2")];
    Redactor::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned()))).expect("a redactor")
}

#[test]
fn text_redacts_known_secret_in_each_encoding() {
    let redactor = redactor();
    for (text, want) in [
        ("use hunter2-hunter2!", "use [secret MY_TOKEN]!"),
        ("p\"a/s\\s word+1", "[secret DB_PASSWORD]"),
        (r#"{"x":"p\"a/s\\s word+1"}"#, r#"{"x":"[secret DB_PASSWORD]"}"#),
        (r#"{"x":"{\"y\":\"p\\\"a/s\\\\s word+1\"}"}"#, r#"{"x":"{\"y\":\"[secret DB_PASSWORD]\"}"}"#),
        ("?p=p%22a%2Fs%5Cs%20word%2B1&", "?p=[secret DB_PASSWORD]&"),
        ("?p=p%22a%2fs%5cs%20word%2b1&", "?p=[secret DB_PASSWORD]&"),
        ("hunter2-hunter2hunter2-hunter2", "[secret MY_TOKEN][secret MY_TOKEN]"),
        ("hunter2-hunter", "hunter2-hunter"),
        ("nothing here", "nothing here"),
    ] {
        assert_eq!(redactor.text(text), want);
    }
    for before in ["", "u", "user:", "x:y"] {
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{before}hunter2-hunter2 and so on"));
        assert!(redactor.text(&text).contains("[secret MY_TOKEN]"), "{text}");
    }
}

#[test]
fn json_output_stays_valid_json() {
    let redactor = redactor();
    for (text, want) in [
        (r#"{"pin":8675309123,"n":1}"#, r#"{"n":1,"pin":"[secret PIN_SECRET]"}"#),
        (r#"{"a":"p\"a\/s\\s word+1"}"#, r#"{"a":"[secret DB_PASSWORD]"}"#),
        (r#"{"a":"\u0068unter2-hunter2"}"#, r#"{"a":"[secret MY_TOKEN]"}"#),
        (r#"{"hunter2-hunter2":1}"#, r#"{"[secret MY_TOKEN]":1}"#),
        (
            r#"{"c":"curl -H 'Authorization: Bearer abcdefgh12345678'"}"#,
            r#"{"c":"curl -H 'Authorization: Bearer [secret authorization]'"}"#,
        ),
        (r#"{"a": "x\ny"}"#, r#"{"a": "x\ny"}"#),
    ] {
        assert_eq!(redactor.json(text), want);
        serde_json::from_str::<serde_json::Value>(&redactor.json(text)).expect("JSON");
    }
}

fn text(delta: &str, message: &str) -> EventKind<'static> {
    TextDelta::new(delta.to_owned()).message_id(message.to_owned()).into()
}

/// Events after redaction.
fn run(kinds: Vec<EventKind<'static>>) -> Vec<Event<'static>> {
    let mut stream = EventRedactor::new(Arc::new(redactor()));
    let mut redacted = Vec::new();
    for (kind, seq) in kinds.into_iter().zip(1..) {
        let event = Event { run_id: RunId::from("r"), seq, at: None, line: None, parent_tool_call_id: None, kind };
        stream.event(&event, &mut |event| redacted.push(event.clone().into_owned()));
    }
    assert!(redacted.iter().zip(1..).all(|(event, seq)| event.seq == seq), "numbers are dense");
    redacted
}

fn joined_text(events: &[Event<'_>]) -> String {
    let piece = |event: &Event<'_>| match &event.kind {
        EventKind::Text(TextDelta { delta, .. }) => {
            assert!(!delta.is_empty(), "no piece is empty");
            delta.to_string()
        }
        EventKind::ToolUpdate(ToolUpdate { output_delta: Some(delta), .. }) => delta.to_string(),
        _ => String::new(),
    };
    events.iter().map(piece).collect()
}

fn end() -> EventKind<'static> {
    TurnEnd::new(1).into()
}

#[test]
fn event_redactor_finds_secret_split_across_deltas() {
    let github = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let block = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc123==\n-----END RSA PRIVATE KEY-----";
    for (secret, mark) in [
        ("hunter2-hunter2", "[secret MY_TOKEN]"),
        (github.as_str(), "[secret github-token]"),
        (block, "[secret private-key]"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [secret authorization]"),
        ("postgres://me:s3cr3t@host/db", "postgres://me:[secret url-password]@host/db"),
    ] {
        let full = format!("say {secret}, then more");
        let want = format!("say {mark}, then more");
        assert_eq!(redactor().text(&full), want);
        for first in 1..full.len() - 1 {
            for second in [first + 1, usize::midpoint(first, full.len()), full.len() - 1] {
                let (second, pieces) = (second.max(first), &full);
                let pieces = [&pieces[..first], &pieces[first..second], &pieces[second..]];
                let events = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| text(piece, "m"));
                assert_eq!(joined_text(&run(events.chain([end()]).collect())), want, "{pieces:?}");
            }
        }
        let letters = full.chars().map(|letter| text(&letter.to_string(), "m")).chain([end()]).collect();
        assert_eq!(joined_text(&run(letters)), want);
    }
}

#[test]
fn event_redactor_releases_prefix_when_message_ends() {
    let events = run(vec![text("it is hunter2-", "m"), text("next", "n"), end()]);
    assert_eq!(joined_text(&events), "it is hunter2-next");
    let ids: Vec<_> = events.iter().map(|event| event.kind.tag()).collect();
    assert_eq!(ids, ["text", "text", "text", "turnEnd"]);
    // Events that do not end the message do not split its text.
    let activity = || EventKind::Activity(Activity::new("working"));
    let events = run(vec![text("hunter2-", "m"), activity(), text("hunter2", "m"), end()]);
    assert_eq!(joined_text(&events), "[secret MY_TOKEN]");
}

#[test]
fn event_redactor_redacts_all_fields_but_keeps_ids() {
    let call = format!("ghp_{}", "x".repeat(36));
    let start = EventKind::ToolStart(
        ToolStart::of_kind(ToolKind::Execute, call.clone(), "Bash")
            .input(r#"{"command":"echo hunter2-hunter2"}"#)
            .title("echo hunter2-hunter2"),
    );
    let update = |piece: &str| EventKind::ToolUpdate(ToolUpdate::new(call.clone()).output_delta(piece.to_owned()));
    let events = run(vec![start, update("hunter2-h"), update("unter2\n"), end()]);
    let mut json = Vec::new();
    events.iter().for_each(|event| event.write_json(&mut json));
    let json = String::from_utf8(json).expect("UTF-8");
    assert!(!json.contains("hunter2-hunter2") && json.matches("[secret MY_TOKEN]").count() == 3, "{json}");
    assert_eq!(json.matches(&call).count(), 2, "{json}");
}

#[test]
fn event_redactor_bounds_pending_text() {
    let long = "a".repeat(200_000);
    let events = run(vec![text("-----BEGIN PRIVATE KEY-----\n", "m"), text(&long, "m"), text(&long, "m"), end()]);
    let output = joined_text(&events);
    assert!(output.starts_with("[secret private-key]"), "{}", &output[..40]);
}
