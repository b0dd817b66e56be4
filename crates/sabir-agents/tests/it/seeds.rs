//! The examples and tests of the documents that this project began with, over the public interface.

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{
    Activity, ByteRange, Cause, Change, ErrorEvent, Event, EventKind, FileChange, Outcome, Retry, RunId, Session, SuggestedEdit,
    SuggestedEdits, TextDelta, ThinkingDelta, ToolStatus, ToolUpdate, Usage, UsageScope,
};
use sabir_core::export::Options;
use sabir_core::line::{Line, Source};
use serde_json::{Value, json};

use crate::common::fixture::decode;
use crate::run::{Run, records};

fn stream(agent: &str, input: &str) -> Vec<Event<'static>> {
    decode(Start::of(crate::agent(agent)), input.as_bytes(), &End { exit_code: Some(0), ..End::default() })
}

mod perstack {
    use super::*;

    fn output(agent: &str, input: &str) -> Value {
        records(&stream(agent, input), "perstack-output", &Options::default()).remove(0)
    }

    fn options() -> Options {
        Options {
            job_id: Some("job-123".into()),
            run_id: Some("run-456".into()),
            expert_key: Some("test-expert".into()),
            expert_name: Some("Test".into()),
            expert_version: Some("1.0.0".into()),
            ..Options::default()
        }
    }

    #[test]
    fn plain_text_is_trimmed_and_gives_no_events() {
        for agent in ["cursor", "gemini"] {
            assert_eq!(output(agent, "  Hello World  \n"), json!({ "events": [], "finalOutput": "Hello World" }), "{agent}");
        }
    }

    #[test]
    fn a_claude_result_gives_its_text_and_plain_text_gives_itself() {
        assert_eq!(output("claude-code", r#"{"type": "result", "content": "Hello World"}"#)["finalOutput"], "Hello World");
        assert_eq!(output("claude-code", "Plain text output")["finalOutput"], "Plain text output");
    }

    #[test]
    fn the_checkpoint_is_normalized() {
        let checkpoint = records(&stream("cursor", "Hello World"), "perstack-checkpoint", &options()).remove(0);
        assert_eq!(checkpoint["jobId"], "job-123");
        assert_eq!(checkpoint["runId"], "run-456");
        assert_eq!(checkpoint["status"], "completed");
        assert_eq!(checkpoint["stepNumber"], 1);
        assert_eq!(checkpoint["expert"], json!({ "key": "test-expert", "name": "Test", "version": "1.0.0" }));
        assert_eq!(checkpoint["messages"].as_array().map(Vec::len), Some(1));
        assert_eq!(checkpoint["messages"][0]["type"], "expertMessage");
        assert_eq!(checkpoint["messages"][0]["contents"][0]["text"], "Hello World");
        assert_eq!(checkpoint["metadata"]["runtime"], "cursor");
        assert_eq!(checkpoint["metadata"]["externalExecution"], true);
    }

    #[test]
    fn the_run_is_initialized_and_completed() {
        let options = Options { expert_name: Some("Test Expert".into()), ..options() };
        let events = records(&stream("cursor", "Done"), "perstack", &options);
        let [initialize, start, complete] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(initialize["type"], "initializeRuntime");
        assert_eq!(initialize["jobId"], "job-123");
        assert_eq!(initialize["runId"], "run-456");
        assert_eq!(initialize["expertName"], "Test Expert");
        assert_eq!(initialize["runtimeVersion"], "external:cursor");
        assert_eq!(initialize["model"], "cursor:default");
        assert_eq!(
            (&initialize["experts"], &initialize["maxRetries"], &initialize["timeout"]),
            (&json!([]), &json!(0), &json!(0))
        );
        assert_eq!(start["type"], "startRun");
        assert_eq!(complete["type"], "completeRun");
        assert_eq!(complete["text"], "Done");
        let checkpoint = records(&stream("cursor", "Done"), "perstack-checkpoint", &options).remove(0);
        assert_eq!(complete["checkpoint"]["id"], checkpoint["id"]);
    }
}

mod runner {
    use super::*;

    fn shown(run: &Run) -> Vec<Value> {
        run.records("runner", &Options::default())
    }

    #[test]
    fn reasoning_tools_and_answer_are_thought_action_and_final() {
        let run = Run::of("codex")
            .turn(1)
            .thinking("r1", "Which files ")
            .thinking("r1", "are there?")
            .text("m1", "I look.")
            .tool("t1", "shell", Some(r#"{"command":["bash","-lc","ls"]}"#))
            .tool_end("t1", ToolStatus::Ok, "a.txt", Some(0))
            .text("m2", "One ")
            .text("m2", "file.")
            .usage(UsageScope::Run, 1, 0, 1)
            .turn_end(1, "stop")
            .answer("One file.")
            .exited(Outcome::Completed);
        let want = [
            json!({ "kind": "thought", "text": "Which files are there?" }),
            json!({ "kind": "thought", "text": "I look." }),
            json!({ "kind": "action", "name": "shell", "detail": "ls" }),
            json!({ "kind": "final", "text": "One file." }),
        ];
        assert_eq!(shown(&run), want);
        let logs = run.records("runner", &Options { logs: true, ..Options::default() });
        assert!(logs.iter().any(|record| record["kind"] == "log"));
        assert_eq!(logs.iter().filter(|record| record["kind"] != "log").cloned().collect::<Vec<_>>(), want);
    }

    #[test]
    fn the_answer_of_a_turn_that_another_follows_is_a_response() {
        let run = Run::of("claude-code")
            .turn(1)
            .text("m1", "First answer.")
            .turn_end(1, "end_turn")
            .turn(2)
            .text("m2", "Second answer.")
            .turn_end(2, "end_turn")
            .answer("Second answer.")
            .exited(Outcome::Completed);
        assert_eq!(
            shown(&run),
            [json!({ "kind": "response", "text": "First answer." }), json!({ "kind": "final", "text": "Second answer." })]
        );
    }

    #[test]
    fn what_was_cut_off_or_tried_again_is_no_response() {
        let retry = EventKind::Retry(Retry::new(1, "overloaded"));
        let run = Run::of("pi")
            .turn(1)
            .text("m1", "Cut o")
            .turn_end(1, "error")
            .turn(2)
            .text("m2", "Cut off")
            .turn_end(2, "stop")
            .push(retry)
            .turn(3)
            .text("m3", "Whole.")
            .turn_end(3, "stop")
            .answer("Whole.")
            .exited(Outcome::Completed);
        let kinds: Vec<_> = shown(&run).iter().map(|record| record["kind"].clone()).collect();
        assert_eq!(kinds, ["thought", "thought", "final"]);
    }

    #[test]
    fn a_failed_tool_is_one_more_action_and_waits_for_its_arguments() {
        let run = Run::of("claude-code")
            .tool("t1", "Bash", None)
            .usage(UsageScope::Message, 1, 0, 1)
            .push(ToolUpdate::new("t1").input(r#"{"command":"false"}"#))
            .tool_end("t1", ToolStatus::Error, "", Some(1))
            .exited(Outcome::Cancelled);
        assert_eq!(
            shown(&run),
            [
                json!({ "kind": "action", "name": "Bash", "detail": "false" }),
                json!({ "kind": "action", "name": "Bash", "detail": "failed with exit code 1" }),
            ]
        );
    }

    #[test]
    fn an_error_is_an_error_before_the_final_and_a_log_after_it() {
        let error = || EventKind::Error(ErrorEvent::new("no key").class(Cause::Auth).fatal(true));
        let failed = Run::of("codex").text("m", "Half").push(error()).exited(Outcome::Failed);
        assert_eq!(
            shown(&failed),
            [
                json!({ "kind": "error", "error": { "message": "no key", "class": "auth", "fatal": true } }),
                json!({ "kind": "thought", "text": "Half" }),
            ]
        );
        let answered = Run::of("codex").answer("Done").push(error()).exited(Outcome::Failed);
        assert_eq!(shown(&answered), [json!({ "kind": "final", "text": "Done" })]);
        let logs = answered.records("runner", &Options { logs: true, ..Options::default() });
        assert!(logs.contains(&json!({ "kind": "log", "text": "error: no key" })));
    }

    #[test]
    fn a_run_that_ends_badly_without_a_word_is_an_error_and_text_is_flushed() {
        let run = Run::of("codex").text("m", "Half a sen").exited(Outcome::Incomplete);
        let shown = shown(&run);
        assert_eq!(shown[0], json!({ "kind": "thought", "text": "Half a sen" }));
        assert_eq!(shown[1]["kind"], "error");
    }

    #[test]
    fn sub_agents_that_speak_at_once_give_whole_thoughts() {
        let text = |delta: &'static str| EventKind::Text(TextDelta::new(delta));
        let run = Run::of("claude-code")
            .tool("a", "Task", Some("{}"))
            .tool("b", "Task", Some("{}"))
            .inside("a", text("one "))
            .inside("b", text("two "))
            .inside("a", text("ONE"))
            .inside("b", text("TWO"))
            .tool_end("a", ToolStatus::Ok, "", None)
            .tool_end("b", ToolStatus::Ok, "", None)
            .exited(Outcome::Completed);
        let thoughts: Vec<_> = shown(&run).into_iter().filter(|record| record["kind"] == "thought").collect();
        assert_eq!(thoughts, [json!({ "kind": "thought", "text": "one ONE" }), json!({ "kind": "thought", "text": "two TWO" })]);
    }
}

mod vocabulary {
    use super::*;

    fn event(kind: impl Into<EventKind<'static>>) -> Value {
        let kind = kind.into();
        let event = Event { run_id: RunId::from("r1"), seq: 1, at: None, line: None, parent_tool_call_id: None, kind };
        let mut written = Vec::new();
        event.write_json(&mut written);
        let written = String::from_utf8(written).expect("JSON is UTF-8");
        assert_eq!(serde_json::from_str::<Event<'_>>(&written).expect(&written), event, "an event reads back");
        assert_eq!(serde_json::to_string(&event).expect("JSON"), written);
        serde_json::from_str(&written).expect("JSON")
    }

    #[test]
    fn events_have_a_kind_and_camel_case_keys() {
        let exited = Run::of("localexec").exited(Outcome::Cancelled).events.remove(1).kind;
        let exited = event(exited);
        assert_eq!((&exited["kind"], &exited["runId"]), (&json!("exited"), &json!("r1")));
        assert_eq!((&exited["exitCode"], &exited["cancelled"]), (&json!(1), &json!(true)));
        let thinking = event(ThinkingDelta::new("d"));
        assert_eq!((&thinking["kind"], &thinking["delta"]), (&json!("thinking"), &json!("d")));
    }

    #[test]
    fn absent_fields_are_left_out() {
        let session = event(Session::default().session_id("sess-1"));
        assert_eq!(session["sessionId"], "sess-1");
        assert!(session.get("model").is_none());
        let start = event(crate::run::tool_start("t1", "ls", None));
        assert_eq!((&start["kind"], &start["toolCallId"]), (&json!("toolStart"), &json!("t1")));
        assert!(start.get("input").is_none());
        let end = event(crate::run::tool_end("t1", ToolStatus::Ok, "done", None));
        assert_eq!((&end["kind"], &end["output"], &end["ok"]), (&json!("toolEnd"), &json!("done"), &json!(true)));
        let usage = event(Usage::new(UsageScope::Run).input_tokens(10).total_tokens(30));
        assert_eq!((&usage["kind"], &usage["inputTokens"], &usage["totalTokens"]), (&json!("usage"), &json!(10), &json!(30)));
        assert!(usage.get("outputTokens").is_none());
    }

    #[test]
    fn suggested_edits_are_in_bytes() {
        let edit = SuggestedEdit {
            file_path: "a.md".into(),
            range: ByteRange { start: 1, end: 2 },
            replacement: "x".into(),
            title: None,
        };
        let edits = event(SuggestedEdits::new(vec![edit]));
        assert_eq!((&edits["kind"], &edits["edits"][0]["filePath"]), (&json!("suggestedEdits"), &json!("a.md")));
        assert_eq!(edits["edits"][0]["range"], json!({ "start": 1, "end": 2 }));
        assert!(edits["edits"][0].get("title").is_none());
    }

    #[test]
    fn standard_error_is_activity_cut_at_240_characters() {
        let said = |text: String| {
            let mut decoder = Decoder::new(Start::of(crate::agent("localexec")));
            let mut events = Vec::new();
            decoder.line(&Line { source: Source::Stderr, ..Line::of(1, text) }, &mut events);
            decoder.end(&End::default(), &mut events);
            let messages = events.into_iter().filter_map(|event| match event.kind {
                EventKind::Activity(Activity { message, .. }) => Some(message.into_owned()),
                _ => None,
            });
            messages.collect::<Vec<_>>()
        };
        assert_eq!(said("é".repeat(500)).iter().map(|line| line.chars().count()).collect::<Vec<_>>(), [240]);
        assert_eq!(said(String::new()), Vec::<String>::new());
    }
}

mod envelope {
    use super::*;

    fn sent() -> Vec<Value> {
        let options = Options {
            session_id: Some("s-123".into()),
            adapter: Some("claude".into()),
            repo: Some("org/umbrella".into()),
            branch: Some("rfe/foo".into()),
            ..Options::default()
        };
        Run::of("claude-code")
            .session()
            .turn(1)
            .shell("t1", "git clone https://github.com/org/work.git", "Cloning into 'work'...")
            .push(FileChange::new("specs/foo/spec.md", Change::Update).diff("---\n+++ ..."))
            .shell(
                "t2",
                "gh pr create --base rfe/foo --head user:branch --fill",
                "Creating pull request\n\nhttps://github.com/org/umbrella/pull/42\n",
            )
            .answer("Updated spec, opened PR #42")
            .exited(Outcome::Completed)
            .records("envelope", &options)
    }

    fn payload(sent: &[Value], r#type: &str) -> Value {
        let message = sent.iter().find(|message| message["type"] == r#type).unwrap_or_else(|| panic!("no {type}"));
        message["payload"].clone()
    }

    #[test]
    fn every_message_has_the_whole_head() {
        for (index, message) in sent().iter().enumerate() {
            assert_eq!(message["id"].as_str().map(str::len), Some(36));
            assert_eq!(message["sessionId"], "s-123");
            assert!(message["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')));
            assert_eq!((&message["level"], &message["origin"]), (&json!("info"), &json!("runner")));
            assert_eq!(message["seq"], index + 1);
            assert!(message["payload"].is_object());
        }
    }

    #[test]
    fn messages_have_the_shapes_of_the_examples() {
        let sent = sent();
        let init = payload(&sent, "init");
        assert_eq!(
            (&init["adapter"], &init["repo"], &init["branch"]),
            (&json!("claude"), &json!("org/umbrella"), &json!("rfe/foo"))
        );
        assert!(init["runnerVersion"].is_string());
        let start = payload(&sent, "command_start");
        assert_eq!(start["cmd"], "git clone https://github.com/org/work.git");
        assert_eq!(start["cwd"], "/home/user/project");
        let output = payload(&sent, "command_output");
        assert_eq!((&output["stream"], &output["chunk"]), (&json!("stdout"), &json!("Cloning into 'work'...")));
        let end = payload(&sent, "command_end");
        assert_eq!((&end["cmd"], &end["exitCode"], &end["durationMs"]), (&start["cmd"], &json!(0), &json!(1_000)));
        let git = payload(&sent, "git_event");
        assert_eq!((&git["action"], &git["repo"]), (&json!("clone"), &json!("org/work")));
        let change = payload(&sent, "file_change");
        assert_eq!((&change["path"], &change["change"]), (&json!("specs/foo/spec.md"), &json!("update")));
        assert_eq!(change["diff"], "---\n+++ ...");
        let pull = payload(&sent, "pr_event");
        assert_eq!((&pull["action"], &pull["repo"], &pull["number"]), (&json!("open"), &json!("org/umbrella"), &json!(42)));
        assert_eq!(pull["url"], "https://github.com/org/umbrella/pull/42");
        assert_eq!((&pull["base"], &pull["head"]), (&json!("rfe/foo"), &json!("user:branch")));
        let result = payload(&sent, "result");
        assert_eq!((&result["summary"], &result["artifacts"]), (&json!("Updated spec, opened PR #42"), &json!([])));
    }

    #[test]
    fn phases_come_in_order_and_end_done() {
        let sent = sent();
        let phases: Vec<_> =
            sent.iter().filter(|message| message["type"] == "status").map(|message| &message["payload"]).collect();
        let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().expect("a phase")).collect();
        assert_eq!(names, ["starting", "running", "finalizing", "done"]);
        assert!(phases.windows(2).all(|pair| pair[0]["progress"].as_u64() <= pair[1]["progress"].as_u64()));
        assert_eq!(phases.last().map(|phase| &phase["progress"]), Some(&json!(100)));
        assert_eq!(sent.first().map(|message| &message["type"]), Some(&json!("init")));
        assert_eq!(sent.last().map(|message| &message["type"]), Some(&json!("status")));
    }
}
