//! The tools inside of the folder.

use std::time::{Duration, Instant};

use sabir_core::event::{EventKind, FileChange, ToolStatus};
use sabir_openai::Permission;
use serde_json::{Value, json};

use crate::server::{calls, says, stream};
use crate::{Run, folder, run, run_with};

/// One call, and the answer behind it.
fn call(name: &str, arguments: Value) -> Run {
    run([calls(&[(name, arguments)]), says("Done.")])
}

#[test]
fn an_edit_changes_the_file_and_tells_how() {
    let run = call("edit", json!({"path": "notes.txt", "old_string": "two\n", "new_string": "zwei ½\n"}));
    assert_eq!(run.file("notes.txt"), "one\nzwei ½\nthree\n");
    let change = &run.result["fileChanges"][0];
    assert_eq!((&change["path"], &change["added"], &change["removed"]), (&json!("notes.txt"), &json!(1), &json!(1)));
    assert_eq!(run.has("fileChange"), 1, "a reported change is not inferred as well");
    let diff = run.events.iter().find_map(|event| match &event.kind {
        EventKind::FileChange(FileChange { diff, .. }) => diff.as_deref(),
        _ => None,
    });
    assert_eq!(diff, Some("--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei ½\n three\n"));
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    for (old, why) in [("four", "is not in"), ("o", "2 times"), ("", "is not in")] {
        let run = call("edit", json!({"path": "notes.txt", "old_string": old, "new_string": "x"}));
        assert_eq!((run.file("notes.txt").as_str(), run.has("fileChange")), ("one\ntwo\nthree\n", 0));
        assert!(run.output().contains(why), "{}", run.output());
        assert_eq!(run.ends()[0].0, ToolStatus::Error);
    }
    let run = call("edit", json!({"path": "notes.txt", "old_string": "o", "new_string": "0", "replace_all": true}));
    assert_eq!(run.file("notes.txt"), "0ne\ntw0\nthree\n");
}

#[test]
fn edits_of_one_file_at_once_all_count() {
    let edits: Vec<(&str, Value)> = [("one", "1"), ("two", "2"), ("three", "3")]
        .map(|(old, new)| ("edit", json!({"path": "notes.txt", "old_string": old, "new_string": new})))
        .to_vec();
    assert_eq!(run([calls(&edits), says("Done.")]).file("notes.txt"), "1\n2\n3\n");
}

#[test]
fn a_file_is_written_with_its_folders() {
    let run = call("write", json!({"path": "new/deep/file.txt", "content": "héllo\n"}));
    assert_eq!(run.file("new/deep/file.txt"), "héllo\n");
    assert_eq!(run.result["fileChanges"][0]["change"], "create");
    let run = call("write", json!({"path": "notes.txt", "content": "one\n"}));
    let change = &run.result["fileChanges"][0];
    assert_eq!((&change["change"], &change["removed"]), (&json!("update"), &json!(2)));
}

#[test]
fn files_are_read_whole_or_by_lines() {
    assert_eq!(call("read", json!({"path": "notes.txt"})).output(), "one\ntwo\nthree\n");
    assert_eq!(call("read", json!({"path": "notes.txt", "offset": 2, "limit": 1})).output(), "two\n");
    assert!(call("read", json!({"path": "gone.txt"})).output().contains("no file"));
    let folder = folder();
    let path = folder.path().join("notes.txt").to_string_lossy().into_owned();
    let run = run_with(folder, [calls(&[("read", json!({"path": path}))]), says("Done.")], |_| {});
    assert_eq!(run.output(), "one\ntwo\nthree\n", "a whole path into the folder is as good");
}

#[test]
fn folders_are_listed() {
    let folder = folder();
    std::fs::create_dir_all(folder.path().join("a/b")).expect("made");
    std::fs::write(folder.path().join("a/b/c.txt"), "").expect("written");
    let run = run_with(folder, [calls(&[("list", json!({"depth": 3}))]), says("Done.")], |_| {});
    assert_eq!(run.output(), "a/\na/b/\na/b/c.txt\nnotes.txt");
}

#[test]
fn a_command_gives_both_streams_in_order_and_its_exit_code() {
    let run = call("shell", json!({"command": "echo out; echo err >&2; echo more; exit 3"}));
    assert_eq!(run.ends(), [(ToolStatus::Error, Some(3), "out\nerr\nmore\n[exit code 3]".to_owned())]);
    assert_eq!(run.result["outcome"], "completed", "a command that fails does not fail the run");
    let input = run.server.asked()[1].body["input"].clone();
    assert_eq!(input[2]["output"], "out\nerr\nmore\n[exit code 3]");
    let run = call("shell", json!({"command": "kill -9 $$"}));
    assert_eq!(run.ends(), [(ToolStatus::Error, None, "[ended by signal 9]".to_owned())]);
    assert_eq!(call("shell", json!({"command": "cat; pwd -P | xargs basename | wc -l"})).output().trim(), "1");
}

#[test]
fn a_command_whose_time_is_over_is_ended() {
    let run = call("shell", json!({"command": "echo first; exec tail -f /dev/null", "timeout_seconds": 3}));
    let (status, _, output) = run.ends().remove(0);
    assert_eq!(status, ToolStatus::Error);
    assert!(output.starts_with("first\n[ended after 3 s"), "{output}");
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    // The first command is over at once; if its background were not ended, the pipe would stay open.
    let run = call("shell", json!({"command": "tail -f /dev/null & echo $! > pid; echo started"}));
    assert_eq!(run.output(), "started\n");
    let pid = run.file("pid");
    let has_ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
        matches!(state, None | Some('Z' | 'X'))
    };
    // It was killed; on a busy machine it takes the kernel a while.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_ended() {
        assert!(Instant::now() < deadline, "process {} lives", pid.trim());
        std::thread::yield_now();
    }
}

#[test]
fn calls_of_one_answer_run_beside_each_other() {
    // Each waits for the other at a pipe with a name, so that one after the other would never end.
    let run = run([
        calls(&[("shell", json!({"command": "mkfifo there back"}))]),
        calls(&[
            ("shell", json!({"command": "echo ping > there; cat back"})),
            ("shell", json!({"command": "cat there; echo pong > back"})),
        ]),
        says("Done."),
    ]);
    let mut outputs: Vec<String> = run.ends().into_iter().map(|end| end.2).collect();
    outputs.sort();
    assert_eq!(outputs, ["", "ping\n", "pong\n"], "{}", run.printed);
    // The results are sent back in the order of the calls, whichever ended first.
    let input = run.server.asked()[2].body["input"].clone();
    assert_eq!((&input[5]["output"], &input[6]["output"]), (&json!("pong\n"), &json!("ping\n")));
    assert_eq!(input[2]["output"], "(no output)");
}

#[test]
fn a_megabyte_of_output_is_cut_in_the_middle_and_counted() {
    let run = call("shell", json!({"command": "echo BEGIN; head -c 1000000 /dev/zero | tr '\\0' 'x'; echo; echo END"}));
    let output = run.output();
    assert!(output.len() < 40_000 && output.starts_with("BEGIN\n") && output.ends_with("END\n"));
    let cut: usize =
        output.split_once("[… ").and_then(|(_, rest)| rest.split_once(' ')).expect("the mark").0.parse().expect("a number");
    let kept = output.len() - format!("\n[… {cut} bytes left out …]\n").len();
    assert_eq!(kept + cut, "BEGIN\n".len() + 1_000_000 + "\nEND\n".len());
}

#[test]
fn arguments_that_make_no_sense_are_the_models_to_mend() {
    let odd = |arguments: &str| {
        let item = json!({"type": "function_call", "call_id": "c", "name": "read", "arguments": arguments});
        let event = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        run([stream(&[event, crate::server::completed(1, 0, 1, 0)]), says("Done.")])
    };
    for arguments in ["{\"path\": \"no", "[]", "{\"path\": 7}", ""] {
        let run = odd(arguments);
        assert_eq!((run.ends()[0].0, run.result["outcome"].as_str()), (ToolStatus::Error, Some("completed")), "{arguments}");
    }
    assert!(call("fly", json!({})).output().contains("no tool named fly"));
}

#[test]
fn a_permission_has_its_tools_and_no_others() {
    for (permission, names) in [
        (Permission::ReadOnly, &["list", "read"][..]),
        (Permission::Edit, &["list", "read", "edit", "write"]),
        (Permission::Full, &["list", "read", "edit", "write", "shell"]),
    ] {
        let script = [
            calls(&[("shell", json!({"command": "echo hi"})), ("write", json!({"path": "new.txt", "content": "x"}))]),
            says("Done."),
        ];
        let run = run_with(folder(), script, |config| config.permission = permission);
        let offered: Vec<String> = run.server.asked()[0].body["tools"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|tool| tool["name"].as_str().expect("a name").to_owned())
            .collect();
        assert_eq!(offered, names);
        // Asking for a tool that was not offered does not help.
        let denied = run.ends().iter().filter(|end| end.0 == ToolStatus::Denied).count();
        assert_eq!(
            (denied, run.folder.path().join("new.txt").exists()),
            (5 - names.len().max(3), permission >= Permission::Edit)
        );
    }
}
