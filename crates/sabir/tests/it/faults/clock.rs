//! A clock that is set while everything runs.
//!
//! Nothing in the product can be told another time. So the programs are started with a small library in front of the C
//! library, which moves the wall clock by what a file says; the clock that only counts is left alone, as it is when a
//! clock is set.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{SESSION, Scene, peak, start, tell, wait_for};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faults/clock.c");

/// The library; `None` if it can't be built and skipping is allowed.
fn library(folder: &std::path::Path) -> Option<PathBuf> {
    let library = folder.join("clock.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([SOURCE, "-ldl"]);
    let made = cfg!(target_os = "linux") && command.status().is_ok_and(|status| status.success());
    if !made {
        sabir_test_support::skip_test("no library can be built that sets the clock", "install a C compiler as `cc`, on Linux");
    }
    made.then_some(library)
}

#[test]
fn jump_changes_nothing_but_timestamps() {
    let plain = Scene::new();
    let Some(library) = library(plain.folder.path()) else { return };
    let clock = plain.folder.path().join("clock");
    let set = |seconds: i64| {
        // Renamed, so that nobody reads half a number.
        fs::write(clock.with_extension("new"), seconds.to_string()).expect("written");
        fs::rename(clock.with_extension("new"), &clock).expect("renamed");
    };
    set(0);
    let odd = |command: &mut Command| {
        command.env("LD_PRELOAD", &library).env("SABIR_TEST_CLOCK", &clock);
    };
    let mut command = crate::hub::command(&plain.folder.path().join("odd"), "127.0.0.1:0", &["--open", "--max-rate", "100000"]);
    odd(&mut command);
    let scene = Scene { hub: crate::hub::started(command), ..plain };
    let mut command = scene.shell(&scene.hub.address);
    odd(&mut command);
    let shell = start(command);
    let mut agent = scene.agent.come();
    let mut number = 0;
    let year = 365 * 86_400;
    for seconds in [0, year, -year, 0] {
        set(seconds);
        agent.write(500, 300);
        number += 400;
        // It arrives, whatever the time is.
        wait_for(&scene.hub, SESSION, number, "");
    }
    tell("clock jumps", &agent, peak(shell.child.id()), peak(scene.hub.child.id()));
    drop(agent);
    shell.ends_well("clock jumps");
    let log = scene.assert_same("clock jumps");
    let years: std::collections::BTreeSet<String> = log
        .iter()
        .map(|message| serde_json::from_str::<Value>(message).expect("JSON")["ts"].as_str().expect("a time")[..4].to_owned())
        .collect();
    assert!(years.len() >= 3, "the clock was set: {years:?}");
    let session = scene.hub.get(&format!("/v1/sessions/{SESSION}"), "");
    assert!(session.contains(r#""phase":"success""#), "{session}");
    assert_eq!(scene.hub.stop().1, Some(0));
}
