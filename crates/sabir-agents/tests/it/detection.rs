//! What a recording means does not depend on what stands around it, on how its JSON is printed, or on its line ends.

use sabir_core::agent::Form;
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Activity, Detection, Event, EventKind, Started};
use sabir_core::fold::{SessionResult, Unrecognized};
use sabir_core::line::{self, Source};
use serde_json::Value;

use crate::fixtures::{self, Fixture, decode};

/// Lines of a CI log, none of any agent.
fn noise(count: usize) -> String {
    let line = |number: usize| match number % 8 {
        0 => format!("[DEBUG] Watching for changes in setting files ({number})\n"),
        1 => format!("npm warn exec The following package was not found: x@{number}\n"),
        2 => format!("2026-11-19T21:25:{:02}.000Z ##[group]Run\n", number % 60),
        3 => format!("{{\"level\":\"info\",\"msg\":\"step {number}\"}}\n"),
        4 => "{ this is no JSON\n".to_owned(),
        5 => "[\n".to_owned(),
        6 => format!("[{number}/400] Building\n"),
        _ => "\n".to_owned(),
    };
    (0..count).map(line).collect()
}

/// The dialect that reads a fixture, by what its output consists of.
fn form(fixture: &Fixture) -> Form {
    let mut decoder = Decoder::new(fixture.named());
    let mut events = Vec::new();
    for raw in line::split(&fixture.input) {
        let mut own = Vec::new();
        decoder.line(&raw.to_line(None, Source::Stdout), &mut own);
    }
    decoder.end(&fixture.end(), &mut events);
    decoder.form().expect("a dialect was chosen")
}

/// All fixtures that a dialect of JSON reads.
fn json_fixtures() -> impl Iterator<Item = Fixture> {
    fixtures::all().into_iter().filter(|fixture| !fixture.input.is_empty() && form(fixture) == Form::Json)
}

/// How to decode a fixture: with its agent named, and without where the stream tells it.
fn starts(fixture: &Fixture) -> Vec<Start> {
    let found = Start { resumed: fixture.case.resumed, ..Start::detect(sabir_agents::builtin()) };
    [fixture.named()].into_iter().chain(fixture.case.detect.then_some(found)).collect()
}

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

/// The events without the lines that they come from, and without how the agent was found.
fn unplaced(events: Vec<Event<'static>>) -> Vec<Event<'static>> {
    let unplaced = |mut event: Event<'static>| {
        if let EventKind::Started(Started { detection, .. }) = &mut event.kind {
            *detection = None;
        }
        Event { line: None, ..event }
    };
    events.into_iter().map(unplaced).collect()
}

#[test]
fn noise_before_a_stream_changes_nothing() {
    for fixture in json_fixtures() {
        for start in starts(&fixture) {
            let plain = decode(start.clone(), &fixture.input, &fixture.end());
            let input = [noise(400).as_bytes(), &fixture.input].concat();
            let noisy = decode(start, &input, &fixture.end());
            assert_eq!(meaning(&noisy), meaning(&plain), "{}", fixture.folder.display());
        }
    }
}

#[test]
fn noise_after_a_stream_changes_nothing() {
    for fixture in json_fixtures().filter(|fixture| fixture.input.ends_with(b"\n")) {
        for start in starts(&fixture) {
            let plain = decode(start.clone(), &fixture.input, &fixture.end());
            let input = [&fixture.input, noise(50).as_bytes()].concat();
            let noisy = decode(start, &input, &fixture.end());
            assert_eq!(meaning(&noisy), meaning(&plain), "{}", fixture.folder.display());
        }
    }
}

#[test]
fn line_ends_of_windows_change_nothing() {
    for fixture in fixtures::all() {
        let with_cr = |line: &[u8]| match line.strip_suffix(b"\n") {
            Some(text) if !text.ends_with(b"\r") => [text, b"\r\n"].concat(),
            _ => line.to_vec(),
        };
        let input: Vec<u8> = fixture.input.split_inclusive(|byte| *byte == b'\n').flat_map(with_cr).collect();
        for start in starts(&fixture) {
            let plain = decode(start.clone(), &fixture.input, &fixture.end());
            assert_eq!(decode(start.clone(), &input, &fixture.end()), plain, "{}", fixture.folder.display());
            if fixture.input.starts_with(b"{") {
                let marked = [b"\xef\xbb\xbf", &fixture.input[..]].concat();
                assert_eq!(decode(start, &marked, &fixture.end()), plain, "{} with a mark", fixture.folder.display());
            }
        }
    }
}

/// The same JSON with other white space between its tokens: none, or each member on a line of its own.
fn respaced(json: &str, pretty: bool) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0, false, false);
    let line = |out: &mut String, depth: usize| {
        if pretty {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
    };
    for character in json.chars() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                depth += 1;
                out.push(character);
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                line(&mut out, depth);
            }
            ':' => out.push_str(if pretty { ": " } else { ":" }),
            _ if character.is_ascii_whitespace() => {}
            _ => {
                in_string = character == '"';
                out.push(character);
            }
        }
    }
    out
}

/// The objects of a stream; `None` when anything else is in it.
fn objects(input: &str) -> Option<Vec<&str>> {
    let is_object =
        |text: &str| text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_object(input) {
        return Some(vec![input]);
    }
    let lines: Vec<&str> = input.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().all(|line| is_object(line)).then_some(lines)
}

#[test]
fn json_over_several_lines_or_in_one_array_is_read_as_if_it_were_lines() {
    let mut count = 0;
    for fixture in json_fixtures() {
        let Some(objects) = std::str::from_utf8(&fixture.input).ok().and_then(objects) else { continue };
        count += 1;
        let compact: Vec<String> = objects.iter().map(|object| respaced(object, false)).collect();
        let pretty: Vec<String> = objects.iter().map(|object| respaced(object, true)).collect();
        for start in starts(&fixture) {
            let decoded = |input: &str| unplaced(decode(start.clone(), input.as_bytes(), &fixture.end()));
            let plain = decoded(&compact.join("\n"));
            for (how, input) in [
                ("objects", pretty.join("\n")),
                ("objects behind noise", format!("{}{}\n{}", noise(40), pretty.join("\n"), noise(5))),
                ("array", format!("[\n{}\n]\n", pretty.join(",\n"))),
                ("array on one line", format!("[{}]\n", compact.join(","))),
                ("array of lines", format!("[\n{}\n]\n", compact.join(",\n"))),
                ("array behind noise", format!("{}[{}]\n{}", noise(40), compact.join(","), noise(5))),
            ] {
                let got = decoded(&input);
                if how.ends_with("noise") {
                    assert_eq!(meaning(&got), meaning(&plain), "{}: {how}", fixture.folder.display());
                } else {
                    assert_eq!(got, plain, "{}: {how}", fixture.folder.display());
                }
            }
        }
    }
    assert!(count > 100, "only {count} recordings are JSON objects");
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
fn events_of_a_printed_array_come_with_its_elements() {
    let input = format!("[\n{INIT},\n{ANSWER},\n{RESULT}\n]\n");
    let (events, counts) = events_by_line(Start::detect(sabir_agents::builtin()), &input);
    assert!(counts[0] == 0 && counts[1] > 0 && counts[2] > counts[1], "{counts:?}");
    assert_eq!(result(&events).text.as_deref(), Some("Done."));
}

#[test]
fn noise_inside_a_printed_array_is_passed_over() {
    let pretty = respaced(ANSWER, true).replacen('\n', "\n[WARN] slow disk\n", 3);
    let input = format!("[\n{INIT},\nnote: x\n{pretty},\n{RESULT}\n]\n");
    let (events, _) = events_by_line(Start::detect(sabir_agents::builtin()), &input);
    let result = result(&events);
    assert_eq!((result.text.as_deref(), result.unrecognized.lines), (Some("Done."), 4));
}

#[test]
fn more_noise_than_is_held_comes_out_and_json_is_still_found() {
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
fn lines_of_a_run_are_not_held_up_by_noise() {
    let start = Start { structured: true, ..Start::of(crate::agent("claude-code")) };
    let (events, counts) = events_by_line(start, &format!("{}{INIT}\n{ANSWER}\n{RESULT}\n", noise(60)));
    assert!(counts[59] > 1, "{counts:?}");
    assert_eq!(result(&events).text.as_deref(), Some("Done."));
}

#[test]
fn text_stays_text_however_it_looks() {
    let text = "Here it is:\n[\n  {\n    \"a\": 1\n  }\n]\n{\n  int x;\n}\n";
    let events = decode(Start::of(crate::agent("claude-code")), text.as_bytes(), &End::default());
    assert_eq!(result(&events).text.as_deref(), Some(text.trim()));
    let long = format!("{text}{}", "more text\n".repeat(120_000));
    let events = decode(Start::of(crate::agent("claude-code")), long.as_bytes(), &End::default());
    assert_eq!(result(&events).text.as_deref(), Some(long.trim()));
}

#[test]
fn a_value_that_is_too_large_is_an_error_and_the_next_one_is_read() {
    let large = "x".repeat(65 << 20);
    let input = format!("[\n{INIT},\n{{\"type\":\"user\",\n\"text\":\"{large}\"}},\n{ANSWER},\n{RESULT}\n]\n");
    let result = result(&decode(Start::detect(sabir_agents::builtin()), input.as_bytes(), &End::default()));
    assert_eq!(result.text.as_deref(), Some("Done."));
    assert!(result.errors.iter().any(|error| error.message.contains("too large")), "{:?}", result.errors);
}

#[test]
fn agents_are_certain_only_by_fields_of_their_own() {
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
