//! Finding the stream and its agent among other text, and in other layouts of its JSON.

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Activity, Detection, Event, EventKind};
use sabir_core::fold::{SessionResult, Unrecognized};
use sabir_core::line::{self, Source};
use serde_json::Value;

use crate::common::fixture::decode;
use crate::common::layout::{noise, respaced};

fn result(events: &[Event<'_>]) -> SessionResult {
    let mut fold = SessionResult::fold();
    events.iter().for_each(|event| fold.event(event));
    fold.finish()
}

/// The result without what tells of other lines, and of how the agent was found.
fn meaning(events: &[Event<'_>]) -> Value {
    let result = SessionResult { unrecognized: Unrecognized::default(), detection: None, ..result(events) };
    serde_json::to_value(result).expect("a result is JSON")
}

/// Decodes line by line; how many events there are after each of them.
fn events_by_line(start: Start, input: &str) -> (Vec<Event<'static>>, Vec<usize>) {
    let (mut decoder, mut events, mut counts) = (Decoder::new(start), Vec::new(), Vec::new());
    for raw in line::split(input.as_bytes()) {
        let mut own = Vec::new();
        decoder.line(&raw.to_line(None, Source::Stdout), &mut own);
        events.extend(own.into_iter().map(Event::into_owned));
        counts.push(events.len());
    }
    decoder.end(&End::default(), &mut events);
    (events, counts)
}

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s","tools":["Bash"],"model":"m","claude_code_version":"2.1.327"}"#;
const ANSWER: &str = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":1,"output_tokens":2}},"session_id":"s"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done.","session_id":"s","total_cost_usd":0.5,"usage":{"input_tokens":1,"output_tokens":2}}"#;

#[test]
fn emits_events_of_an_array_with_its_elements() {
    let input = format!("[\n{INIT},\n{ANSWER},\n{RESULT}\n]\n");
    let (events, counts) = events_by_line(Start::detect(sabir_agents::builtin()), &input);
    assert!(counts[0] == 0 && counts[1] > 0 && counts[2] > counts[1], "{counts:?}");
    assert_eq!(result(&events).text.as_deref(), Some("Done."));
}

#[test]
fn skips_noise_inside_an_array() {
    let pretty = respaced(ANSWER, true).replacen('\n', "\n[WARN] slow disk\n", 3);
    let input = format!("[\n{INIT},\nnote: x\n{pretty},\n{RESULT}\n]\n");
    let (events, _) = events_by_line(Start::detect(sabir_agents::builtin()), &input);
    let result = result(&events);
    assert_eq!((result.text.as_deref(), result.unrecognized.lines), (Some("Done."), 4));
}

#[test]
fn finds_json_behind_more_noise_than_it_buffers() {
    let lines = 1024 * 1024 / 40;
    let noise = "[DEBUG] a line of a log that has no end\n".repeat(lines);
    let stream = format!("{INIT}\n{ANSWER}\n{RESULT}\n");
    let plain = decode(Start::of(crate::agent("claude-code")), stream.as_bytes(), &End::default());

    let start = Start::of(crate::agent("claude-code"));
    let (events, counts) = events_by_line(start, &format!("{noise}{stream}"));
    assert!(counts[lines - 1] > 0, "nothing comes out while the noise goes on");
    assert_eq!(meaning(&events), meaning(&plain));

    let (events, _) = events_by_line(Start::detect(sabir_agents::builtin()), &format!("{noise}{stream}"));
    let result = result(&events);
    assert_eq!((result.detection, result.text.as_deref()), (Some(Detection::Guess), Some("Done.")));
    let told = events
        .iter()
        .any(|event| matches!(&event.kind, EventKind::Activity(Activity { message, .. }) if message.contains("claude-code")));
    assert!(told, "the agent that was found late is named");
}

#[test]
fn does_not_buffer_a_structured_run() {
    let start = Start { structured: true, ..Start::of(crate::agent("claude-code")) };
    let (events, counts) = events_by_line(start, &format!("{}{INIT}\n{ANSWER}\n{RESULT}\n", noise(60)));
    assert!(counts[59] > 1, "{counts:?}");
    assert_eq!(result(&events).text.as_deref(), Some("Done."));
}

#[test]
fn keeps_text_that_looks_like_json() {
    let text = "Here it is:\n[\n  {\n    \"a\": 1\n  }\n]\n{\n  int x;\n}\n";
    let events = decode(Start::of(crate::agent("claude-code")), text.as_bytes(), &End::default());
    assert_eq!(result(&events).text.as_deref(), Some(text.trim()));
    let long = format!("{text}{}", "more text\n".repeat(120_000));
    let events = decode(Start::of(crate::agent("claude-code")), long.as_bytes(), &End::default());
    assert_eq!(result(&events).text.as_deref(), Some(long.trim()));
}

#[test]
fn reports_a_value_that_is_too_large_and_reads_on() {
    let large = "x".repeat(65 << 20);
    let input = format!("[\n{INIT},\n{{\"type\":\"user\",\n\"text\":\"{large}\"}},\n{ANSWER},\n{RESULT}\n]\n");
    let result = result(&decode(Start::detect(sabir_agents::builtin()), input.as_bytes(), &End::default()));
    assert_eq!(result.text.as_deref(), Some("Done."));
    assert!(result.errors.iter().any(|error| error.message.contains("too large")), "{:?}", result.errors);
}

#[test]
fn is_certain_only_by_fields_of_the_agent() {
    let imitation = INIT.replace("\"claude_code_version\"", "\"slash_commands\":[],\"other_version\"");
    let sparse =
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},"session_id":"s"}"#;
    let with_uuid = sparse.replace("\"session_id\"", "\"uuid\":\"u\",\"session_id\"");
    let of_log = r#"{"type":"user","timestamp":"2025-12-24T10:00:00.000Z","sessionId":"s","cwd":"/p","message":{"role":"user","content":"Go"},"uuid":"u"}"#;
    let first_pi = concat!(
        r#"{"type":"session","id":"s","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/p","provider":"p","modelId":"m","thinkingLevel":"off"}"#,
        "\n",
        r#"{"type":"message","timestamp":"2025-12-09T00:53:30.000Z","message":{"role":"user","content":[{"type":"text","text":"Go"}],"timestamp":1765241610000}}"#
    );
    let cursor = r#"{"type":"system","subtype":"init","apiKeySource":"login","cwd":"/p","session_id":"s","model":"m","permissionMode":"default"}"#;
    for (stream, agent, is_certain) in [
        (INIT, "claude-code", true),
        (&imitation, "claude-code", false),
        (RESULT, "claude-code", false),
        (sparse, "claude-code", false),
        (&with_uuid, "claude-code", false),
        (of_log, "claude-code", false),
        (&of_log.replace("\"cwd\"", "\"isSidechain\":false,\"userType\":\"external\",\"cwd\""), "claude-code", true),
        (first_pi, "pi", true),
        (cursor, "cursor", true),
        ("Plain text.", "localexec", true),
        (r#"{"some":"json"}"#, "unknown", true),
    ] {
        let found = result(&decode(Start::detect(sabir_agents::builtin()), stream.as_bytes(), &End::default()));
        assert_eq!((&*found.agent, found.detection.is_none()), (agent, is_certain), "{stream}");
        if sabir_agents::builtin().find(agent).is_some() {
            let named = Start::of(crate::agent(agent));
            assert_eq!(result(&decode(named, stream.as_bytes(), &End::default())).detection, None, "{stream}");
        }
    }
    let log = decode(Start::of(crate::agent("pi")), first_pi.as_bytes(), &End::default());
    assert!(log.iter().any(|event| matches!(event.kind, EventKind::Prompt(_))), "the log is not read as a stream");
}
