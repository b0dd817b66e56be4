//! A real shell and a real hub, killed at any moment: the log at the hub is the log of the shell.

use std::path::Path;
use std::process::{Child, Stdio};

use sabir_store::{Home, Kind, Reader};
use serde_json::Value;

use crate::hub::{Hub, start_at};
use crate::sabir;

/// How often; the variable is for those who want to see it often.
fn rounds() -> u64 {
    std::env::var("SABIR_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6)
}

/// Numbers that are the same each time, and no rhythm.
fn chance(round: u64, of: u64) -> u64 {
    (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % of
}

fn shell(home: &Path, address: &str, session: &str) -> Child {
    let mut command = sabir();
    command.args(["shell", "--hub", &format!("ws://{address}"), "--session", session, "--flush", "60s", "--", "localexec"]);
    command.arg("for i in $(seq 1 300); do echo line $i; sleep 0.002; done");
    command.env("SABIR_HOME", home).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// The number of the last message that the hub has.
fn last(hub: &Hub, session: &str) -> u64 {
    let reply = hub.get(&format!("/v1/sessions/{session}"), "");
    let body = reply.split("\r\n\r\n").nth(1).unwrap_or_default();
    serde_json::from_str::<Value>(body).ok().and_then(|session| session["last"].as_u64()).unwrap_or(0)
}

/// The messages as the shell has them on its disk.
fn written(home: &Path, session: &str) -> Vec<String> {
    let mut reader = Reader::of(Home::at(home).outbox(session).expect("a folder")).expect("a log");
    let mut messages = Vec::new();
    while let Some(record) = reader.next().expect("readable") {
        if record.kind == Kind::Message {
            messages.push(String::from_utf8(record.payload.to_vec()).expect("UTF-8").trim_end().to_owned());
        }
    }
    messages
}

/// The messages as the hub gives them out.
fn delivered(hub: &Hub, session: &str, after: usize) -> Vec<String> {
    let reply = hub.get(&format!("/v1/sessions/{session}/log?after={after}"), "");
    // Pieces of a chunked answer have lines of their own, which are no JSON objects.
    reply.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect()
}

#[test]
fn whoever_is_killed_the_hub_has_what_the_shell_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let (home, data) = (folder.path().join("shell"), folder.path().join("hub"));
    let mut hub = start_at(&data, "127.0.0.1:0", &["--open"]);
    let address = hub.address.clone();
    for round in 0..rounds() {
        let session = format!("s-{round}");
        let mut running = shell(&home, &address, &session);
        let aim = 1 + chance(round, 250);
        while last(&hub, &session) < aim && running.try_wait().expect("a state").is_none() {}
        let (kill_hub, kill_shell) = (round % 3 != 1, round % 3 != 0);
        if kill_hub {
            hub.child.kill().expect("killed");
            hub.child.wait().expect("it ends");
        }
        if kill_shell {
            running.kill().expect("killed");
            running.wait().expect("it ends");
        }
        if kill_hub {
            hub = start_at(&data, &address, &["--open"]);
        }
        if kill_shell {
            running = shell(&home, &address, &session);
        }
        running.wait().expect("it ends");
        let (there, here) = (delivered(&hub, &session, 0), written(&home, &session));
        assert_eq!(there, here, "round {round}");
        assert!(here.iter().any(|message| message.contains(r#""type":"result""#)), "round {round}: {}", here.len());
    }
    assert_eq!(hub.stop().1, Some(0));
}
