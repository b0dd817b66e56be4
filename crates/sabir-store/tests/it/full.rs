//! A disk that takes no more. The limit on the size of files stands for it: every system has one, and nothing needs to be
//! mounted.

use std::process::{Command, Stdio};

use sabir_store::{Damage, End, Home, Journal, Kind, Why};

use crate::{RUN, assert_dense, home, read};

const WRITER: &str = "SABIR_TEST_FULL";

/// Writes until the journal fails, and checks that it tells, and that it does not end or block its caller.
fn write_until_full(home: &Home) {
    let journal = Journal::open(home, RUN).expect("opened");
    let mut count = 0_u64;
    while journal.append(Kind::Event, 0, |out| out.extend_from_slice(&[b'x'; 777])).is_some() {
        count += 1;
        assert!(count < 1_000_000, "the limit holds");
    }
    let trouble = journal.trouble().expect("trouble");
    assert_eq!(trouble.why, Why::Full, "{trouble}");
    assert!(trouble.hint.contains("sabir prune"), "{}", trouble.hint);
    assert_eq!(journal.sync().expect_err("nothing is synced any more"), trouble);
    for _ in 0..100_000 {
        assert_eq!(journal.append(Kind::Event, 0, |out| out.push(b'x')), None);
    }
    assert_eq!(journal.finish().expect_err("it is told again"), trouble);
}

#[test]
fn a_full_disk_ends_the_journal_and_not_the_run() {
    if let Some(home) = std::env::var_os(WRITER) {
        return write_until_full(&Home::at(home));
    }
    let (_folder, home) = home();
    let output = Command::new("/bin/sh")
        // 512 or 1,024 bytes each, as the shell likes it. The signal would end the process.
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 200; exec \"$0\" --exact full::a_full_disk_ends_the_journal_and_not_the_run --nocapture",
        ])
        .arg(std::env::current_exe().expect("this program"))
        .env(WRITER, home.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (records, damage) = read(&home);
    assert_eq!(damage, Damage::default(), "what did not fit was cut off");
    assert_dense(&records);
    assert!(records.len() > 100, "{}", records.len());
    let (end, events) = records.split_last().expect("records");
    assert!(events.iter().all(|record| record.payload == [b'x'; 777]));
    let end: End = serde_json::from_slice(&end.payload).expect("the journal says so itself");
    assert!(!end.complete && end.why.is_some());
}
