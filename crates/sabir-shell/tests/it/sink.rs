//! Delivery to folders and buckets: lost responses, fencing and restarts.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt as _;
use object_store::aws::AmazonS3Builder;
use sabir_protocol::{Code, SessionId};
use sabir_shell::outbox::{Outbox, Position};
use sabir_shell::sink::StorageSink;
use sabir_shell::uploader::DeliveryOutcome;
use sabir_store::Home;
use sabir_test_support::python::S3;
use tokio::sync::watch;

fn session() -> SessionId {
    "s 1".parse().expect("a session")
}

fn message(seq: u64) -> Vec<u8> {
    let text = "z".repeat(usize::try_from(seq * 13 % 500).expect("small"));
    format!("{{\"sessionId\":\"s 1\",\"ts\":\"2026-01-02T03:04:05Z\",\"type\":\"log\",\"seq\":{seq},\"payload\":{{\"text\":\"{text}\"}}}}\n")
        .into_bytes()
}

fn write(outbox: &Outbox, count: u64) {
    for _ in 0..count {
        outbox.append(&message(outbox.last() + 1));
    }
}

fn open(home: &Path) -> Arc<Outbox> {
    let home = Home::at(home);
    let known = Outbox::open(&home, &session()).expect("readable");
    Arc::new(known.unwrap_or_else(|| Outbox::create(&home, &session(), Outbox::new_writer(), Position::FIRST).expect("created")))
}

/// Delivers the outbox to the sink.
async fn deliver(sink: &StorageSink, outbox: &Arc<Outbox>) -> DeliveryOutcome {
    outbox.sync().expect("synced");
    let (_finish, finished) = watch::channel(Some(Instant::now() + Duration::from_secs(60)));
    sink.clone().run(Arc::clone(outbox), finished).await
}

/// Content of all parts, and their number.
fn parts(folder: &Path) -> (Vec<u8>, usize) {
    let folder = folder.join("sessions/s%201");
    let names = std::iter::once("messages.json".to_owned()).chain((1..).map(|number| format!("messages-{number:04}.json")));
    let parts: Vec<Vec<u8>> = names.map_while(|name| std::fs::read(folder.join(name)).ok()).collect();
    (parts.concat(), parts.len())
}

fn messages(range: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    range.flat_map(message).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

#[test]
fn folder_has_compacted_parts_across_restarts() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (home, target) = (folder.path().join("home"), folder.path().join("kept"));
        let sink = StorageSink::folder(&target, &session()).expect("a sink").with_part_bytes(100_000);
        let mut last = 0;
        for round in 1..=4 {
            let outbox = open(&home);
            write(&outbox, 300);
            assert_eq!(deliver(&sink, &outbox).await, DeliveryOutcome::Delivered, "round {round}");
            last += 300;
            let (bytes, count) = parts(&target);
            assert!(bytes == messages(1..=last), "round {round}: {} bytes in {count} parts", bytes.len());
        }
        let (bytes, count) = parts(&target);
        assert!(count > 3 && count == bytes.len().div_ceil(100_000), "{count}");
        // A new sink receives the whole log.
        let other = folder.path().join("other");
        let sink = StorageSink::folder(&other, &session()).expect("a sink");
        assert_eq!(deliver(&sink, &open(&home)).await, DeliveryOutcome::Delivered);
        assert!(parts(&other) == (messages(1..=last), 1));
        assert_eq!(sink.start_position().await.expect("readable"), Some(Position { epoch: 6, after: last }));
    });
}

#[cfg(unix)]
#[test]
fn folder_is_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    fn modes(folder: &std::path::Path, all: &mut Vec<(std::path::PathBuf, u32)>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            all.push((path.clone(), path.metadata().expect("it exists").permissions().mode() & 0o777));
            if path.is_dir() {
                modes(&path, all);
            }
        }
    }
    runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let (home, target) = (folder.path().join("home"), folder.path().join("kept"));
        let own = target.join("sessions/s%201");
        for round in 0..2 {
            let sink = StorageSink::folder(&target, &session()).expect("a sink");
            let outbox = open(&home);
            write(&outbox, 300);
            assert_eq!(deliver(&sink, &outbox).await, DeliveryOutcome::Delivered);
            let mut all = Vec::new();
            modes(&target, &mut all);
            assert!(all.len() > 5, "{all:?}");
            for (path, mode) in all {
                assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "round {round}: {}", path.display());
            }
            // Permissions that an earlier version set.
            for (path, mode) in [(own.clone(), 0o755), (own.join("log"), 0o755), (own.join("messages.json"), 0o644)] {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
            }
        }
    });
}

#[test]
fn later_writer_fences_earlier() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("kept");
        let sink = StorageSink::folder(&target, &session()).expect("a sink");
        let first = open(&folder.path().join("first"));
        write(&first, 10);
        assert_eq!(deliver(&sink, &first).await, DeliveryOutcome::Delivered);
        // Another machine continues after the stored messages.
        let position = sink.start_position().await.expect("readable").expect("something is there");
        assert_eq!(position, Position { epoch: 2, after: 10 });
        let second = Outbox::create(&Home::at(folder.path().join("second")), &session(), Outbox::new_writer(), position);
        let second = Arc::new(second.expect("created"));
        write(&second, 5);
        assert_eq!(deliver(&sink, &second).await, DeliveryOutcome::Delivered);
        write(&first, 20);
        let outcome = deliver(&sink, &first).await;
        assert!(matches!(&outcome, DeliveryOutcome::Refused(refusal) if refusal.code == Code::Fenced), "{outcome:?}");
        write(&second, 5);
        assert_eq!(deliver(&sink, &second).await, DeliveryOutcome::Delivered);
        assert!(parts(&target).0 == messages(1..=20));
    });
}

#[test]
fn claim_and_segments_survive_lost_responses() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("kept");
        let sink = StorageSink::folder(&target, &session()).expect("a sink");
        let outbox = open(&folder.path().join("home"));
        write(&outbox, 10);
        for _ in 0..3 {
            // The claim and the segment are stored, but their responses were lost.
            assert_eq!(deliver(&sink, &outbox).await, DeliveryOutcome::Delivered);
        }
        write(&outbox, 10);
        assert_eq!(deliver(&sink, &outbox).await, DeliveryOutcome::Delivered);
        assert!(parts(&target).0 == messages(1..=20));
        let segments = std::fs::read_dir(target.join("sessions/s%201/log")).expect("a folder").count();
        assert_eq!(segments, 2);
    });
}

#[test]
fn unsent_messages_are_counted() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = StorageSink::folder(&folder.path().join("kept"), &session()).expect("a sink");
        let outbox = open(&folder.path().join("home"));
        write(&outbox, 10);
        // A file replaces the folder.
        std::fs::remove_dir_all(folder.path().join("kept")).expect("removed");
        std::fs::write(folder.path().join("kept"), "x").expect("written");
        let (_finish, finished) = watch::channel(Some(Instant::now()));
        assert_eq!(sink.run(Arc::clone(&outbox), finished).await, DeliveryOutcome::Unsent(10));
    });
}

#[test]
fn missing_compaction_is_reported() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("kept");
        let outbox = open(&folder.path().join("home"));
        write(&outbox, 10);
        // No file can have this name.
        std::fs::create_dir_all(target.join("sessions/s%201/messages.json/x")).expect("made");
        // Increase the timeout until the segment is stored, however slow the disk is.
        let mut outcome = DeliveryOutcome::Unsent(10);
        for doubled in 0..9 {
            let (_finish, finished) = watch::channel(Some(Instant::now() + Duration::from_millis(200 << doubled)));
            let sink = StorageSink::folder(&target, &session()).expect("a sink");
            outcome = sink.run(Arc::clone(&outbox), finished).await;
            if outcome != DeliveryOutcome::Unsent(10) {
                break;
            }
        }
        assert_eq!(outcome, DeliveryOutcome::Unsent(0));
    });
}

/// Runs in a process of its own, because AWS variables are process-wide.
#[test]
fn bucket_has_compacted_log() {
    const INSIDE: &str = "SABIR_TEST_BUCKET";
    if std::env::var_os(INSIDE).is_some() {
        return in_a_bucket();
    }
    let Some(s3) = S3::start(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    s3.ask("s3.create_bucket(Bucket='logs')");
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "sink::bucket_has_compacted_log", "--nocapture"])
        .env(INSIDE, "yes")
        .env("AWS_ENDPOINT_URL", format!("http://{}", s3.address))
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1")
        .output()
        .expect("it ends");
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

fn in_a_bucket() {
    runtime().block_on(async {
        let sink = StorageSink::bucket("logs", "team/a", &session()).expect("a sink").with_part_bytes(50_000);
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("home");
        let mut last = 0;
        for _ in 0..3 {
            let outbox = open(&home);
            write(&outbox, 200);
            assert_eq!(deliver(&sink, &outbox).await, DeliveryOutcome::Delivered);
            last += 200;
        }
        assert_eq!(sink.start_position().await.expect("readable"), Some(Position { epoch: 4, after: last }));
        let store = AmazonS3Builder::from_env().with_allow_http(true).with_bucket_name("logs").build().expect("a store");
        let mut bytes = Vec::new();
        for number in 0.. {
            let name = if number == 0 { "messages.json".to_owned() } else { format!("messages-{number:04}.json") };
            let path = object_store::path::Path::parse(format!("team/a/sessions/s%201/{name}")).expect("a name");
            let Ok(part) = store.get(&path).await else { break };
            bytes.extend_from_slice(&part.bytes().await.expect("bytes"));
        }
        assert!(bytes == messages(1..=last), "{} bytes", bytes.len());
        // Another machine fences this one.
        let first = open(&home);
        let position = sink.start_position().await.expect("readable").expect("something is there");
        let second = Outbox::create(
            &Home::at(folder.path().join("second")),
            &session(),
            Outbox::new_writer(),
            Position { epoch: position.epoch + 1, ..position },
        );
        let second = Arc::new(second.expect("created"));
        write(&second, 5);
        assert_eq!(deliver(&sink, &second).await, DeliveryOutcome::Delivered);
        write(&first, 5);
        assert!(matches!(deliver(&sink, &first).await, DeliveryOutcome::Refused(refusal) if refusal.code == Code::Fenced));
    });
}
