//! A real shell and a real hub, killed at any moment: the log at the hub, and the one in a bucket or a folder, is the
//! log of the shell.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::faults::bucket::Bucket;
use crate::faults::{assert_numbered, assert_same, kept, wait_for, written};
use crate::hub::start_at;
use crate::sabir;

/// How often; the variable is for those who want to see it often.
fn rounds() -> u64 {
    std::env::var("SABIR_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6)
}

/// Numbers that are the same each time, and no rhythm.
fn chance(round: u64, of: u64) -> u64 {
    (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % of
}

fn shell(folder: &Path, address: &str, bucket: Option<&Bucket>, session: &str) -> Child {
    let mut command = sabir();
    command.args(["shell", "--hub", &format!("ws://{address}"), "--session", session, "--flush", "60s"]);
    if bucket.is_none() {
        command.arg("--log-folder").arg(folder.join("kept"));
    }
    command.args(["--", "localexec"]);
    command.arg("for i in $(seq 1 300); do echo line $i; sleep 0.002; done");
    if let Some(bucket) = bucket {
        bucket.tell(&mut command);
    }
    command.env("SABIR_HOME", folder.join("shell")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

#[test]
fn whoever_is_killed_the_hub_has_what_the_shell_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("hub");
    let mut hub = start_at(&data, "127.0.0.1:0", &["--open"]);
    let address = hub.address.clone();
    let s3 = Bucket::new();
    for round in 0..rounds() {
        // Each way of killing with a bucket, then with a folder.
        let bucket = s3.as_ref().filter(|_| round / 3 % 2 == 0);
        let session = format!("s-{round}");
        let mut running = shell(folder.path(), &address, bucket, &session);
        // It is there sooner or later: there are more messages than that.
        wait_for(&hub, &session, 1 + chance(round, 250), "");
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
            running = shell(folder.path(), &address, bucket, &session);
        }
        running.wait().expect("it ends");
        let here = written(&folder.path().join("shell"), &session);
        assert_numbered(&here);
        assert_same(&kept(&hub, &session, ""), &here, &format!("round {round}"));
        assert!(here.iter().any(|message| message.contains(r#""type":"result""#)), "round {round}: {}", here.len());
        let sink = match bucket {
            Some(bucket) => bucket.messages(&session),
            None => {
                let part = folder.path().join("kept/sessions").join(&session).join("messages.json");
                std::fs::read_to_string(part).expect("a log").lines().map(str::to_owned).collect()
            }
        };
        assert_same(&sink, &here, &format!("round {round}, in the bucket or folder"));
    }
    assert_eq!(hub.stop().1, Some(0));
}
