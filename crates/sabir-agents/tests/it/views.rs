//! Every view over one run written by hand, compared with `fixtures/views/<view>.jsonl`, and what must hold for any run.
//!
//! `SABIR_UPDATE=1` rewrites the expected files; read the diff.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sabir_core::event::{
    Activity, Cause, Change, ErrorEvent, EventKind, Exited, FileChange, Final, Outcome, Permission, PermissionOption, Plan,
    PlanItem, PlanStatus, Retry, TextDelta, ThinkingDelta, ToolStatus, ToolUpdate, TurnEnd, TurnStart, Unrecognized, UsageScope,
};
use sabir_core::export::Options;
use sabir_test_support::snapshot;
use serde_json::Value;

use crate::common::writers::show;
use crate::run::{Run, tool_end, tool_start};

/// A run in which everything happens once.
fn eventful() -> Run {
    let plan = |first, second| {
        EventKind::Plan(Plan::new(vec![
            PlanItem { text: "Look".into(), status: first },
            PlanItem { text: "Mend".into(), status: second },
        ]))
    };
    Run::of("claude-code")
        .session()
        .turn(1)
        .thinking("m1", "Where is ")
        .thinking("m1", "the fault?")
        .text("m1", "I look at ")
        .text("m1", "the project.")
        .tool("t1", "Read", None)
        .push(ToolUpdate::new("t1").input(r#"{"file_path":"src/main.rs"}"#))
        .tool("t2", "Bash", Some(r#"{"command":"cargo test","workdir":"/home/user/project"}"#))
        .usage(UsageScope::Message, 10, 100, 5)
        .turn_end(1, "tool_use")
        .tool_end("t1", ToolStatus::Ok, "fn main() {}", None)
        .push(ToolUpdate::new("t2").output_delta("running\n"))
        .tool_end("t2", ToolStatus::Error, "running\n1 test failed", Some(101))
        .push(plan(PlanStatus::Completed, PlanStatus::InProgress))
        .turn(2)
        .text("m2", "There it is.")
        .tool("t3", "Edit", Some(r#"{"file_path":"src/main.rs","old_string":"a","new_string":"b"}"#))
        .push(
            FileChange::new("src/main.rs", Change::Update)
                .diff("--- a/src/main.rs\n+++ b/src/main.rs\n@@\n-a\n+b\n")
                .added(1)
                .removed(1)
                .tool_call_id("t3"),
        )
        .tool_end("t3", ToolStatus::Ok, "edited", None)
        .tool("t4", "Task", Some(r#"{"description":"Review the change"}"#))
        .inside("t4", TextDelta::new("The change ").message_id("s1"))
        .inside("t4", TextDelta::new("is right.").message_id("s1"))
        .inside("t4", tool_start("t5", "Grep", Some(r#"{"pattern":"main","path":"src"}"#)))
        .inside("t4", tool_end("t5", ToolStatus::Ok, "src/main.rs", None))
        .tool_end("t4", ToolStatus::Ok, "The change is right.", None)
        .usage(UsageScope::Message, 20, 200, 7)
        .turn_end(2, "end_turn")
        .turn(3)
        .push(Permission::new("p1", "Push to main?").options(vec![PermissionOption { id: "yes".into(), label: "Yes".into() }]))
        .shell(
            "t6",
            "git commit -am 'Mend' && git push && gh pr create -B main --fill",
            "[fix 0123abc] Mend\nTo github.com:org/app.git\n   1..2  fix -> fix\nhttps://github.com/org/app/pull/42\n",
        )
        .push(Retry::new(1, "overloaded").max_attempts(3).delay_ms(500))
        .push(Activity::new("almost done"))
        .push(ErrorEvent::new("a warning").class(Cause::RateLimited))
        .push(Unrecognized::new(r#"{"type":"novelty"}"#).r#type("novelty"))
        .push(plan(PlanStatus::Completed, PlanStatus::Completed))
        .text("m3", "Mended and pushed.")
        .usage(UsageScope::Run, 90, 900, 30)
        .turn_end(3, "end_turn")
        .answer("Mended and pushed.")
        .exited(Outcome::Completed)
}

fn options() -> Options {
    Options {
        job_id: Some("job-1".into()),
        repo: Some("org/app".into()),
        branch: Some("fix".into()),
        prompt: Some("Mend it.".into()),
        logs: true,
        ..Options::default()
    }
}

#[test]
fn match_expected_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/views");
    let check = |name| snapshot::check(&folder.join(format!("{name}.jsonl")), &eventful().shown(name, &options())).err();
    let failed: Vec<String> = sabir_export::FORMATS.iter().filter_map(|entry| check(entry.name)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn have_unique_names_and_expected_files() {
    let names: BTreeSet<_> = sabir_export::FORMATS.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), sabir_export::FORMATS.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/views");
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        assert!(names.contains(path.file_stem().and_then(|name| name.to_str()).expect("a name")), "{}", path.display());
    }
}

/// What Perstack's schema demands of a checkpoint.
fn assert_checkpoint(checkpoint: &Value) {
    for key in ["id", "jobId", "runId", "status"] {
        assert!(checkpoint[key].is_string(), "{key} in {checkpoint}");
    }
    assert!(checkpoint["stepNumber"].is_u64());
    for key in ["inputTokens", "outputTokens", "reasoningTokens", "totalTokens", "cachedInputTokens"] {
        assert!(checkpoint["usage"][key].is_u64(), "{key} in {checkpoint}");
    }
    for key in ["key", "name", "version"] {
        assert!(checkpoint["expert"][key].is_string());
    }
    let runtime = &checkpoint["metadata"]["runtime"];
    assert!(
        runtime.is_null() || ["local", "cursor", "claude-code", "gemini", "docker"].contains(&runtime.as_str().expect("a name"))
    );
    for message in checkpoint["messages"].as_array().expect("messages") {
        assert!(message["id"].is_string());
        let parts = message["contents"].as_array().expect("contents");
        assert!(parts.iter().all(|part| part["id"].is_string() && part["type"].as_str().expect("a type").ends_with("Part")));
    }
}

#[test]
fn perstack_events_fit_the_schema() {
    let records = eventful().records("perstack", &options());
    let types: Vec<_> = records.iter().map(|record| record["type"].as_str().expect("a type")).collect();
    assert_eq!(&types[..2], ["initializeRuntime", "startRun"]);
    assert_eq!(types.last(), Some(&"completeRun"));
    let ids: BTreeSet<_> = records.iter().map(|record| record["id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), records.len(), "event ids are unique");
    assert!(records[0].get("temperature").is_none() && records[0].get("stepNumber").is_none());
    let start = &records[1]["initialCheckpoint"];
    let last = records.last().expect("records");
    assert_checkpoint(start);
    assert_checkpoint(&last["checkpoint"]);
    assert_ne!(start["id"], last["checkpoint"]["id"]);
    // The run's own figures replace those of its messages.
    assert_eq!(last["usage"]["inputTokens"], 990);
    assert_eq!(last["usage"]["cachedInputTokens"], 900);
    assert_eq!(last["usage"]["totalTokens"], 1_020);
    assert_eq!(last["checkpoint"]["metadata"]["usageKnown"], true);
    // Parallel calls are one message, and the failed one says so.
    let calls = &records[2];
    assert_eq!(calls["toolCalls"].as_array().map(Vec::len), Some(2));
    assert_eq!(calls["toolCalls"][0]["args"]["file_path"], "src/main.rs");
    assert_eq!(calls["usage"]["inputTokens"], 110);
    assert_eq!(records[3]["toolResults"][1]["isError"], true);
    // The checkpoint alone is the same one.
    assert_eq!(eventful().records("perstack-checkpoint", &options()), [last["checkpoint"].clone()]);
}

#[test]
fn perstack_reports_why_a_run_stopped() {
    let failed = Run::of("codex")
        .text("m", "Well")
        .push(ErrorEvent::new("too many requests").class(Cause::RateLimited).fatal(true))
        .push(Exited::new(Outcome::Failed).exit_code(1).cause(Cause::RateLimited));
    let records = failed.records("perstack", &Options::default());
    let last = records.last().expect("records");
    assert_eq!(last["type"], "stopRunByError");
    assert_eq!(last["error"]["message"], "too many requests");
    assert_eq!(last["error"]["isRetryable"], true);
    assert_eq!(last["checkpoint"]["status"], "stoppedByError");
    assert_checkpoint(&last["checkpoint"]);
    // Not one of the schema's runtimes, and no figures: both are said, neither is made up.
    assert!(last["checkpoint"]["metadata"].get("runtime").is_none());
    assert_eq!(last["checkpoint"]["metadata"]["agent"], "codex");
    assert_eq!(last["checkpoint"]["metadata"]["usageKnown"], false);
    assert_eq!(records[0]["model"], "codex:default");
}

#[test]
fn envelope_numbers_are_dense_and_fragments_join() {
    let long: &'static str = Box::leak("é1".repeat(100).into_boxed_str());
    let run = Run::of("claude-code").session().turn(1).text("m", long).answer(long).exited(Outcome::Completed);
    let options = Options { partial_bytes: 64, session_id: Some("s-123".into()), ..Options::default() };
    let records = run.records("envelope", &options);
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record["seq"], index as u64 + 1);
        assert_eq!(record["sessionId"], "s-123");
    }
    for (r#type, field) in [("log", "text"), ("result", "summary")] {
        let parts: Vec<_> = records.iter().filter(|record| record["type"] == r#type).map(|record| &record["payload"]).collect();
        assert!(parts.len() > 1);
        let joined: String = parts.iter().map(|part| part[field].as_str().expect("a piece")).collect();
        assert_eq!(joined, long);
        for (index, part) in parts.iter().enumerate() {
            assert_eq!(part["partial"]["index"], index);
            assert_eq!(part["partial"]["total"], parts.len());
            assert_eq!(part["partial"]["id"], parts[0]["partial"]["id"]);
        }
    }
}

#[test]
fn envelope_events_round_trip() {
    use sabir_protocol::envelope::read::{Events, Message};
    let long: &'static str = Box::leak("é1\n".repeat(100).into_boxed_str());
    let run = Run::of("claude-code").session().turn(1).text("m", long).answer(long).exited(Outcome::Completed);
    let options = Options { partial_bytes: 64, session_id: Some("s-123".into()), events: true, after: 41, ..Options::default() };
    let (mut reader, mut back) = (Events::default(), Vec::new());
    for (line, seq) in show(&run.events, "envelope", &options).lines().zip(42..) {
        let message: Message<'_> = serde_json::from_str(line).expect("a message");
        assert_eq!((&*message.session_id, message.seq), ("s-123", seq));
        back.extend(reader.message(&message, |event| event.clone().into_owned()));
    }
    assert_eq!(back, run.events);
}

#[test]
fn envelope_numbers_heartbeats() {
    let mut view = sabir_protocol::envelope::Envelope::new(&Options::default());
    let mut out = Vec::new();
    view.heartbeat(sabir_core::time::Timestamp::EPOCH, &mut out);
    let last: Value = serde_json::from_slice(out.split(|byte| *byte == b'\n').nth_back(1).expect("a line")).expect("JSON");
    assert_eq!((last["type"].as_str(), last["seq"].as_u64()), (Some("heartbeat"), Some(3)));
    assert_eq!(last["payload"], serde_json::json!({}));
}

fn any_event() -> impl Strategy<Value = (EventKind<'static>, bool)> {
    let text = prop::sample::select(vec!["", "a", " \n", "git push", "{\"command\":\"git commit -m 'x\"}", "é{\"", "final"]);
    let id = prop::sample::select(vec!["1", "2", "3"]);
    let kind = (0..14_u8, text, id, any::<bool>()).prop_map(|(which, text, id, flag)| match which {
        0 | 1 => EventKind::Text(TextDelta::new(text).message_id(flag.then_some(id))),
        2 => EventKind::Thinking(ThinkingDelta::new(text).message_id(flag.then_some(id))),
        3 | 4 => tool_start(id, if flag { "Bash" } else { "Read" }, (!text.is_empty()).then_some(text)),
        5 => EventKind::ToolUpdate(ToolUpdate::new(id).input(flag.then_some(text)).output_delta((!flag).then_some(text))),
        6 | 7 => tool_end(id, if flag { ToolStatus::Ok } else { ToolStatus::Error }, text, None),
        8 => EventKind::TurnStart(TurnStart::new(1)),
        9 => EventKind::TurnEnd(TurnEnd::new(1).stop_reason(flag.then_some(text))),
        10 => EventKind::Final(Final::new(text)),
        11 => EventKind::Error(ErrorEvent::new(text).fatal(flag)),
        12 => EventKind::Plan(Plan::new(Vec::new())),
        _ => EventKind::Unrecognized(Unrecognized::new(text)),
    });
    (kind, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever order events come in, each view writes whole records, the same ones each time.
    #[test]
    fn write_whole_records_for_any_events(events in prop::collection::vec(any_event(), 0..40), exits in any::<bool>()) {
        let mut run = Run::of("claude-code");
        for (kind, inside) in events {
            run = if inside { run.inside("1", kind) } else { run.push(kind) };
        }
        if exits {
            run = run.exited(Outcome::Failed);
        }
        let options = Options { partial_bytes: 4, ..Options::default() };
        for entry in sabir_export::FORMATS {
            let records = run.records(entry.name, &options);
            prop_assert_eq!(&run.records(entry.name, &options), &records);
            prop_assert!(entry.name != "runner" || records.iter().filter(|record| record["kind"] == "final").count() <= 1);
        }
    }
}
