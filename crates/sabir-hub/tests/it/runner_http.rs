//! Runner protocol over HTTP, and errors of the API.

use sabir_hub::Limits;
use sabir_protocol::{BATCH_TYPE, SUBPROTOCOL};
use serde_json::json;

use crate::client::{Reply, Running, Setup, frame, hello, message, numbered_batch, open_hub};

async fn send(hub: &Running, writer: &str, epoch: &str, body: &[u8]) -> Reply {
    let headers = [("Sabir-Protocol", "1"), ("Sabir-Writer", writer), ("Sabir-Epoch", epoch), ("Content-Type", BATCH_TYPE)];
    hub.request("POST", "/v1/runners/s/batches", &headers, body).await
}

#[tokio::test]
async fn bodies_are_the_frames_of_the_websocket() {
    let hub = open_hub().await;
    let welcome = hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    assert_eq!((welcome.status, welcome.json()["last"].clone(), welcome.json()["epoch"].clone()), (200, json!(0), json!(1)));
    assert!(welcome.head.contains("sabir-protocol: 1"));
    let ack = send(&hub, "a", "1", &numbered_batch("s", 1, 5)).await;
    assert_eq!((ack.status, ack.json()), (200, json!({"type":"ack","last":5})));
    let gap = send(&hub, "a", "1", &numbered_batch("s", 7, 8)).await;
    assert_eq!((gap.status, gap.json()), (409, json!({"type":"gap","expected":6})));
    let again = send(&hub, "a", "1", &numbered_batch("s", 4, 6)).await;
    assert_eq!(again.json()["last"], 6);
    let other = send(&hub, "a", "1", &frame(6, &[message("s", 6, "other")])).await;
    assert_eq!((other.status, other.code().as_str()), (409, "conflict"));
    assert_eq!(send(&hub, "a", "2", &numbered_batch("s", 7, 7)).await.json()["last"], 7, "a batch may have a new epoch");
    assert_eq!(send(&hub, "a", "1", &numbered_batch("s", 8, 8)).await.code(), "fenced");
    assert_eq!(send(&hub, "b", "2", &numbered_batch("s", 8, 8)).await.code(), "fenced");
    assert_eq!(send(&hub, "b", "3", &numbered_batch("s", 8, 8)).await.code(), "conflict");
    let welcome = hub.post("/v1/runners/s/hello", &hello("s", "b", 0, 0)).await.json();
    assert_eq!((welcome["epoch"].clone(), welcome["last"].clone()), (json!(3), json!(7)));
    assert_eq!(send(&hub, "b", "3", &numbered_batch("s", 8, 8)).await.json()["last"], 8);
}

#[tokio::test]
async fn errors_have_codes() {
    let hub = open_hub().await;
    let good = numbered_batch("s", 1, 1);
    for (writer, epoch, body, code, status) in [
        ("a", "0", &good[..], "malformed", 400),
        ("a", "x", &good[..], "malformed", 400),
        ("", "1", &good[..], "malformed", 400),
        ("a", "1", b"nonsense", "malformed", 400),
        ("a", "1", &vec![0; 3 << 20][..], "too_large", 413),
    ] {
        let reply = send(&hub, writer, epoch, body).await;
        assert_eq!((reply.code().as_str(), reply.status), (code, status), "{writer} {epoch}");
        assert_eq!(reply.json()["type"], "error");
    }
    let reply = hub.request("POST", "/v1/runners/s/hello", &[], hello("s", "a", 1, 0).to_string().as_bytes()).await;
    assert_eq!((reply.status, reply.code().as_str(), reply.json()["versions"].clone()), (426, "version", json!([1])));
    assert_eq!(hub.post("/v1/runners/s/hello", &json!({"type":"taken"})).await.code(), "malformed");
    assert_eq!(hub.post("/v1/runners/t/hello", &hello("s", "a", 1, 0)).await.code(), "malformed");
    let no_type = [("Sabir-Protocol", "1"), ("Sabir-Writer", "a"), ("Sabir-Epoch", "1")];
    assert_eq!(hub.request("POST", "/v1/runners/s/batches", &no_type, &good).await.code(), "malformed");
    assert_eq!(hub.get("/v1/nothing").await.code(), "not_found");
    assert_eq!(hub.request("DELETE", "/v1/sessions", &[], b"").await.status, 405);
}

#[tokio::test]
async fn commands_can_be_waited_for() {
    let hub = open_hub().await;
    let version = [("Sabir-Protocol", "1")];
    let path = "/v1/runners/s/commands?after=0&wait=50";
    let nobody = hub.request("GET", "/v1/runners/s/commands", &version, b"").await;
    assert_eq!((nobody.status, nobody.json()), (200, json!({"orders":[]})), "an unknown session has none");
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let none = hub.request("GET", "/v1/runners/s/commands", &version, b"").await;
    assert_eq!((none.status, none.json()), (200, json!({"orders":[]})));
    let add = async {
        let added = hub.post("/v1/sessions/s/commands", &json!({"kind":"prompt","text":"more"})).await;
        assert_eq!(added.status, 201);
    };
    let (waited, ()) = tokio::join!(hub.request("GET", path, &version, b""), add);
    assert_eq!(
        (waited.json()["orders"][0]["order"].clone(), waited.json()["orders"][0]["text"].clone()),
        (json!(1), json!("more"))
    );
    let again = hub.request("GET", "/v1/runners/s/commands", &version, b"").await;
    assert_eq!(again.json()["orders"][0]["order"], 1, "until it is answered");
    let taken = json!({"type":"taken","order":1,"accepted":true});
    assert_eq!(hub.post("/v1/runners/s/taken", &taken).await.status, 200);
    assert_eq!(hub.post("/v1/runners/s/taken", &json!({"type":"taken","order":7,"accepted":true})).await.status, 200);
    let none = hub.request("GET", "/v1/runners/s/commands", &version, b"").await;
    assert_eq!(none.json(), json!({"orders":[]}));
    for bad in ["after=x", "wait=-1", "after=99999999999999999999"] {
        assert_eq!(hub.request("GET", &format!("/v1/runners/s/commands?{bad}"), &version, b"").await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn invalid_commands_are_refused() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    for bad in [
        json!({"kind":"dance"}),
        json!({"kind":"prompt"}),
        json!({"kind":"prompt","text":" "}),
        json!({"kind":"permission","requestId":"q"}),
        json!({"kind":"permission","decision":"allow"}),
        json!({"kind":"permission","requestId":"q","decision":"maybe"}),
        json!([]),
    ] {
        assert_eq!(hub.post("/v1/sessions/s/commands", &bad).await.code(), "malformed", "{bad}");
    }
    let long = json!({"kind":"prompt","text":"x".repeat(1 << 20)});
    assert_eq!(hub.post("/v1/sessions/s/commands", &long).await.code(), "too_large");
}

#[tokio::test]
async fn rate_limit_answers_slow_down() {
    let limits = Limits { requests_per_second: 1, ..Limits::default() };
    let hub = Setup { limits, ..Setup::default() }.start().await;
    let mut replies = Vec::new();
    for _ in 0..10 {
        replies.push(hub.get("/v1/sessions").await);
    }
    let slow = replies.iter().find(|reply| reply.status == 429).expect("a refusal");
    assert_eq!((slow.code().as_str(), slow.json()["retryAfterSeconds"].clone()), ("slow_down", json!(1)));
    assert!(slow.head.contains("retry-after: 1"));
    // Health checks have their own limit.
    assert_eq!(hub.get("/healthz").await.status, 200);
    let mut health = Vec::new();
    for _ in 0..10 {
        health.push(hub.get("/healthz").await.status);
    }
    assert!(health.contains(&429), "{health:?}");
    // Without tokens, runners are limited separately from other clients of their machine.
    assert_eq!(hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await.status, 200);
}

#[tokio::test]
async fn replayed_requests_change_nothing() {
    let hub = open_hub().await;
    let (first_hello, batch) = (hello("s", "a", 1, 0), numbered_batch("s", 1, 5));
    assert_eq!(hub.post("/v1/runners/s/hello", &first_hello).await.status, 200);
    assert_eq!(send(&hub, "a", "1", &batch).await.json()["last"], 5);
    let log = hub.get("/v1/sessions/s/log").await.body;
    for _ in 0..3 {
        assert_eq!(send(&hub, "a", "1", &batch).await.json(), json!({"type":"ack","last":5}));
    }
    // The first hello has an outdated last number, so it cannot be from the runner that wrote the messages.
    assert_eq!(hub.post("/v1/runners/s/hello", &first_hello).await.code(), "conflict");
    assert_eq!(hub.post("/v1/runners/s/hello", &hello("s", "a", 2, 5)).await.status, 200);
    assert_eq!(send(&hub, "a", "1", &batch).await.code(), "fenced");
    assert_eq!(hub.post("/v1/runners/s/hello", &first_hello).await.code(), "fenced");
    assert_eq!(hub.get("/v1/sessions/s/log").await.body, log);
    let taken = json!({"type":"taken","order":1,"accepted":true});
    hub.post("/v1/sessions/s/commands", &json!({"kind":"cancel"})).await;
    assert_eq!(hub.post("/v1/runners/s/taken", &taken).await.status, 200);
    let changed = json!({"type":"taken","order":1,"accepted":false});
    assert_eq!(hub.post("/v1/runners/s/taken", &changed).await.status, 200);
    let commands = hub.get("/v1/sessions/s/commands").await.json();
    assert_eq!(commands["orders"][0]["taken"]["accepted"], true, "the first outcome counts: {commands}");
}

#[tokio::test]
async fn routes_of_earlier_versions_are_aliases() {
    let hub = open_hub().await;
    assert_eq!(hub.post("/v1/shells/s/hello", &hello("s", "a", 1, 0)).await.status, 200);
    let headers = [("Sabir-Protocol", "1"), ("Sabir-Writer", "a"), ("Sabir-Epoch", "1"), ("Content-Type", BATCH_TYPE)];
    let ack = hub.request("POST", "/v1/shells/s/batches", &headers, &numbered_batch("s", 1, 2)).await;
    assert_eq!(ack.json(), json!({"type":"ack","last":2}));
    for path in ["/v1/sessions/s/orders", "/v1/sessions/s/commands"] {
        assert_eq!(hub.post(path, &json!({"kind":"cancel"})).await.status, 201, "{path}");
    }
    let answered = hub.post("/v1/shells/s/taken", &json!({"type":"taken","order":1,"accepted":true})).await;
    assert_eq!(answered.status, 200);
    for (old, new) in [
        ("/v1/sessions/s/orders", "/v1/sessions/s/commands"),
        ("/v1/shells/s/orders", "/v1/runners/s/commands"),
        ("/v1/shells/s/log", "/v1/runners/s/log"),
    ] {
        let [old, new] =
            [hub.request("GET", old, &headers, b"").await.text(), hub.request("GET", new, &headers, b"").await.text()];
        assert!(!old.is_empty() && old == new, "{old} {new}");
    }
    let socket = hub.socket("/v1/shells/s", &[("Sec-WebSocket-Protocol", SUBPROTOCOL)]).await;
    socket.expect("a WebSocket").hello("s", "a", 1, 2).await;
    let document = hub.get("/openapi.json").await.text();
    assert!(document.contains("/v1/runners/{session}") && !document.contains("/v1/shells") && !document.contains("/orders"));
}
