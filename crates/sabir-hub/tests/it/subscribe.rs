//! Subscriptions: stored and then new messages, without gaps or duplicates.

use std::time::Duration;

use sabir_protocol::FromHub;
use serde_json::json;

use crate::client::{Running, event, frame, hello, message, numbered_batch, open_hub};

/// Writes messages in batches of odd sizes.
async fn write(hub: &Running, session: &str, count: u64) {
    let mut runner = hub.runner(session).await;
    runner.hello(session, "a", 1, 0).await;
    let (mut first, mut size) = (1, 1);
    while first <= count {
        let last = (first + size - 1).min(count);
        runner.send(numbered_batch(session, first, last)).await;
        assert_eq!(runner.receive().await, FromHub::Ack { last });
        (first, size) = (last + 1, size % 23 + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_deliver_every_message_once_in_order() {
    const COUNT: u64 = 1_500;
    let hub = open_hub().await;
    let sessions = ["one", "two", "three"];
    for session in sessions {
        hub.post(&format!("/v1/runners/{session}/hello"), &hello(session, "a", 1, 0)).await;
    }
    let watch = async |session: &str, after: u64| {
        let mut events = hub.events(&format!("/v1/sessions/{session}/events?after={after}"), &[]).await;
        for expected in after + 1..=COUNT {
            let (id, message) = events.next().await.expect("an event");
            assert_eq!((id, message["seq"].as_u64()), (expected, Some(expected)));
            assert_eq!(message["payload"]["text"], format!("number {expected}"));
        }
    };
    let watch_by_socket = async |session: &str, after: u64| {
        let path = format!("/v1/sessions/{session}/watch?after={after}");
        let mut socket = hub.socket(&path, &[]).await.expect("a WebSocket");
        for expected in after + 1..=COUNT {
            let text = socket.text().await.expect("a message");
            assert_eq!(text, message(session, expected, &format!("number {expected}")));
        }
    };
    // Late subscriptions start in the middle of the stored messages.
    let late = async |session: &str, from: u64| {
        let mut early = hub.events(&format!("/v1/sessions/{session}/events"), &[]).await;
        while early.next().await.expect("an event").0 < from {}
        drop(early);
        watch(session, from / 2).await;
        watch_by_socket(session, from).await;
    };
    tokio::join!(
        write(&hub, "one", COUNT),
        write(&hub, "two", COUNT),
        write(&hub, "three", COUNT),
        watch("one", 0),
        watch_by_socket("one", 0),
        watch("two", 700),
        watch_by_socket("two", 3),
        late("one", 200),
        late("two", 1_200),
        late("three", 777),
        watch("three", 0),
    );
}

#[tokio::test]
async fn subscription_resumes_and_filters() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    let lines: Vec<String> = (1..=10)
        .map(|seq| match seq % 2 {
            0 => event("s", seq, &json!({"kind":"activity","message":"m"})),
            _ => message("s", seq, "m"),
        })
        .collect();
    runner.send(frame(1, &lines)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 10 });
    let numbers = async |path: &str, headers: &[(&str, &str)], count: usize| {
        let mut events = hub.events(path, headers).await;
        let mut numbers = Vec::new();
        while numbers.len() < count {
            numbers.push(events.next().await.expect("an event").0);
        }
        numbers
    };
    let path = "/v1/sessions/s/events";
    assert_eq!(numbers(path, &[("Last-Event-ID", "8")], 2).await, [9, 10]);
    assert_eq!(
        numbers(&format!("{path}?after=3"), &[("Last-Event-ID", "8")], 2).await,
        [9, 10],
        "Last-Event-ID takes precedence"
    );
    assert_eq!(numbers(&format!("{path}?after=7"), &[], 3).await, [8, 9, 10]);
    assert_eq!(numbers(&format!("{path}?only=event"), &[], 5).await, [2, 4, 6, 8, 10]);
    assert_eq!(numbers(&format!("{path}?only=core&after=4"), &[], 3).await, [5, 7, 9]);
    for (path, headers, status) in [
        ("/v1/sessions/s/events?after=x", &[][..], 400),
        ("/v1/sessions/s/events?only=x", &[], 400),
        (path, &[("Last-Event-ID", "x")], 400),
        ("/v1/sessions/nobody/events", &[], 404),
        ("/v1/sessions/nobody/watch", &[], 404),
        ("/v1/sessions/s/watch", &[], 400),
    ] {
        assert_eq!(hub.request("GET", path, headers, b"").await.status, status, "{path}");
    }
    // A start beyond the end waits for that message.
    let mut events = hub.events(&format!("{path}?after=11"), &[]).await;
    runner.send(frame(11, &[message("s", 11, "m"), message("s", 12, "m")])).await;
    assert_eq!(events.next().await.expect("an event").0, 12);
}

#[tokio::test]
async fn event_stream_escapes_carriage_returns() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    let line = message("s", 1, "m").replace("\"seq\":1", "\"seq\":\r1");
    runner.send(frame(1, &[line])).await;
    runner.receive().await;
    let mut events = hub.events("/v1/sessions/s/events", &[]).await;
    assert_eq!(events.next().await.expect("an event").1["seq"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_subscription_reports_changes() {
    let hub = open_hub().await;
    hub.post("/v1/runners/before/hello", &hello("before", "a", 1, 0)).await;
    let mut events = hub.events("/v1/sessions/events", &[]).await;
    assert_eq!(events.next().await.expect("reset").1, json!({}));
    assert_eq!(events.next().await.expect("a session").1["session"], "before");
    write(&hub, "after", 3).await;
    let changed = async {
        loop {
            let (_, session) = events.next().await.expect("a session");
            if session["session"] == "after" && session["last"] == 3 {
                return;
            }
        }
    };
    changed.await;
}

/// Resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("about this process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") << 10
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn stalled_subscription_uses_no_memory() {
    const MESSAGES: u64 = 400;
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    // The subscriptions start before the first message.
    let mut stalled = Vec::new();
    for number in 0..40 {
        if number % 2 == 0 {
            stalled.push((Some(hub.events("/v1/sessions/s/events", &[]).await), None));
        } else {
            stalled.push((None, Some(hub.socket("/v1/sessions/s/watch", &[]).await.expect("a WebSocket"))));
        }
    }
    let long = "x".repeat(100_000);
    let mut write = async |first: u64, last: u64| {
        for seq in first..=last {
            runner.send(frame(seq, &[message("s", seq, &format!("{seq} {long}"))])).await;
            assert_eq!(runner.receive().await, FromHub::Ack { last: seq });
        }
    };
    // Buffers of sockets and the database are allocated in the first quarter.
    write(1, MESSAGES / 4).await;
    let before = memory();
    write(MESSAGES / 4 + 1, MESSAGES).await;
    let grown = memory().saturating_sub(before);
    // 40 subscriptions times 30 MB of messages.
    assert!(grown < 40 << 20, "{grown} bytes more");
    // A subscription that reads gets all messages.
    let mut events = hub.events("/v1/sessions/s/events", &[]).await;
    for expected in 1..=MESSAGES {
        assert_eq!(events.next().await.expect("an event").0, expected);
    }
    let all_there = tokio::time::timeout(Duration::from_secs(60), async {
        for (events, socket) in &mut stalled {
            if let Some(events) = events {
                assert_eq!(events.next().await.expect("an event").0, 1);
            }
            if let Some(socket) = socket {
                assert!(socket.text().await.expect("a message").contains("\"seq\":1,"));
            }
        }
    });
    all_there.await.expect("all subscriptions are still open");
}
