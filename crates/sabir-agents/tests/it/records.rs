//! Every writer of records: whatever an agent prints, one record is one line of valid JSON.

use proptest::prelude::*;
use sabir_core::decode::Start;
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Outcome, TextDelta, ToolStatus, ToolUpdate};
use sabir_core::export::Options;
use sabir_core::fold::SessionResult;
use sabir_export::jobs::Jobs;
use serde_json::Value;

use crate::fixtures;
use crate::run::{Run, show};

/// Asserts that these bytes are JSON Lines, and returns the values.
#[track_caller]
fn lines(text: &str, what: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{what}: the last line has no end");
    assert!(!text.contains('\r'), "{what}: a carriage return");
    let value = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{what}: {error} in {line:?}"));
    text.split_terminator('\n').map(value).collect()
}

/// Writes the events with every writer of the crate, and checks every record.
#[track_caller]
fn check_all_writers(events: &[Event<'_>], what: &str) {
    for options in [Options::default(), Options { events: true, logs: true, partial_bytes: 64, ..Options::default() }] {
        for entry in sabir_export::FORMATS {
            lines(&show(events, entry.name, &options), &format!("{what}: {}", entry.name));
        }
        let mut jobs = Jobs::new(&options);
        let mut files: Vec<_> = events.iter().flat_map(|event| jobs.event(event)).collect();
        files.extend(jobs.end());
        for file in files {
            lines(&(file.json + "\n"), &format!("{what}: {}", file.name));
        }
    }
    let (mut written, mut result) = (Vec::new(), SessionResult::fold());
    for event in events {
        event.write_json(&mut written);
        written.push(b'\n');
        result.event(event);
    }
    let result = result.finish();
    for call in &result.tool_calls {
        call.write_json(None, &mut written);
        written.push(b'\n');
    }
    lines(&String::from_utf8(written).expect("UTF-8"), what);
    let json = serde_json::to_string(&result).expect("a result");
    lines(&(json.clone() + "\n"), &format!("{what}: result"));
    // A result that was written over several lines is one line again.
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&json).expect("JSON")).expect("JSON");
    let read: SessionResult = serde_json::from_str(&pretty).expect("a result");
    lines(&(serde_json::to_string(&read).expect("a result") + "\n"), &format!("{what}: result that was read"));
}

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
fn arguments_over_several_lines_are_one_line_with_the_same_value() {
    let events = run_with("{\n  \"path\": \".\",\r\n  \"depth\": 2\n}");
    check_all_writers(&events, "pretty-printed");
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

#[test]
fn records_of_every_fixture_are_lines() {
    for fixture in fixtures::all() {
        let start = Start::of(crate::agent(&fixture.agent));
        let events = fixtures::decode(start, &fixture.input, &End::default());
        check_all_writers(&events, &fixture.folder.display().to_string());
    }
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
    fn any_arguments_give_records_that_are_lines(arguments in any_arguments()) {
        check_all_writers(&run_with(&arguments), "generated");
    }

    /// The same through a decoder, so that texts are in the form in which a line brought them.
    #[test]
    fn any_arguments_of_a_stream_give_records_that_are_lines(arguments in any_arguments(), inline in any::<bool>()) {
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
        check_all_writers(&fixtures::decode(start, stream.as_bytes(), &End::default()), "decoded");
    }
}
