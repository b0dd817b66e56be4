//! `sabir drift`: nothing new is exit 0, anything new is exit 1.

use crate::{fixture, run, stderr, stdout};

#[test]
fn a_stream_that_is_known_has_no_news() {
    let file = fixture("codex/thread-answer");
    let output = run(&["drift", file.to_str().expect("UTF-8")], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stderr(&output).contains("nothing is new"));
}

#[test]
fn new_types_and_new_fields_are_told_without_their_words() {
    let mut stream = std::fs::read(fixture("codex/thread-answer")).expect("a fixture");
    stream.extend_from_slice(
        b"{\"type\":\"turn.started\",\"mood\":\"secret words\"}\n{\"type\":\"turn.paused\",\"why\":\"secret words\"}\n",
    );
    let output = run(&["drift", "-", "--json"], &stream);
    assert_eq!(output.status.code(), Some(1));
    let rows: Vec<serde_json::Value> = serde_json::from_str(stdout(&output)).expect("JSON");
    let told: Vec<(&str, &str)> = rows.iter().map(|row| (row["what"].as_str().unwrap(), row["name"].as_str().unwrap())).collect();
    assert!(told.contains(&("type", "turn.paused")) && told.contains(&("field", "<turn.started>.mood")), "{told:?}");
    assert!(rows.iter().all(|row| row["agent"] == "codex" && row["count"] == 1));
    assert!(!stdout(&output).contains("secret"));
    let table = run(&["drift", "-"], &stream);
    assert!(stdout(&table).contains("turn.paused"), "{}", stdout(&table));
}

#[test]
fn fields_are_compared_however_the_json_is_printed() {
    let stream = std::fs::read_to_string(fixture("codex/thread-answer")).expect("a fixture");
    let lines: Vec<&str> = stream.lines().chain([r#"{"type":"turn.started","mood":1}"#]).collect();
    let array = format!("{}[\n{}\n]\n", "npm warn old\n".repeat(40), lines.join(",\n").replace("\":", "\" :\n"));
    let output = run(&["drift", "-"], array.as_bytes());
    assert!(stdout(&output).contains("<turn.started>.mood"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn an_agent_that_is_only_likely_is_told_as_a_guess() {
    let line = br#"{"type":"system","subtype":"init","session_id":"s","tools":[],"slash_commands":[],"other_version":"1"}"#;
    let output = run(&["drift", "-"], line);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("other_version") && stderr(&output).contains("a guess"), "{}", stderr(&output));
}
