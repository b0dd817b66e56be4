//! The WebSocket of shells, as the protocol has it.

use std::time::Duration;

use sabir_hub::Limits;
use sabir_protocol::{FromHub, SUBPROTOCOL};
use serde_json::{Value, json};

use crate::client::{Setup, file, frame, hello, message, numbered, open_hub};
use crate::store::id;

fn welcome(frame: FromHub) -> (u32, u64) {
    let FromHub::Welcome(welcome) = frame else { panic!("{frame:?}") };
    (welcome.epoch, welcome.last)
}

#[tokio::test]
async fn what_is_acknowledged_is_in_the_log() {
    let hub = open_hub().await;
    let mut shell = hub.shell("s").await;
    let FromHub::Welcome(welcome) = shell.hello("s", "a", 1, 0).await else { panic!("a welcome") };
    assert_eq!((welcome.epoch, welcome.last, welcome.orders.len()), (1, 0, 0));
    assert!(welcome.max_batch_bytes >= 1 << 20 && welcome.heartbeat_seconds > 0);
    // Several on the way, none waited for.
    for first in [1, 11, 21, 31, 41, 51] {
        shell.send(numbered("s", first, first + 9)).await;
    }
    for last in [10, 20, 30, 40, 50, 60] {
        assert_eq!(shell.hear().await, FromHub::Ack { last });
    }
    let log = hub.get("/v1/sessions/s/log").await;
    let expected: String = (1..=60).map(|seq| message("s", seq, &format!("number {seq}")) + "\n").collect();
    assert_eq!((log.status, log.text()), (200, expected));
}

#[tokio::test]
async fn a_gap_is_told_and_what_comes_again_is_compared() {
    let hub = open_hub().await;
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    shell.send(numbered("s", 3, 4)).await;
    assert_eq!(shell.hear().await, FromHub::Gap { expected: 1 });
    shell.send(numbered("s", 1, 4)).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: 4 });
    shell.send(numbered("s", 2, 6)).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: 6 });
    shell.send(frame(6, &[message("s", 6, "another")])).await;
    assert_eq!(shell.end().await, ("conflict".to_owned(), 4410));
    assert_eq!(hub.get("/v1/sessions/s").await.json()["last"], 6);
}

#[tokio::test]
async fn a_shell_goes_on_where_the_hub_is() {
    let hub = open_hub().await;
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    shell.send(numbered("s", 1, 5)).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: 5 });
    drop(shell);
    let mut shell = hub.shell("s").await;
    assert_eq!(welcome(shell.hello("s", "a", 1, 9).await), (1, 5));
}

#[tokio::test]
async fn a_second_connection_replaces_the_first_and_a_higher_epoch_fences_it() {
    let hub = open_hub().await;
    let mut first = hub.shell("s").await;
    first.hello("s", "a", 1, 0).await;
    let mut second = hub.shell("s").await;
    second.hello("s", "a", 1, 0).await;
    assert_eq!(first.end().await, (String::new(), 1000), "closed without an error");
    let mut third = hub.shell("s").await;
    assert_eq!(welcome(third.hello("s", "a", 2, 0).await), (2, 0));
    assert_eq!(second.end().await, ("fenced".to_owned(), 4409));
    let mut fourth = hub.shell("s").await;
    fourth.say(&hello("s", "b", 3, 0)).await;
    assert_eq!(fourth.end().await, ("conflict".to_owned(), 4410));
    third.send(numbered("s", 1, 1)).await;
    assert_eq!(third.hear().await, FromHub::Ack { last: 1 });
}

#[tokio::test]
async fn who_asks_for_a_place_gets_the_next_epoch_and_fences_the_writer_before() {
    let hub = open_hub().await;
    let mut old = hub.shell("s").await;
    old.hello("s", "a", 4, 0).await;
    old.send(numbered("s", 1, 3)).await;
    assert_eq!(old.hear().await, FromHub::Ack { last: 3 });
    let mut new = hub.shell("s").await;
    assert_eq!(welcome(new.hello("s", "b", 0, 0).await), (5, 3));
    assert_eq!(old.end().await, ("fenced".to_owned(), 4409));
    // The same connection goes on with the log that was made.
    assert_eq!(welcome(new.hello("s", "b", 5, 3).await), (5, 3));
    new.send(numbered("s", 4, 4)).await;
    assert_eq!(new.hear().await, FromHub::Ack { last: 4 });
    let mut lost = hub.shell("s").await;
    lost.say(&hello("s", "b", 5, 3)).await;
    assert_eq!(lost.end().await, ("conflict".to_owned(), 4410), "it lost what it had synced");
}

#[tokio::test]
async fn what_is_malformed_ends_the_connection_and_nothing_is_kept() {
    let hub = open_hub().await;
    let first_frames =
        [json!({"type":"heartbeat"}), json!({"type":"hello"}), hello("other", "a", 1, 0), hello("s", "", 1, 0), json!(7)];
    for first in first_frames {
        let mut shell = hub.shell("s").await;
        shell.say(&first).await;
        assert_eq!(shell.end().await, ("malformed".to_owned(), 4400), "{first}");
    }
    let mut shell = hub.shell("s").await;
    shell.send(numbered("s", 1, 1)).await;
    assert_eq!(shell.end().await, ("malformed".to_owned(), 4400), "a batch before the hello");
    let with = |field: &str, value: Value| {
        let mut message: Value = serde_json::from_str(&message("s", 1, "x")).expect("JSON");
        message[field] = value;
        frame(1, &[message.to_string()])
    };
    let mut not_text = frame(1, &[message("s", 1, "#")]);
    let at = not_text.iter().position(|byte| *byte == b'#').expect("it is as it is");
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
        let mut shell = hub.shell("s").await;
        shell.hello("s", "a", 1, 0).await;
        shell.send(batch).await;
        assert_eq!(shell.end().await, ("malformed".to_owned(), 4400), "{index}");
    }
    assert_eq!(hub.get("/v1/sessions/s").await.json()["last"], 0);
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_expanded() {
    let hub = open_hub().await;
    let long = |count: u64| (1..=count).map(|seq| message("s", seq, &" ".repeat(900_000))).collect::<Vec<_>>();
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    // Small on the way, large as it is.
    let bomb = frame(1, &long(10));
    assert!(bomb.len() < 100_000);
    shell.send(bomb).await;
    assert_eq!(shell.end().await, ("too_large".to_owned(), 4413));
    // Large on the way.
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    shell.send([b"SBB1", &vec![0; 3 << 20][..]].concat()).await;
    assert_eq!(shell.end().await, ("too_large".to_owned(), 4413));
    // So much that nobody reads it to its end.
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    let sent = shell.try_send(vec![b'S'; 30 << 20]).await;
    assert!(!sent || matches!(shell.end().await.1, 0 | 4413));
    // A head that says little before much.
    let mut lies = frame(1, &long(2));
    lies[20..24].copy_from_slice(&100_u32.to_le_bytes());
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    shell.send(lies).await;
    assert_eq!(shell.end().await, ("malformed".to_owned(), 4400));
}

#[tokio::test]
async fn a_version_that_nobody_speaks_is_refused() {
    let hub = open_hub().await;
    let offers = [None, Some("sabir.shell.2"), Some("chat")];
    for offer in offers {
        let headers: Vec<_> = offer.map(|offer| ("Sec-WebSocket-Protocol", offer)).into_iter().collect();
        assert_eq!(hub.socket("/v1/shells/s", &headers).await.err(), Some(426), "{offer:?}");
    }
    let both = format!("sabir.shell.2, {SUBPROTOCOL}");
    assert!(hub.socket("/v1/shells/s", &[("Sec-WebSocket-Protocol", &both)]).await.is_ok());
    let headers =
        [("Connection", "upgrade, close"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "x")];
    let reply = hub.request("GET", "/v1/shells/s", &headers, b"").await;
    assert_eq!((reply.status, reply.json()["versions"].clone()), (426, json!([1])));
}

#[tokio::test]
async fn both_sides_say_that_they_are_there_and_silence_ends_a_connection() {
    let limits =
        Limits { heartbeat: Duration::from_millis(100), request_timeout: Duration::from_millis(300), ..Limits::default() };
    let hub = Setup { limits, ..Setup::default() }.start().await;
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    assert_eq!(shell.hear().await, FromHub::Heartbeat {});
    shell.say(&json!({"type":"heartbeat"})).await;
    shell.say(&json!({"type":"something new"})).await;
    assert_eq!(shell.end().await, (String::new(), 1000), "nothing more was heard");
    let mut silent = hub.shell("s").await;
    assert_eq!(silent.end().await, ("unavailable".to_owned(), 4503), "no hello came");
}

#[tokio::test]
async fn orders_reach_the_shell_until_it_says_what_became_of_them() {
    let hub = open_hub().await;
    let path = "/v1/sessions/s/orders";
    assert_eq!(hub.post(path, &json!({"kind":"cancel"})).await.code(), "not_found");
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    assert_eq!(hub.post(path, &json!({"kind":"prompt","text":"go on"})).await.status, 201);
    let FromHub::Order(order) = shell.hear().await else { panic!("an order") };
    assert_eq!((order.order, order.text.as_deref()), (1, Some("go on")));
    // It was not dealt with, so it comes again, with those that came meanwhile.
    drop(shell);
    assert_eq!(hub.post(path, &json!({"kind":"permission","requestId":"q","decision":"deny"})).await.json()["order"], 2);
    let mut shell = hub.shell("s").await;
    let FromHub::Welcome(welcome) = shell.hello("s", "a", 1, 0).await else { panic!("a welcome") };
    assert_eq!(welcome.orders.iter().map(|order| order.order).collect::<Vec<_>>(), [1, 2]);
    shell.say(&json!({"type":"taken","order":1,"accepted":true})).await;
    shell.say(&json!({"type":"taken","order":2,"accepted":false,"reason":"no such question"})).await;
    shell.say(&json!({"type":"taken","order":99,"accepted":true})).await;
    assert_eq!(hub.post(path, &json!({"kind":"cancel","reason":"enough"})).await.json()["order"], 3);
    let FromHub::Order(order) = shell.hear().await else { panic!("an order") };
    assert_eq!((order.order, order.reason.as_deref()), (3, Some("enough")));
    let orders = loop {
        let orders = hub.get(path).await.json();
        if orders["orders"][1]["taken"].is_object() {
            break orders;
        }
    };
    assert_eq!(orders["orders"][0]["taken"]["accepted"], true);
    assert_eq!(orders["orders"][1]["taken"]["reason"], "no such question");
    assert_eq!(orders["orders"][2]["taken"], Value::Null);
    // An answer is in the log before it is in the audit.
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
    assert!(!audit.contains("go on"), "what a prompt says is not noted");
}

#[tokio::test]
async fn a_hub_without_room_is_unavailable_and_goes_on_later() {
    let hub = open_hub().await;
    hub.limit(Some(1 << 20)).await;
    let mut last = 0;
    let long = |first: u64| (first..first + 4).map(|seq| message("s", seq, &"x".repeat(50_000))).collect::<Vec<_>>();
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    loop {
        shell.send(frame(last + 1, &long(last + 1))).await;
        match serde_json::from_str::<Value>(&shell.text().await.expect("a frame")).expect("JSON") {
            ack if ack["type"] == "ack" => last = ack["last"].as_u64().expect("a number"),
            error => {
                assert_eq!(error["code"], "unavailable");
                break;
            }
        }
        assert!(last < 1_000, "there was to be no room");
    }
    assert_eq!(shell.end().await.1, 4503);
    hub.limit(None).await;
    let mut shell = hub.shell("s").await;
    assert_eq!(welcome(shell.hello("s", "a", 1, last + 4).await), (1, last));
    shell.send(frame(last + 1, &long(last + 1))).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: last + 4 });
    assert!(hub.store.sessions.session(&id("s")).await.expect("asked").is_some());
}

#[tokio::test]
async fn what_should_not_happen_is_internal_and_no_more_is_told() {
    let hub = open_hub().await;
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    shell.send(numbered("s", 1, 3)).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: 3 });
    // Somebody else had his hands in the file.
    let database = rusqlite::Connection::open(hub.folder.path().join("hub.sqlite")).expect("a database");
    let rename = |from: &str, to: &str| {
        database.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).expect("renamed");
    };
    rename("message", "hidden");
    shell.send(numbered("s", 4, 6)).await;
    assert_eq!(shell.end().await, ("internal".to_owned(), 4500));
    let headers =
        [("Sabir-Protocol", "1"), ("Sabir-Writer", "a"), ("Sabir-Epoch", "1"), ("Content-Type", "application/x-sabir-batch")];
    let refused = hub.request("POST", "/v1/shells/s/batches", &headers, &numbered("s", 4, 6)).await;
    assert_eq!((refused.status, refused.code().as_str()), (500, "internal"));
    assert!(!refused.text().contains("table"), "{}", refused.text());
    // A shell tries again later, and then nothing is missing.
    rename("hidden", "message");
    let mut shell = hub.shell("s").await;
    assert_eq!(welcome(shell.hello("s", "a", 1, 6).await), (1, 3));
    shell.send(numbered("s", 4, 6)).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: 6 });
}

#[tokio::test]
async fn a_hub_that_stops_says_so() {
    let mut hub = open_hub().await;
    let mut shell = hub.shell("s").await;
    shell.hello("s", "a", 1, 0).await;
    let mut events = hub.events("/v1/sessions/s/events", &[]).await;
    assert_eq!(events.status().await, 200);
    hub.begin_to_stop();
    assert_eq!(shell.end().await, ("unavailable".to_owned(), 4503));
    assert_eq!(events.next().await, None, "the stream has an end");
}
