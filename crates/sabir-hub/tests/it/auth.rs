//! Authentication, authorization, and the limits of connections and subscriptions.

use std::time::Duration;

use sabir_hub::{Limits, now};
use sabir_protocol::{FromHub, SUBPROTOCOL};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Running, Setup, Socket, closed_hub, hello, numbered_batch, open_hub};

async fn connect_runner(hub: &Running, session: &str, token: Option<&str>) -> Result<Socket, u16> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("Sec-WebSocket-Protocol", SUBPROTOCOL)];
    headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
    hub.socket(&format!("/v1/runners/{session}"), &headers).await
}

#[tokio::test]
async fn token_grants_only_its_scopes() {
    let hub = closed_hub().await;
    let runner = hub.token("runner:s").await;
    let watch = hub.token("watch").await;
    let operate = hub.token("operate").await;
    let mut socket = connect_runner(&hub, "s", Some(&runner)).await.expect("a WebSocket");
    socket.hello("s", "a", 1, 0).await;
    for (method, path, allowed) in [
        ("GET", "/v1/sessions", [false, true, true]),
        ("GET", "/v1/sessions/s", [false, true, true]),
        ("GET", "/v1/sessions/s/result", [false, true, true]),
        ("GET", "/v1/sessions/s/log", [false, true, true]),
        ("GET", "/v1/sessions/s/commands", [false, true, true]),
        ("GET", "/v1/sessions/s/artifacts", [false, true, true]),
        ("GET", "/metrics", [false, true, true]),
        ("POST", "/v1/sessions/s/commands", [false, false, true]),
        ("POST", "/v1/runners/s/hello", [true, false, false]),
        ("POST", "/v1/runners/other/hello", [false, false, false]),
        ("POST", "/v1/runners/s/batches", [true, false, false]),
        ("GET", "/v1/runners/s/commands", [true, false, false]),
        ("GET", "/v1/runners/s/log", [true, false, false]),
        ("GET", "/v1/runners/other/log", [false, false, false]),
        ("POST", "/v1/runners/s/taken", [true, false, false]),
        ("POST", "/v1/sessions/s/artifacts", [true, false, false]),
        ("PUT", &format!("/v1/sessions/s/artifacts/{}", "0".repeat(64)), [true, false, false]),
    ] {
        let none = hub.request(method, path, &[], b"").await;
        assert_eq!((none.status, none.code().as_str()), (401, "unauthorized"), "{method} {path}");
        for (token, allowed) in [&runner, &watch, &operate].into_iter().zip(allowed) {
            let bearer = format!("Bearer {token}");
            let reply = hub.request(method, path, &[("Authorization", &bearer)], b"").await;
            // An allowed request may fail for other reasons.
            assert_eq!(reply.status == 403, !allowed, "{method} {path} {}", reply.status);
            assert_ne!(reply.status, 401, "{method} {path}");
            if !allowed {
                assert_eq!(reply.code(), "forbidden");
            }
        }
    }
    assert_eq!(connect_runner(&hub, "other", Some(&runner)).await.err(), Some(403));
    assert_eq!(connect_runner(&hub, "s", Some(&watch)).await.err(), Some(403));
    assert_eq!(connect_runner(&hub, "s", None).await.err(), Some(401));
    assert_eq!(hub.get("/healthz").await.status, 200);
    assert_eq!(hub.get("/").await.status, 200);
}

#[tokio::test]
async fn invalid_tokens_are_unauthorized() {
    let hub = closed_hub().await;
    let good = hub.token("watch").await;
    let last = if good.ends_with('0') { "1" } else { "0" };
    let changed = format!("{}{last}", &good[..good.len() - 1]);
    let (_, expired) = hub.token_until("watch", Some(-1)).await;
    let (revoked_id, revoked) = hub.token_until("watch", None).await;
    hub.store.tokens.revoke_token(&revoked_id, now()).await.expect("revoked");
    // A cached token stays valid until the next refresh.
    while hub.get_with("/v1/sessions", &revoked).await.status == 200 {}
    let id = good.split('_').nth(1).expect("an id");
    let digest = hub.store.tokens.tokens().await.expect("read").into_iter().find(|token| token.id == id).expect("kept").digest;
    let digest = format!("sabir_{id}_{digest}");
    for bad in [changed.as_str(), &expired, &revoked, &digest, "", "sabir_", &good.to_uppercase(), id] {
        let reply = hub.get_with("/v1/sessions", bad).await;
        assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"), "{bad}");
        assert!(bad.len() < 20 || !reply.text().contains(bad), "the response does not repeat the token");
    }
    let basic = hub.request("GET", "/v1/sessions", &[("Authorization", &format!("Basic {good}"))], b"").await;
    assert_eq!(basic.status, 401);
    assert_eq!(hub.get(&format!("/v1/sessions?token={good}")).await.status, 401);
    assert_eq!(hub.get_with("/v1/sessions", &good).await.status, 200);
}

#[tokio::test]
async fn revoked_or_expired_token_ends_open_connections() {
    let hub = closed_hub().await;
    let (runner_id, runner) = hub.token_until("runner:s", None).await;
    let (watch_id, watch) = hub.token_until("watch", None).await;
    let bearer = format!("Bearer {watch}");
    let mut socket = connect_runner(&hub, "s", Some(&runner)).await.expect("a WebSocket");
    socket.hello("s", "a", 1, 0).await;
    socket.send(numbered_batch("s", 1, 1)).await;
    assert_eq!(socket.receive().await, FromHub::Ack { last: 1 });
    let mut events = hub.events("/v1/sessions/s/events", &[("Authorization", &bearer)]).await;
    assert_eq!(events.next().await.expect("an event").0, 1);
    let mut list = hub.events("/v1/sessions/events", &[("Authorization", &bearer)]).await;
    assert_eq!(list.status().await, 200);
    let mut watcher = hub.socket("/v1/sessions/s/watch?after=1", &[("Authorization", &bearer)]).await.expect("a WebSocket");
    hub.store.tokens.revoke_token(&runner_id, now()).await.expect("revoked");
    hub.store.tokens.revoke_token(&watch_id, now()).await.expect("revoked");
    assert_eq!(socket.end().await, ("unauthorized".to_owned(), 4401));
    assert_eq!(events.next().await, None);
    while list.next().await.is_some() {}
    assert_eq!(watcher.text().await, Err(4401));
    let (_, short) = hub.token_until("runner:s", Some(2)).await;
    let mut socket = connect_runner(&hub, "s", Some(&short)).await.expect("a WebSocket");
    socket.hello("s", "a", 1, 1).await;
    assert_eq!(socket.end().await, ("unauthorized".to_owned(), 4401), "it has expired");
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_forbidden() {
    let hub = open_hub().await;
    let port = hub.address.port();
    let own = format!("localhost:{port}");
    for (host, origin, status) in [
        (own.as_str(), None, 200),
        ("hub.example.org", None, 200),
        ("evil.example.org", None, 403),
        ("127.0.0.1.evil.org", None, 403),
        (&own, Some(format!("http://{own}")), 200),
        (&own, Some("http://evil.example.org".to_owned()), 403),
        (&own, Some("null".to_owned()), 403),
    ] {
        let mut headers = vec![("Host", host)];
        headers.extend(origin.as_deref().map(|origin| ("Origin", origin)));
        for path in ["/v1/sessions", "/healthz", "/metrics"] {
            assert_eq!(hub.request("GET", path, &headers, b"").await.status, status, "{host} {origin:?} {path}");
        }
    }
    let headers = [("Sec-WebSocket-Protocol", SUBPROTOCOL), ("Origin", "http://evil.example.org")];
    assert_eq!(hub.socket("/v1/runners/s", &headers).await.err(), Some(403));
}

#[tokio::test]
async fn path_parameters_cannot_traverse_folders() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    for path in [
        "/v1/sessions/..",
        "/v1/sessions/%2e%2e",
        "/v1/sessions/%2e",
        "/v1/sessions/a%00b",
        "/v1/sessions/a%0Ab",
        "/v1/sessions/%ff",
        "/v1/sessions/s/artifacts/..%2f..%2fhub.sqlite",
        "/v1/sessions/s/artifacts/%2e%2e",
        "/v1/sessions/s/artifacts/ABCD",
        "/v1/sessions/s/../../etc/passwd",
        "/../hub.sqlite",
        &format!("/v1/sessions/{}", "x".repeat(129)),
    ] {
        let reply = hub.get(path).await;
        assert!(matches!(reply.status, 400 | 404), "{path}: {}", reply.status);
        assert!(!reply.text().contains("SQLite"), "{path}");
    }
    // An unusual id is valid and unchanged.
    let unusual = "../etc/ü %2e";
    let address = unusual.parse::<sabir_protocol::SessionId>().expect("an id").in_address();
    assert_eq!(hub.post(&format!("/v1/runners/{address}/hello"), &hello(unusual, "a", 1, 0)).await.status, 200);
    assert_eq!(hub.get(&format!("/v1/sessions/{address}")).await.json()["session"], unusual);
    let folder: Vec<_> =
        std::fs::read_dir(hub.folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(
        folder.iter().all(|name| ["hub.sqlite", "words.sqlite", "lock", "audit.jsonl"]
            .iter()
            .any(|known| name.to_string_lossy().starts_with(known))),
        "{folder:?}"
    );
}

#[tokio::test]
async fn slow_or_oversized_requests_are_aborted() {
    let limits = Limits { request_timeout: Duration::from_millis(200), requests_per_second: 1_000, ..Limits::default() };
    let hub = Setup { limits, ..Setup::default() }.start().await;
    let cut_off = async |beginning: &[u8]| {
        let mut stream = TcpStream::connect(hub.address).await.expect("a connection");
        stream.write_all(beginning).await.expect("sent");
        let mut reply = Vec::new();
        // The hub closes the connection although the request is incomplete.
        let _ = stream.read_to_end(&mut reply).await;
        String::from_utf8_lossy(&reply).into_owned()
    };
    cut_off(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
    cut_off(b"").await;
    let body =
        cut_off(b"POST /v1/runners/s/hello HTTP/1.1\r\nHost: localhost\r\nSabir-Protocol: 1\r\nContent-Length: 100\r\n\r\n{")
            .await;
    assert!(body.starts_with("HTTP/1.1 503"), "{body}");
    let huge = [b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Huge: ", "x".repeat(100_000).as_bytes()].concat();
    assert!(cut_off(&huge).await.starts_with("HTTP/1.1 431"));
    assert!(cut_off(b"nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn subscriptions_are_limited() {
    let limits = Limits { subscriptions: 2, requests_per_second: 1_000, ..Limits::default() };
    let hub = Setup { limits, ..Setup::default() }.start().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let mut first = hub.events("/v1/sessions/s/events", &[]).await;
    let mut second = hub.events("/v1/sessions/events", &[]).await;
    assert_eq!((first.status().await, second.status().await), (200, 200));
    let third = hub.get("/v1/sessions/s/events").await;
    assert_eq!((third.status, third.code().as_str()), (429, "slow_down"));
    drop(first);
    // The hub notices the closed connection with its next message.
    let mut seq = 0;
    while hub.get("/metrics").await.text().contains("sabir_hub_watchers 2") {
        seq += 1;
        let mut runner = hub.runner("s").await;
        runner.hello("s", "a", 1, seq - 1).await;
        runner.send(numbered_batch("s", seq, seq)).await;
        runner.receive().await;
    }
    assert_eq!(hub.events("/v1/sessions/s/events", &[]).await.status().await, 200);
}

#[tokio::test]
async fn connections_including_websockets_are_limited() {
    let limits = Limits { connections: 2, requests_per_second: 1_000, ..Limits::default() };
    let hub = Setup { limits, ..Setup::default() }.start().await;
    let mut one = hub.runner("one").await;
    let mut two = hub.runner("two").await;
    one.hello("one", "a", 1, 0).await;
    two.hello("two", "a", 1, 0).await;
    // The third connection is accepted when one of them closes.
    let answered = std::cell::Cell::new(false);
    let third = async {
        assert_eq!(hub.get("/healthz").await.status, 200);
        answered.set(true);
    };
    let others = async {
        for seq in 1..=20 {
            two.send(numbered_batch("two", seq, seq)).await;
            assert_eq!(two.receive().await, FromHub::Ack { last: seq });
        }
        assert!(!answered.get(), "the limit is reached");
        drop(one);
    };
    tokio::join!(third, others);
}

#[tokio::test]
async fn secrets_are_neither_returned_nor_stored() {
    let hub = closed_hub().await;
    let runner = hub.token("runner:secret-session").await;
    let operate = hub.token("operate").await;
    let bearer = format!("Bearer {runner}");
    let headers = [("Authorization", bearer.as_str()), ("Sabir-Protocol", "1")];
    let body = hello("secret-session", "secret-writer", 1, 0).to_string();
    assert_eq!(hub.request("POST", "/v1/runners/secret-session/hello", &headers, body.as_bytes()).await.status, 200);
    let bearer = format!("Bearer {operate}");
    let order = json!({"kind":"prompt","text":"secret-text"}).to_string();
    let path = "/v1/sessions/secret-session/commands";
    assert_eq!(hub.request("POST", path, &[("Authorization", &bearer)], order.as_bytes()).await.status, 201);
    let metrics = hub.get_with("/metrics", &operate).await.text();
    let audit = crate::client::file(hub.folder.path(), "audit.jsonl");
    let errors = hub.get_with("/v1/runners/secret-session/commands", &operate).await.text();
    for text in [&metrics, &errors] {
        assert!(!text.contains("secret"), "{text}");
    }
    for text in [&metrics, &audit, &errors] {
        assert!(!text.contains(&operate[20..]) && !text.contains(&runner[20..]) && !text.contains("secret-text"), "{text}");
    }
    let database = std::fs::read(hub.folder.path().join("hub.sqlite-wal")).expect("a file");
    let contains = |needle: &str| database.windows(needle.len()).any(|window| window == needle.as_bytes());
    assert!(contains(&operate[6..18]) && !contains(&operate[19..]), "only the id of a token is stored");
}
