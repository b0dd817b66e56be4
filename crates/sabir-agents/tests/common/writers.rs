//! Every writer of records, and that one record is one line of valid JSON.

use sabir_core::event::Event;
use sabir_core::export::Options;
use sabir_core::fold::SessionResult;
use sabir_export::jobs::Jobs;
use serde_json::Value;

/// The text that a view makes of the events.
pub(crate) fn show(events: &[Event<'_>], name: &str, options: &Options) -> String {
    let mut view = (sabir_export::find(name).expect("a view").new)(options);
    let mut out = Vec::new();
    for event in events {
        view.event(event, &mut out);
    }
    view.end(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Asserts that these bytes are JSON Lines, and returns the values.
#[track_caller]
pub(crate) fn lines(text: &str, what: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{what}: the last line has no end");
    assert!(!text.contains('\r'), "{what}: a carriage return");
    let value = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{what}: {error} in {line:?}"));
    text.split_terminator('\n').map(value).collect()
}

/// Writes the events with every writer of the crate, and checks every record.
#[track_caller]
pub(crate) fn check_all(events: &[Event<'_>], what: &str) {
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
