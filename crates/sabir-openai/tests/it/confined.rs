//! Ways out of the folder, and that they are none.

use std::os::unix::fs::symlink;
use std::path::Path;

use sabir_core::event::ToolStatus;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{calls, says};
use crate::{Run, folder, run_with};

/// A folder beside the working folder, with a secret in it.
fn outside() -> TempDir {
    let outside = TempDir::new().expect("a folder");
    std::fs::write(outside.path().join("secret.txt"), "the secret").expect("written");
    outside
}

fn call(folder: TempDir, name: &str, arguments: Value) -> Run {
    run_with(folder, [calls(&[(name, arguments)]), says("Done.")], |_| {})
}

/// Tries to read and to change what is outside by that path.
fn try_path(prepare: impl Fn(&Path, &Path) -> String) {
    for (name, change) in [
        ("read", json!({})),
        ("write", json!({"content": "changed"})),
        ("edit", json!({"old_string": "the", "new_string": "no"})),
    ] {
        let (folder, outside) = (folder(), outside());
        let mut arguments = change;
        arguments["path"] = json!(prepare(folder.path(), outside.path()));
        let run = call(folder, name, arguments.clone());
        assert_eq!(run.ends()[0].0, ToolStatus::Denied, "{name} {arguments}: {}", run.output());
        assert!(!run.printed.contains("the secret"));
        let names: Vec<_> =
            std::fs::read_dir(outside.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(names, ["secret.txt"]);
        assert_eq!(std::fs::read_to_string(outside.path().join("secret.txt")).expect("read"), "the secret");
    }
}

#[test]
fn dots_lead_nowhere() {
    let up = |outside: &Path| format!("../{}/secret.txt", outside.file_name().expect("a name").to_string_lossy());
    try_path(|_, outside| up(outside));
    try_path(|folder, outside| {
        std::fs::create_dir(folder.join("sub")).expect("made");
        format!("sub/../{}", up(outside))
    });
    try_path(|folder, outside| format!("{}/{}", folder.display(), up(outside)));
}

#[test]
fn whole_paths_lead_nowhere() {
    try_path(|_, outside| outside.join("secret.txt").to_string_lossy().into_owned());
}

#[test]
fn links_lead_nowhere() {
    try_path(|folder, outside| {
        symlink(outside.join("secret.txt"), folder.join("link")).expect("linked");
        "link".to_owned()
    });
    try_path(|folder, outside| {
        symlink(outside, folder.join("link")).expect("linked");
        "link/secret.txt".to_owned()
    });
    try_path(|folder, outside| {
        let name = outside.file_name().expect("a name");
        symlink(Path::new("..").join(name), folder.join("link")).expect("linked");
        "link/secret.txt".to_owned()
    });
}

#[test]
fn a_new_file_is_not_made_outside() {
    let (folder, outside) = (folder(), outside());
    symlink(outside.path(), folder.path().join("link")).expect("linked");
    let run = call(folder, "write", json!({"path": "link/deep/new.txt", "content": "x"}));
    assert_ne!(run.ends()[0].0, ToolStatus::Ok);
    assert!(!outside.path().join("deep").exists());
}

#[test]
fn a_folder_outside_is_not_listed() {
    for path in ["..", "/", "link", "sub/../.."] {
        let (folder, outside) = (folder(), outside());
        symlink(outside.path(), folder.path().join("link")).expect("linked");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        let run = call(folder, "list", json!({"path": path}));
        assert_eq!(run.ends()[0].0, ToolStatus::Denied, "{path}: {}", run.output());
    }
    let (folder, outside) = (folder(), outside());
    symlink(outside.path(), folder.path().join("link")).expect("linked");
    let run = call(folder, "list", json!({"depth": 5}));
    assert_eq!(run.output(), "link\nnotes.txt", "a link is listed by its name");
}

#[test]
fn links_inside_are_followed() {
    let folder = folder();
    symlink("notes.txt", folder.path().join("link")).expect("linked");
    assert_eq!(call(folder, "read", json!({"path": "link"})).output(), "one\ntwo\nthree\n");
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let script = [
        calls(&[("shell", json!({"command": "mkfifo pipe"}))]),
        calls(&[("read", json!({"path": "pipe"})), ("read", json!({"path": "."}))]),
        says("Done."),
    ];
    let run = run_with(folder(), script, |_| {});
    assert!(run.ends()[1..].iter().all(|end| end.2.contains("is not a file")), "{}", run.printed);
}

#[test]
fn a_command_reaches_nothing_outside_where_the_kernel_can_keep_it_in() {
    let outside = outside();
    let path = outside.path().display();
    let command = format!(
        "echo inside > inside.txt; echo $TMPDIR > tmp.txt; echo t > $TMPDIR/t && cat $TMPDIR/t; echo n > /dev/null && echo null; \
         cat {path}/secret.txt; echo bad > {path}/new.txt; echo bad >> {path}/secret.txt; rm {path}/secret.txt; \
         ln -s {path} way; echo bad > way/new.txt; mv inside.txt {path}/moved.txt; echo over"
    );
    let run = call(folder(), "shell", json!({"command": command}));
    let output = run.output();
    assert!(output.starts_with("t\nnull\n") && output.ends_with("over\n"), "{output}");
    assert!(!Path::new(run.file("tmp.txt").trim()).exists(), "the temporary folder is gone with the run");
    if run.is_confined() {
        assert!(!output.contains("the secret"), "{output}");
        assert_eq!(std::fs::read_to_string(outside.path().join("secret.txt")).expect("it is there"), "the secret");
        assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 1);
        assert_eq!(run.file("inside.txt"), "inside\n");
    } else {
        assert!(output.contains("the secret"), "it is said that nothing is confined, and it is: {output}");
    }
}

#[test]
fn a_command_can_not_look_into_the_loop() {
    let command = "cat /proc/$PPID/environ; for t in /proc/$PPID/task/*; do cat $t/environ; done; echo over";
    let run = call(folder(), "shell", json!({"command": command}));
    let output = run.output();
    assert!(output.ends_with("over\n"), "{output}");
    if run.is_confined() {
        assert!(output.contains("Permission denied") && !output.contains("PATH="), "{output}");
    }
}
