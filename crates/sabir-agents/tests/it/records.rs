//! Every writer of records: whatever an agent prints, one record is one line of valid JSON.

use proptest::prelude::*;
use sabir_core::decode::Start;
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Outcome, TextDelta, ToolStatus, ToolUpdate};
use sabir_core::export::Options;
use sabir_core::fold::SessionResult;
use serde_json::Value;

use crate::common::fixture;
use crate::common::writers::{check_all, lines, show};
use crate::run::Run;

/// A run whose calls have these arguments: told at the start, told late, of a command, of a sub-agent.
fn run_with(arguments: &str) -> Vec<Event<'static>> {
    let leaked: &'static str = Box::leak(arguments.to_owned().into_boxed_str());
    let late = EventKind::ToolUpdate(ToolUpdate::new("t3").input(leaked));
    Run::of("goose")
        .session()
        .turn(1)
        .tool("t1", "tree", Some(leaked))
        .tool_end("t1", ToolStatus::Ok, leaked, None)
        .tool("t2", "Bash", Some(leaked))
        .tool_end("t2", ToolStatus::Error, leaked, Some(1))
        .tool("t3", "Edit", None)
        .push(late)
        .tool_end("t3", ToolStatus::Ok, leaked, None)
        .tool("t4", "Task", Some(leaked))
        .inside("t4", TextDelta::new(leaked).message_id(leaked))
        .tool_end("t4", ToolStatus::Ok, leaked, None)
        .turn_end(1, leaked)
        .answer(leaked)
        .exited(Outcome::Completed)
        .events
}

#[test]
fn keep_arguments_of_several_lines_in_one() {
    let events = run_with("{\n  \"path\": \".\",\r\n  \"depth\": 2\n}");
    check_all(&events, "pretty-printed");
    let want = serde_json::json!({ "path": ".", "depth": 2 });
    let envelope = lines(&show(&events, "envelope", &Options::default()), "envelope");
    assert!(envelope.iter().any(|message| message["type"] == "tool_event" && message["payload"]["args"] == want));
    let perstack = lines(&show(&events, "perstack", &Options::default()), "perstack");
    assert!(perstack.iter().any(|record| record["toolCalls"][0]["args"] == want));
    let mut result = SessionResult::fold();
    events.iter().for_each(|event| result.event(event));
    let args = result.finish().tool_calls[0].args.as_ref().map(|args| args.get().to_owned());
    assert_eq!(args.as_deref(), Some(r#"{"path":".","depth":2}"#));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["\n", "\r\n", "\u{85}\u{2028}\u{2029}", "\"\\", "\0\u{1b}"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Arguments as models write them, and as nobody should: pretty-printed, with repeated keys, broken at any place.
fn any_arguments() -> impl Strategy<Value = String> {
    const PIECES: &[&str] =
        &["\n", "\r", "\r\n", "\0", "\u{1}", "\"", "\\", "\\ud800", "{", "}", "[", "]", ",", ":", "\u{2028}", "é", "\t \n"];
    let piece = prop::option::of((any::<prop::sample::Index>(), prop::sample::select(PIECES)));
    (any_json(), 0..4_u8, piece).prop_map(|(value, form, piece)| {
        let pretty = serde_json::to_string_pretty(&value).expect("JSON");
        let mut text = match form {
            0 => value.to_string(),
            1 => pretty,
            2 => pretty.replace('\n', "\r\n"),
            _ => format!("{{\n\"a\": {pretty},\r\"a\": {value}\n}}\n"),
        };
        if let Some((at, piece)) = piece {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            text.insert_str(*at.get(&places), piece);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn are_lines_for_any_arguments(arguments in any_arguments()) {
        check_all(&run_with(&arguments), "generated");
    }

    /// The same through a decoder, so that texts are in the form in which a line brought them.
    #[test]
    fn are_lines_for_any_arguments_of_a_stream(arguments in any_arguments(), inline in any::<bool>()) {
        let input = match serde_json::from_str::<Value>(&arguments) {
            // The arguments as a value: the line is then one that has no line feed.
            Ok(_) if inline => arguments.replace('\n', " "),
            _ => Value::from(arguments.as_str()).to_string(),
        };
        let text = Value::from(arguments.as_str());
        let stream = format!(
            "{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}}\n\
             {{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Read\",\"input\":{input}}}]}}}}\n\
             {{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":{text}}}]}}}}\n\
             {{\"type\":\"result\",\"result\":{text}}}\n"
        );
        let start = Start::of(crate::agent("claude-code"));
        check_all(&fixture::decode(start, stream.as_bytes(), &End::default()), "decoded");
    }
}
