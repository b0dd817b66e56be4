//! Limits of a client: bytes, frames, audit lines, and the end of revoked access.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use ring::digest::{SHA256, digest};
use sabir_core::time::Timestamp;
use sabir_hub::auth::token::Token;
use sabir_hub::store::memory::MemoryStore;
use sabir_hub::store::{Artifact, Store, StoreFuture, TokenStore};
use sabir_hub::{Limits, OneTimeTokens, now};
use sabir_protocol::{FromHub, MAX_MESSAGE, SUBPROTOCOL};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::client::{Reply, Running, Setup, closed_hub, file, frame, hello, message, numbered_batch, open_hub};
use crate::store::id;

fn digest_of(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn with_token(hub: &Running, method: &str, path: &str, token: &str, body: &[u8]) -> Reply {
    let bearer = format!("Bearer {token}");
    hub.request(method, path, &[("Authorization", &bearer), ("Sabir-Protocol", "1")], body).await
}

/// All files in a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.append(&mut files(&path)) } else { all.push(path) }
    }
    all
}

#[tokio::test]
async fn rate_limit_slows_control_frames_of_a_runner() {
    let limits = Limits { requests_per_second: 200, ..Limits::default() };
    let hub = Setup { limits, memory: true, ..Setup::default() }.start().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    // 600 frames with 400 in the bucket: the rest is read at 200 per second.
    let start = Instant::now();
    for _ in 0..600 {
        runner.0.feed(Message::Text(r#"{"type":"heartbeat"}"#.into())).await.expect("sent");
    }
    runner.send(numbered_batch("s", 1, 1)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 1 });
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
    // Another session of the same machine has its own bucket.
    let mut other = hub.runner("t").await;
    other.hello("t", "a", 1, 0).await;
    for first in 1..=300 {
        other.send(numbered_batch("t", first, first)).await;
        assert_eq!(other.receive().await, FromHub::Ack { last: first });
    }
}

#[tokio::test]
async fn rate_limit_slows_frames_of_a_subscriber() {
    let limits = Limits { requests_per_second: 200, ..Limits::default() };
    let hub = Setup { limits, memory: true, ..Setup::default() }.start().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let mut subscriber = hub.socket("/v1/sessions/s/watch", &[]).await.expect("a WebSocket");
    let start = Instant::now();
    for _ in 0..600 {
        subscriber.0.feed(Message::Pong(Bytes::new())).await.expect("sent");
    }
    subscriber.0.send(Message::Close(None)).await.expect("sent");
    while subscriber.0.next().await.is_some_and(|frame| frame.is_ok()) {}
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
}

#[tokio::test]
async fn repeated_outcome_is_audited_once() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    assert_eq!(hub.post("/v1/sessions/s/commands", &json!({"kind":"cancel"})).await.status, 201);
    for _ in 0..50 {
        runner.send_json(&json!({"type":"taken","order":1,"accepted":true})).await;
    }
    runner.send(numbered_batch("s", 1, 1)).await;
    while runner.receive().await != (FromHub::Ack { last: 1 }) {}
    let http = hub.post("/v1/runners/s/taken", &json!({"type":"taken","order":1,"accepted":false})).await;
    assert_eq!(http.status, 200);
    assert_eq!(file(hub.folder.path(), "audit.jsonl").matches("\"taken\"").count(), 1);
}

#[tokio::test]
async fn revoked_token_aborts_downloads() {
    const SIZE: u64 = 64 << 20;
    let hub = closed_hub().await;
    let runner = hub.token("runner:s").await;
    with_token(&hub, "POST", "/v1/runners/s/hello", &runner, hello("s", "a", 1, 0).to_string().as_bytes()).await;
    // More than the buffers of a connection can hold.
    let digest = digest_of(b"any");
    let folder = hub.folder.path().join("artifacts").join(&digest[..2]);
    std::fs::create_dir_all(&folder).expect("created");
    std::fs::File::create(folder.join(&digest)).expect("created").set_len(SIZE).expect("long");
    let artifact = Artifact { digest: digest.clone(), size: SIZE, name: None, media_type: None, complete: true };
    let write = hub.store.write.as_ref().expect("writable");
    write.artifacts.put_artifact(&id("s"), artifact).await.expect("stored");
    let text = "x".repeat(1_000_000);
    let mut runner = hub
        .socket("/v1/runners/s", &[("Sec-WebSocket-Protocol", SUBPROTOCOL), ("Authorization", &format!("Bearer {runner}"))])
        .await
        .expect("a WebSocket");
    runner.hello("s", "a", 1, 0).await;
    for seq in 1..=24 {
        runner.send(frame(seq, &[message("s", seq, &text)])).await;
        assert_eq!(runner.receive().await, FromHub::Ack { last: seq });
    }
    for (path, size) in [(format!("/v1/sessions/s/artifacts/{digest}"), SIZE), ("/v1/sessions/s/log".to_owned(), 24 << 20)] {
        let (token_id, token) = hub.token_until("watch", None).await;
        let mut stream = TcpStream::connect(hub.address).await.expect("a connection");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", hub.address);
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut bytes = vec![0; 1_000];
        stream.read_exact(&mut bytes).await.expect("the beginning");
        assert!(bytes.starts_with(b"HTTP/1.1 200"));
        hub.store.tokens.revoke_token(&token_id, now()).await.expect("revoked");
        while hub.get_with("/v1/sessions", &token).await.status == 200 {}
        let _ = stream.read_to_end(&mut bytes).await;
        assert!((bytes.len() as u64) < size, "{path}: all {} bytes arrived", bytes.len());
        assert!(!bytes.ends_with(b"\r\n0\r\n\r\n"), "{path} looks complete");
    }
}

#[tokio::test]
async fn revoked_token_aborts_uploads() {
    let hub = closed_hub().await;
    let (token_id, token) = hub.token_until("runner:s", None).await;
    with_token(&hub, "POST", "/v1/runners/s/hello", &token, hello("s", "a", 1, 0).to_string().as_bytes()).await;
    let bytes = vec![1; 1_000];
    let path = "/v1/sessions/s/artifacts";
    let about = json!({"digest":digest_of(&bytes),"size":bytes.len()}).to_string();
    assert_eq!(with_token(&hub, "POST", path, &token, about.as_bytes()).await.status, 200);
    let mut stream = TcpStream::connect(hub.address).await.expect("a connection");
    let head = format!("PUT {path}/{} HTTP/1.1\r\nHost: {}\r\n", digest_of(&bytes), hub.address);
    let head = format!("{head}Authorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &bytes[..10]].concat()).await.expect("sent");
    hub.store.tokens.revoke_token(&token_id, now()).await.expect("revoked");
    let mut reply = vec![0; 12];
    stream.read_exact(&mut reply).await.expect("a response before the rest of the body");
    assert_eq!(reply, b"HTTP/1.1 401");
}

#[tokio::test]
async fn pending_commands_fit_a_welcome() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let prompt = json!({"kind":"prompt","text":"x".repeat(510_000)});
    let mut added = Vec::new();
    for _ in 0..6 {
        added.push(hub.post("/v1/sessions/s/commands", &prompt).await);
    }
    assert_eq!(added.iter().map(|reply| reply.status).collect::<Vec<_>>(), [201, 201, 429, 429, 429, 429]);
    let full = added[2].text();
    assert!(added[2].code() == "slow_down" && full.contains("bytes of commands are pending for the runner"), "{full}");
    assert_eq!(hub.post("/v1/sessions/s/commands", &json!({"kind":"cancel"})).await.status, 201, "a cancel is still accepted");
    let mut runner = hub.runner("s").await;
    runner.send_json(&hello("s", "a", 1, 0)).await;
    let text = runner.text().await.expect("a frame");
    assert!(text.len() < 2 * MAX_MESSAGE);
    let Ok(FromHub::Welcome(welcome)) = serde_json::from_str(&text) else { panic!("a welcome") };
    assert_eq!(welcome.orders.len(), 3);
    runner.send_json(&json!({"type":"taken","order":1,"accepted":true})).await;
    runner.send(numbered_batch("s", 1, 1)).await;
    while runner.receive().await != (FromHub::Ack { last: 1 }) {}
    assert_eq!(hub.post("/v1/sessions/s/commands", &prompt).await.status, 201, "there is space again");
}

#[tokio::test]
async fn excess_pending_commands_of_an_earlier_version_are_sent_after_the_welcome() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let database = rusqlite::Connection::open(hub.folder.path().join("hub.sqlite")).expect("a database");
    for number in 1..=6 {
        let order = json!({"order":number,"kind":"prompt","text":"x".repeat(510_000)});
        let stored = json!({"order":order,"at":"2026-01-02T03:04:05Z"}).to_string();
        database
            .execute("INSERT INTO placed (session, number, placed, open) SELECT id, ?1, ?2, 1 FROM session", (number, stored))
            .expect("put");
    }
    // Earlier versions wrote no checksums.
    database.execute("UPDATE session SET orders = 6, checksum = NULL", []).expect("counted");
    let mut runner = hub.runner("s").await;
    runner.send_json(&hello("s", "a", 1, 0)).await;
    let mut received = Vec::new();
    while received.len() < 6 {
        let text = runner.text().await.expect("a frame");
        assert!(text.len() < 2 * MAX_MESSAGE, "a frame of {} bytes", text.len());
        match serde_json::from_str(&text).expect("a frame") {
            FromHub::Welcome(welcome) => received.extend(welcome.orders.iter().map(|order| order.order)),
            FromHub::Order(order) => received.push(order.order),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, [1, 2, 3, 4, 5, 6]);
    let welcome = hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    assert!(welcome.status == 200 && welcome.body.len() < 2 * MAX_MESSAGE);
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_accessible_only_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let path = "/v1/sessions/s/artifacts";
    for (bytes, sent) in [(&b"whole"[..], &b"whole"[..]), (b"begun", b"be")] {
        let digest = digest_of(bytes);
        assert_eq!(hub.post(path, &json!({"digest":digest,"size":5})).await.status, 200);
        assert_eq!(hub.request("PUT", &format!("{path}/{digest}"), &[], sent).await.status, 200);
    }
    let folder = hub.folder.path().to_owned();
    assert!(files(&folder).len() >= 6, "{:?}", files(&folder));
    for file in files(&folder) {
        assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700), "{}", file.display());
    }
    // Wider permissions of earlier versions are tightened when the hub starts.
    let folder = hub.stop().await;
    let set = |path: PathBuf, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    set(folder.path().to_owned(), 0o755);
    set(folder.path().join("artifacts"), 0o755);
    for name in ["hub.sqlite", "words.sqlite", "audit.jsonl"] {
        set(folder.path().join(name), 0o644);
    }
    let hub = Setup { folder, ..Setup::default() }.start().await;
    assert_eq!((mode(hub.folder.path()), mode(&hub.folder.path().join("artifacts"))), (0o700, 0o700));
    for file in files(hub.folder.path()) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn size_limit_covers_artifacts_messages_and_index() {
    const LIMIT: u64 = 4 << 20;
    let hub = open_hub().await;
    hub.set_limit(Some(LIMIT)).await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let path = "/v1/sessions/s/artifacts";
    let large = vec![7; 2 << 20];
    let digest = digest_of(&large);
    assert_eq!(hub.post(path, &json!({"digest":digest,"size":large.len()})).await.status, 200);
    assert_eq!(hub.request("PUT", &format!("{path}/{digest}"), &[], &large).await.json()["complete"], true);
    // Refused when it is announced, and also if more was announced than there is space for.
    let other = vec![8; 3 << 20];
    let refused = hub.post(path, &json!({"digest":digest_of(&other),"size":other.len()})).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "unavailable"));
    assert!(refused.text().contains("no space for this artifact"), "{}", refused.text());
    let two = [vec![1; 1 << 20], vec![2; 1 << 20]];
    for bytes in &two {
        assert_eq!(hub.post(path, &json!({"digest":digest_of(bytes),"size":bytes.len()})).await.status, 200);
    }
    let sent = [
        hub.request("PUT", &format!("{path}/{}", digest_of(&two[0])), &[], &two[0]).await.status,
        hub.request("PUT", &format!("{path}/{}", digest_of(&two[1])), &[], &two[1]).await.status,
    ];
    assert_eq!(sent, [200, 503]);
    // Messages get the rest: much less than in a hub without artifacts.
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    let mut last = 0;
    let words: String = (0..4_000).fold(String::new(), |text, number| text + &format!("word{number} "));
    let code = loop {
        runner.send(frame(last + 1, &[message("s", last + 1, &words)])).await;
        match runner.text().await {
            Ok(text) if text.contains("\"ack\"") => last += 1,
            Ok(text) => break serde_json::from_str::<Value>(&text).expect("JSON")["code"].clone(),
            Err(close) => panic!("closed with {close}"),
        }
        assert!(last < 200, "the limit has no effect");
    };
    assert_eq!(code, "unavailable");
    let size: u64 = files(hub.folder.path())
        .iter()
        .filter(|file| !file.to_string_lossy().ends_with("-wal") && !file.to_string_lossy().ends_with("-shm"))
        .map(|file| file.metadata().expect("a file").len())
        .sum();
    assert!(size <= LIMIT + (1 << 20), "{size} bytes are stored");
    hub.set_limit(None).await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, last + 1).await;
    runner.send(frame(last + 1, &[message("s", last + 1, &words)])).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: last + 1 });
    // Artifacts count after a restart too.
    let folder = hub.stop().await;
    let hub = Setup { folder, ..Setup::default() }.start().await;
    hub.set_limit(Some(2 << 20)).await;
    let refused = hub.post(path, &json!({"digest":digest_of(b"small"),"size":5})).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
}

#[tokio::test]
async fn declaring_a_digest_does_not_reveal_artifacts_of_other_sessions() {
    let hub = closed_hub().await;
    let bytes = b"a secret file";
    let digest = digest_of(bytes);
    let claim = json!({"digest":digest,"size":bytes.len()}).to_string();
    for (session, wrong) in [("s", &b"a public file"[..]), ("t", b"another guess")] {
        let runner = hub.token(&format!("runner:{session}")).await;
        let hello = hello(session, "a", 1, 0).to_string();
        with_token(&hub, "POST", &format!("/v1/runners/{session}/hello"), &runner, hello.as_bytes()).await;
        let all = format!("/v1/sessions/{session}/artifacts");
        let one = format!("{all}/{digest}");
        // The second session gets the same response as the first: no bytes are stored.
        let declared = with_token(&hub, "POST", &all, &runner, claim.as_bytes()).await;
        assert_eq!(declared.json(), json!({"offset":0,"complete":false}), "{session}");
        assert_eq!(with_token(&hub, "PUT", &one, &runner, wrong).await.status, 400);
        assert_eq!(with_token(&hub, "PUT", &one, &runner, bytes).await.json()["complete"], true);
        let again = with_token(&hub, "POST", &all, &runner, claim.as_bytes()).await;
        assert_eq!(again.json()["complete"], true, "it may know its own artifacts");
    }
    let watch = hub.token("watch").await;
    assert_eq!(hub.get_with(&format!("/v1/sessions/t/artifacts/{digest}"), &watch).await.body, bytes);
}

/// Counts reads of the tokens.
#[derive(Default)]
struct CountingTokens {
    inner: MemoryStore,
    reads: AtomicUsize,
}

impl TokenStore for CountingTokens {
    fn add_token(&self, token: Token) -> StoreFuture<()> {
        self.inner.add_token(token)
    }
    fn tokens(&self) -> StoreFuture<Vec<Token>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.tokens()
    }
    fn revoke_token(&self, id: &str, at: Timestamp) -> StoreFuture<bool> {
        self.inner.revoke_token(id, at)
    }
}

#[tokio::test]
async fn lookups_of_unknown_tokens_are_rate_limited() {
    let tokens = Arc::new(CountingTokens::default());
    let store = Store { tokens: Arc::clone(&tokens) as _, ..Arc::new(MemoryStore::default()).into() };
    let limits = Limits { requests_per_second: 1, ..Limits::default() };
    let hub = Setup { open: false, limits, store: Some(store), ..Setup::default() }.start().await;
    let unknown = format!("sabir_{}_{}", "0".repeat(12), "0".repeat(64));
    let start = Instant::now();
    let mut statuses = Vec::new();
    for _ in 0..200 {
        statuses.push(hub.get_with("/v1/sessions", &unknown).await.status);
    }
    // One refresh per second, plus two lookups from the full bucket and one more per second.
    let at_most = 4 + 2 * usize::try_from(start.elapsed().as_secs() + 1).expect("seconds");
    let reads = tokens.reads.load(Ordering::Relaxed);
    assert!(reads <= at_most && statuses.contains(&401) && statuses.contains(&429), "{reads} lookups, {statuses:?}");
}

#[tokio::test]
async fn audit_log_records_logins_and_refusals() {
    let tokens = OneTimeTokens::new("watch".parse().expect("a scope"));
    let limits = Limits { requests_per_second: 20, ..Limits::default() };
    let setup = Setup { open: false, one_time_tokens: Some(tokens.clone()), limits, ..Setup::default() };
    let hub = setup.start().await;
    let (watch_id, watch) = hub.token_until("watch", None).await;
    let exchanged = hub.post("/v1/enter", &json!({"token":tokens.issue().expect("randomness")})).await;
    assert_eq!(exchanged.status, 200);
    assert_eq!(with_token(&hub, "POST", "/v1/sessions/s/commands", &watch, b"{}").await.status, 403);
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(hub.get("/v1/sessions").await.status);
    }
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    assert!(count(401) > 0 && count(429) > 0 && count(401) + count(429) == 100, "{statuses:?}");
    let (refused, slowed) = (count(401), count(429));
    let folder = hub.stop().await;
    let text = file(folder.path(), "audit.jsonl");
    let lines = lines(&text);
    let of = |who: &str, what: &str| {
        let found: Vec<&Value> = lines.iter().filter(|line| line["who"] == who && line["what"] == what).collect();
        assert_eq!(found.len(), 1, "{text}");
        found[0]
    };
    let login = of("127.0.0.1", "login");
    assert_eq!(login["scopes"], json!(["watch"]));
    assert_eq!(exchanged.json()["token"].as_str().expect("a token").split('_').nth(1), login["token"].as_str());
    assert_eq!(of("127.0.0.1", "refused")["refused"], json!({"401":refused,"429":slowed}));
    assert_eq!(of(&format!("token {watch_id}"), "refused")["refused"], json!({"403":1}));
    assert!(lines.iter().all(|line| line["at"].is_string()) && !text.contains(&watch[20..]), "{text}");
}
