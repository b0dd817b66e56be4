//! Runner protocol over a WebSocket.

use std::time::Duration;

use sabir_hub::Limits;
use sabir_protocol::{FromHub, SUBPROTOCOL};
use serde_json::{Value, json};

use crate::client::{Setup, file, frame, hello, message, numbered_batch, open_hub};
use crate::store::id;

fn welcome(frame: FromHub) -> (u32, u64) {
    let FromHub::Welcome(welcome) = frame else { panic!("{frame:?}") };
    (welcome.epoch, welcome.last)
}

#[tokio::test]
async fn acknowledged_messages_are_in_the_log() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    let FromHub::Welcome(welcome) = runner.hello("s", "a", 1, 0).await else { panic!("a welcome") };
    assert_eq!((welcome.epoch, welcome.last, welcome.orders.len()), (1, 0, 0));
    assert!(welcome.max_batch_bytes >= 1 << 20 && welcome.heartbeat_seconds > 0);
    // Several batches in flight.
    for first in [1, 11, 21, 31, 41, 51] {
        runner.send(numbered_batch("s", first, first + 9)).await;
    }
    for last in [10, 20, 30, 40, 50, 60] {
        assert_eq!(runner.receive().await, FromHub::Ack { last });
    }
    let log = hub.get("/v1/sessions/s/log").await;
    let expected: String = (1..=60).map(|seq| message("s", seq, &format!("number {seq}")) + "\n").collect();
    assert_eq!((log.status, log.text()), (200, expected));
}

#[tokio::test]
async fn gaps_are_reported_and_repeated_messages_compared() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    runner.send(numbered_batch("s", 3, 4)).await;
    assert_eq!(runner.receive().await, FromHub::Gap { expected: 1 });
    runner.send(numbered_batch("s", 1, 4)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 4 });
    runner.send(numbered_batch("s", 2, 6)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 6 });
    runner.send(frame(6, &[message("s", 6, "another")])).await;
    assert_eq!(runner.end().await, ("conflict".to_owned(), 4410));
    assert_eq!(hub.get("/v1/sessions/s").await.json()["last"], 6);
}

#[tokio::test]
async fn welcome_has_the_last_stored_message() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    runner.send(numbered_batch("s", 1, 5)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 5 });
    drop(runner);
    let mut runner = hub.runner("s").await;
    assert_eq!(welcome(runner.hello("s", "a", 1, 9).await), (1, 5));
}

#[tokio::test]
async fn newer_connection_replaces_and_higher_epoch_fences() {
    let hub = open_hub().await;
    let mut first = hub.runner("s").await;
    first.hello("s", "a", 1, 0).await;
    let mut second = hub.runner("s").await;
    second.hello("s", "a", 1, 0).await;
    assert_eq!(first.end().await, (String::new(), 1000), "closed without an error");
    let mut third = hub.runner("s").await;
    assert_eq!(welcome(third.hello("s", "a", 2, 0).await), (2, 0));
    assert_eq!(second.end().await, ("fenced".to_owned(), 4409));
    let mut fourth = hub.runner("s").await;
    fourth.send_json(&hello("s", "b", 3, 0)).await;
    assert_eq!(fourth.end().await, ("conflict".to_owned(), 4410));
    third.send(numbered_batch("s", 1, 1)).await;
    assert_eq!(third.receive().await, FromHub::Ack { last: 1 });
}

#[tokio::test]
async fn epoch_zero_starts_the_next_epoch_and_fences_the_previous_writer() {
    let hub = open_hub().await;
    let mut old = hub.runner("s").await;
    old.hello("s", "a", 4, 0).await;
    old.send(numbered_batch("s", 1, 3)).await;
    assert_eq!(old.receive().await, FromHub::Ack { last: 3 });
    let mut new = hub.runner("s").await;
    assert_eq!(welcome(new.hello("s", "b", 0, 0).await), (5, 3));
    assert_eq!(old.end().await, ("fenced".to_owned(), 4409));
    // The connection continues with the new epoch.
    assert_eq!(welcome(new.hello("s", "b", 5, 3).await), (5, 3));
    new.send(numbered_batch("s", 4, 4)).await;
    assert_eq!(new.receive().await, FromHub::Ack { last: 4 });
    let mut lost = hub.runner("s").await;
    lost.send_json(&hello("s", "b", 5, 3)).await;
    assert_eq!(lost.end().await, ("conflict".to_owned(), 4410), "it has lost synced messages");
}

#[tokio::test]
async fn malformed_frames_end_the_connection_and_store_nothing() {
    let hub = open_hub().await;
    let first_frames =
        [json!({"type":"heartbeat"}), json!({"type":"hello"}), hello("other", "a", 1, 0), hello("s", "", 1, 0), json!(7)];
    for first in first_frames {
        let mut runner = hub.runner("s").await;
        runner.send_json(&first).await;
        assert_eq!(runner.end().await, ("malformed".to_owned(), 4400), "{first}");
    }
    let mut runner = hub.runner("s").await;
    runner.send(numbered_batch("s", 1, 1)).await;
    assert_eq!(runner.end().await, ("malformed".to_owned(), 4400), "a batch before the hello");
    let with = |field: &str, value: Value| {
        let mut message: Value = serde_json::from_str(&message("s", 1, "x")).expect("JSON");
        message[field] = value;
        frame(1, &[message.to_string()])
    };
    let mut not_text = frame(1, &[message("s", 1, "#")]);
    let at = not_text.iter().position(|byte| *byte == b'#').expect("unescaped");
    not_text[at] = 0xff;
    let bad = [
        b"nonsense".to_vec(),
        frame(1, &["{}".to_owned()]),
        frame(1, &[message("s", 2, "another number")]),
        frame(1, &[message("t", 1, "another session")]),
        frame(1, &[message("s", 1, "good"), message("s", 3, "then bad")]),
        with("ts", json!("yesterday")),
        with("type", json!("")),
        with("payload", json!([])),
        not_text,
        frame(1, &[message("s", 1, &"x".repeat(1 << 20))]),
    ];
    for (index, batch) in bad.into_iter().enumerate() {
        let mut runner = hub.runner("s").await;
        runner.hello("s", "a", 1, 0).await;
        runner.send(batch).await;
        assert_eq!(runner.end().await, ("malformed".to_owned(), 4400), "{index}");
    }
    assert_eq!(hub.get("/v1/sessions/s").await.json()["last"], 0);
}

#[tokio::test]
async fn oversized_batches_are_refused_before_decompression() {
    let hub = open_hub().await;
    let long = |count: u64| (1..=count).map(|seq| message("s", seq, &" ".repeat(900_000))).collect::<Vec<_>>();
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    // Small compressed, large uncompressed.
    let bomb = frame(1, &long(10));
    assert!(bomb.len() < 100_000);
    runner.send(bomb).await;
    assert_eq!(runner.end().await, ("too_large".to_owned(), 4413));
    // Large compressed.
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    runner.send([b"SBB1", &vec![0; 3 << 20][..]].concat()).await;
    assert_eq!(runner.end().await, ("too_large".to_owned(), 4413));
    // So large that the hub does not read all of it.
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    let sent = runner.try_send(vec![b'S'; 30 << 20]).await;
    assert!(!sent || matches!(runner.end().await.1, 0 | 4413));
    // A header with a size that is too small.
    let mut wrong = frame(1, &long(2));
    wrong[20..24].copy_from_slice(&100_u32.to_le_bytes());
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    runner.send(wrong).await;
    assert_eq!(runner.end().await, ("malformed".to_owned(), 4400));
}

#[tokio::test]
async fn unsupported_protocol_version_is_refused() {
    let hub = open_hub().await;
    let offers = [None, Some("sabir.shell.2"), Some("chat")];
    for offer in offers {
        let headers: Vec<_> = offer.map(|offer| ("Sec-WebSocket-Protocol", offer)).into_iter().collect();
        assert_eq!(hub.socket("/v1/runners/s", &headers).await.err(), Some(426), "{offer:?}");
    }
    let both = format!("sabir.shell.2, {SUBPROTOCOL}");
    assert!(hub.socket("/v1/runners/s", &[("Sec-WebSocket-Protocol", &both)]).await.is_ok());
    let headers =
        [("Connection", "upgrade, close"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "x")];
    let reply = hub.request("GET", "/v1/runners/s", &headers, b"").await;
    assert_eq!((reply.status, reply.json()["versions"].clone()), (426, json!([1])));
}

#[tokio::test]
async fn heartbeats_are_sent_and_silence_ends_the_connection() {
    let limits =
        Limits { heartbeat: Duration::from_millis(100), request_timeout: Duration::from_millis(300), ..Limits::default() };
    let hub = Setup { limits, ..Setup::default() }.start().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    assert_eq!(runner.receive().await, FromHub::Heartbeat {});
    runner.send_json(&json!({"type":"heartbeat"})).await;
    runner.send_json(&json!({"type":"something new"})).await;
    assert_eq!(runner.end().await, (String::new(), 1000), "nothing more was received");
    let mut silent = hub.runner("s").await;
    assert_eq!(silent.end().await, ("unavailable".to_owned(), 4503), "no hello was received");
}

#[tokio::test]
async fn commands_are_delivered_until_they_are_answered() {
    let hub = open_hub().await;
    let path = "/v1/sessions/s/commands";
    assert_eq!(hub.post(path, &json!({"kind":"cancel"})).await.code(), "not_found");
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    assert_eq!(hub.post(path, &json!({"kind":"prompt","text":"go on"})).await.status, 201);
    let FromHub::Order(order) = runner.receive().await else { panic!("an order") };
    assert_eq!((order.order, order.text.as_deref()), (1, Some("go on")));
    // Without an answer it is sent again, together with newer ones.
    drop(runner);
    assert_eq!(hub.post(path, &json!({"kind":"permission","requestId":"q","decision":"deny"})).await.json()["order"], 2);
    let mut runner = hub.runner("s").await;
    let FromHub::Welcome(welcome) = runner.hello("s", "a", 1, 0).await else { panic!("a welcome") };
    assert_eq!(welcome.orders.iter().map(|order| order.order).collect::<Vec<_>>(), [1, 2]);
    runner.send_json(&json!({"type":"taken","order":1,"accepted":true})).await;
    runner.send_json(&json!({"type":"taken","order":2,"accepted":false,"reason":"no such question"})).await;
    runner.send_json(&json!({"type":"taken","order":99,"accepted":true})).await;
    assert_eq!(hub.post(path, &json!({"kind":"cancel","reason":"enough"})).await.json()["order"], 3);
    let FromHub::Order(order) = runner.receive().await else { panic!("an order") };
    assert_eq!((order.order, order.reason.as_deref()), (3, Some("enough")));
    let commands = loop {
        let commands = hub.get(path).await.json();
        if commands["orders"][1]["taken"].is_object() {
            break commands;
        }
    };
    assert_eq!(commands["orders"][0]["taken"]["accepted"], true);
    assert_eq!(commands["orders"][1]["taken"]["reason"], "no such question");
    assert_eq!(commands["orders"][2]["taken"], Value::Null);
    // Answers are stored before they are audited.
    let audit = loop {
        let audit = file(hub.folder.path(), "audit.jsonl");
        if audit.matches("\"taken\"").count() >= 2 && audit.ends_with('\n') {
            break audit;
        }
        tokio::task::yield_now().await;
    };
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let what = |what: &str| lines.iter().filter(|line| line["what"] == what).count();
    assert_eq!((what("prompt"), what("permission"), what("cancel"), what("taken")), (1, 1, 1, 2));
    assert!(lines.iter().all(|line| line["at"].is_string() && line["who"].is_string() && line["session"] == "s"));
    assert!(!audit.contains("go on"), "prompts are not audited");
}

#[tokio::test]
async fn full_hub_is_unavailable_until_it_has_space() {
    let hub = open_hub().await;
    hub.set_limit(Some(1 << 20)).await;
    let mut last = 0;
    let long = |first: u64| (first..first + 4).map(|seq| message("s", seq, &"x".repeat(50_000))).collect::<Vec<_>>();
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    loop {
        runner.send(frame(last + 1, &long(last + 1))).await;
        match serde_json::from_str::<Value>(&runner.text().await.expect("a frame")).expect("JSON") {
            ack if ack["type"] == "ack" => last = ack["last"].as_u64().expect("a number"),
            error => {
                assert_eq!(error["code"], "unavailable");
                break;
            }
        }
        assert!(last < 1_000, "the limit has no effect");
    }
    assert_eq!(runner.end().await.1, 4503);
    hub.set_limit(None).await;
    let mut runner = hub.runner("s").await;
    assert_eq!(welcome(runner.hello("s", "a", 1, last + 4).await), (1, last));
    runner.send(frame(last + 1, &long(last + 1))).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: last + 4 });
    assert!(hub.store.sessions.session(&id("s")).await.expect("asked").is_some());
}

#[tokio::test]
async fn internal_errors_do_not_reveal_details() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    runner.send(numbered_batch("s", 1, 3)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 3 });
    // Another process changes the database.
    let database = rusqlite::Connection::open(hub.folder.path().join("hub.sqlite")).expect("a database");
    let rename = |from: &str, to: &str| {
        database.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).expect("renamed");
    };
    rename("message", "hidden");
    runner.send(numbered_batch("s", 4, 6)).await;
    assert_eq!(runner.end().await, ("internal".to_owned(), 4500));
    let headers =
        [("Sabir-Protocol", "1"), ("Sabir-Writer", "a"), ("Sabir-Epoch", "1"), ("Content-Type", "application/x-sabir-batch")];
    let refused = hub.request("POST", "/v1/runners/s/batches", &headers, &numbered_batch("s", 4, 6)).await;
    assert_eq!((refused.status, refused.code().as_str()), (500, "internal"));
    assert!(!refused.text().contains("table"), "{}", refused.text());
    // The runner tries again later, and nothing is missing.
    rename("hidden", "message");
    let mut runner = hub.runner("s").await;
    assert_eq!(welcome(runner.hello("s", "a", 1, 6).await), (1, 3));
    runner.send(numbered_batch("s", 4, 6)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 6 });
}

#[tokio::test]
async fn stopping_hub_closes_connections_with_a_reason() {
    let mut hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    let mut events = hub.events("/v1/sessions/s/events", &[]).await;
    assert_eq!(events.status().await, 200);
    hub.begin_to_stop();
    assert_eq!(runner.end().await, ("unavailable".to_owned(), 4503));
    assert_eq!(events.next().await, None, "the stream ends");
}
