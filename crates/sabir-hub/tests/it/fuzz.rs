//! Property tests with arbitrary network input: a bounded number of the cases that the fuzz targets run.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::select;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use crate::client::{Running, Setup, hello, numbered_batch};
use crate::script;

/// Number of panics in any thread, since a panic of the hub does not fail a test by itself.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs cases against one hub, which must not panic.
fn cases<S: Strategy>(count: u32, memory: bool, strategy: &S, case: impl Fn(&Runtime, &Running, usize, S::Value)) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Other tests of the same process panic on their own threads.
        if std::thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        before(info);
    }));
    let runtime = Runtime::new().expect("a runtime");
    let hub = runtime.block_on(Setup { memory, ..Setup::default() }.start());
    let ran = AtomicUsize::new(0);
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let done = TestRunner::new(config).run(strategy, |input| {
        case(&runtime, &hub, ran.fetch_add(1, Ordering::Relaxed), input);
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "the hub panicked");
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        assert_eq!(hub.get("/healthz").await.status, 200);
        // All stored sessions can be listed and have results.
        let sessions = hub.get("/v1/sessions?limit=500").await;
        assert_eq!(sessions.status, 200);
        for session in sessions.json()["sessions"].as_array().expect("a list") {
            let id = session["session"].as_str().expect("an id");
            assert_eq!(hub.get(&format!("/v1/sessions/{id}/result")).await.status, 200, "{id}");
        }
        hub.stop().await;
    });
}

#[tokio::test]
async fn script_stores_messages() {
    let hub = Setup { memory: true, ..Setup::default() }.start().await;
    // A hello, batches of 1 and 5 messages, a close, a hello, a batch of 2.
    script::run(hub.address, &*hub.store.messages, "s", &[0, 2, 0, 2, 4, 12, 0, 2, 1]).await;
    assert_eq!(hub.get("/v1/sessions/s").await.json()["last"], 8);
}

#[test]
fn arbitrary_frames_do_not_break_the_hub() {
    cases(96, true, &vec(any::<u8>(), 0..800), |runtime, hub, number, bytes| {
        runtime.block_on(script::run(hub.address, &*hub.store.messages, &format!("s{number}"), &bytes));
    });
}

#[test]
fn arbitrary_frames_do_not_break_the_hub_on_disk() {
    cases(16, false, &vec(any::<u8>(), 0..400), |runtime, hub, number, bytes| {
        runtime.block_on(script::run(hub.address, &*hub.store.messages, &format!("s{number}"), &bytes));
    });
}

#[test]
fn arbitrary_bodies_are_answered_without_server_errors() {
    let path = select(vec!["hello", "batches", "taken"]);
    let body = (any::<bool>(), vec(any::<u8>(), 0..300), vec((any::<u16>(), any::<u8>()), 0..4));
    cases(256, true, &(path, body), |runtime, hub, number, (path, (is_arbitrary, bytes, changes))| {
        let session = format!("s{number}");
        let mut body = match path {
            _ if is_arbitrary => bytes,
            "batches" => numbered_batch(&session, 1, 3),
            "hello" => hello(&session, "a", 1, 0).to_string().into_bytes(),
            _ => br#"{"type":"taken","order":1,"accepted":true,"reason":"because"}"#.to_vec(),
        };
        for (at, byte) in changes {
            let length = body.len().max(1);
            if let Some(changed) = body.get_mut(usize::from(at) % length) {
                *changed = byte;
            }
        }
        let headers =
            [("Sabir-Protocol", "1"), ("Sabir-Writer", "a"), ("Sabir-Epoch", "1"), ("Content-Type", "application/x-sabir-batch")];
        let reply = runtime.block_on(hub.request("POST", &format!("/v1/runners/{session}/{path}"), &headers, &body));
        assert!((200..500).contains(&reply.status), "{path}: {} {}", reply.status, reply.text());
    });
}
