//! The index never changes an answer, whatever became of the files; what can't be told is named.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sabir_agents::builtin;
use sabir_store::history::{self, Found, Places};
use sabir_store::index::{self, Index};

use crate::{read_logs, write};

fn log(home: &Path, name: &str) -> PathBuf {
    home.join(".claude/projects/-home-user-a").join(name)
}

fn line(id: &str, output: u32) -> String {
    let usage = format!(r#"{{"input_tokens":1,"output_tokens":{output}}}"#);
    let message = format!(r#"{{"model":"m","id":"{id}","role":"assistant","content":[],"usage":{usage}}}"#);
    format!(
        r#"{{"type":"assistant","sessionId":"s","timestamp":"2026-11-15T10:00:00.000Z","message":{message},"pad":"{}"}}"#,
        "x".repeat(2000)
    ) + "\n"
}

#[test]
fn a_file_that_was_touched_in_any_way_is_read_again() {
    let home = tempfile::tempdir().expect("a folder");
    let (index, path) = (home.path().join("kept/index"), log(home.path(), "s.jsonl"));
    write(&path, &(line("a", 100) + &line("b", 1)));
    let read = || {
        let logs = read_logs(home.path(), "claude-code", Some(&index));
        (logs.files_read, logs.logs[0].account.totals().spent.output)
    };
    assert_eq!((read(), read()), ((1, 101), (0, 101)));
    // What may be done to it can have changed, and with that the answer.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    assert_eq!((read(), read()), ((1, 101), (0, 101)));
    // As long as before, with the same end, and of the same time as far as anybody can set it.
    let then = fs::metadata(&path).and_then(|data| data.modified()).expect("a time");
    write(&path, &(line("a", 900) + &line("b", 1)));
    fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(then)).expect("set back");
    assert_eq!((read(), read()), ((1, 901), (0, 901)));
}

#[test]
fn a_pipe_in_the_place_of_the_index_is_not_waited_for() {
    let home = tempfile::tempdir().expect("a folder");
    let index = home.path().join("kept/index");
    write(&log(home.path(), "s.jsonl"), &line("a", 1));
    fs::create_dir_all(home.path().join("kept")).expect("made");
    assert!(std::process::Command::new("mkfifo").arg(&index).status().expect("it starts").success());
    for _ in 0..2 {
        assert_eq!(read_logs(home.path(), "claude-code", Some(&index)).logs.len(), 1);
    }
}

/// Other systems do not let anybody give such names.
#[cfg(target_os = "linux")]
#[test]
fn logs_whose_names_are_no_text_are_named_each_time() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let home = tempfile::tempdir().expect("a folder");
    write(&log(home.path(), "s.jsonl"), &line("a", 1));
    let odd = |name: &[u8]| log(home.path(), "s.jsonl").with_file_name(OsStr::from_bytes(name));
    let (file, folder) = (odd(b"caf\xe9.jsonl"), odd(b"\xff"));
    write(&file, &line("b", 1));
    write(&folder.join("agent-1.jsonl"), &line("c", 1));
    // What would be no log under any name is left alone.
    write(&odd(b"\xe9.txt"), "");
    let places = Places { home: Some(home.path().to_path_buf()), registry: builtin(), ..Places::default() };
    for _ in 0..3 {
        let mut index = Index::open(&home.path().join("kept/index"));
        let Found { files, failures } = history::find_in(&mut index, &places, |_| true);
        let named: Vec<&Path> = failures.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!((files.len(), named), (1, vec![file.as_path(), folder.as_path()]));
        assert!(failures.iter().all(|(_, error)| error.to_string().contains("not text")), "{failures:?}");
        index::read(files, index, &mut |_, _| {});
    }
}
