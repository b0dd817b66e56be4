//! `sabir hub` against what would harm it: events that are made to fill its memory, sent over the protocol with the token of
//! one runner, and a disk that changed what was written to it.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sabir_protocol::batch;
use serde_json::{Value, json};

use crate::hub::{Hub, start_at};
use crate::{sabir, stderr, stdout};

/// So many events of a megabyte; a hub that keeps them takes several times the memory that it may.
const EVENTS: u64 = 420;
/// The hub may take so much memory.
const MOST_KIB: u64 = 100 << 10;
const PATIENCE: Duration = Duration::from_secs(300);

fn token(folder: &Path, scope: &str) -> String {
    let made = sabir().args(["hub", "token", "new", "--scope", scope, "--data"]).arg(folder).output().expect("it runs");
    stdout(&made).trim().to_owned()
}

fn request(address: &str, token: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    write!(stream, "{head}Authorization: Bearer {token}\r\nSabir-Protocol: 1\r\n{headers}\r\n").expect("sent");
    stream.write_all(body).expect("sent");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("an answer");
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let status = std::str::from_utf8(&reply[9..12]).expect("digits").parse().expect("a status");
    (status, reply.split_off(end + 4))
}

fn get(hub: &Hub, token: &str, path: &str) -> (u16, Value) {
    let (status, body) = request(&hub.address, token, "GET", path, "", b"");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn hello(hub: &Hub, token: &str, session: &str) {
    let hello = json!({"type":"hello","session":session,"writer":"w","epoch":1,"last":0,"orders":0,"takes":[]});
    let path = format!("/v1/shells/{session}/hello");
    let (status, body) = request(&hub.address, token, "POST", &path, "", hello.to_string().as_bytes());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}

fn send(hub: &Hub, token: &str, session: &str, first: u64, line: &str) -> usize {
    let frame = batch::encode(first, 1, format!("{line}\n").as_bytes()).expect("it fits");
    let headers = "Content-Type: application/x-sabir-batch\r\nSabir-Writer: w\r\nSabir-Epoch: 1\r\n";
    let path = format!("/v1/shells/{session}/batches");
    let (status, body) = request(&hub.address, token, "POST", &path, headers, &frame);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    frame.len()
}

fn message(session: &str, seq: u64, kind: &str, payload: &str) -> String {
    let ts = "2026-01-02T03:04:05.678Z";
    format!(r#"{{"sessionId":"{session}","seq":{seq},"ts":"{ts}","type":"{kind}","payload":{payload}}}"#)
}

fn event(session: &str, seq: u64, fields: &str) -> String {
    message(session, seq, "event", &format!(r#"{{"json":{{"runId":"r","seq":{seq},{fields}}}}}"#))
}

/// A message with about a megabyte in one of the fields that name something.
fn large(session: &str, seq: u64) -> String {
    // Another one in each message, and small on the wire.
    let name = format!("{seq} {}", "x".repeat((1 << 20) - 600));
    let half = &name[..name.len() / 2];
    let fields = match seq % 14 {
        0 | 1 => format!(r#""kind":"toolStart","toolCallId":"{name}","name":"n","toolKind":"other""#),
        2 => format!(r#""kind":"permission","requestId":"{name}","title":"t""#),
        3 => format!(r#""kind":"usage","scope":"message","inputTokens":1,"outputTokens":1,"model":"{name}""#),
        4 => format!(r#""kind":"toolStart","toolCallId":"{seq}","name":"{half}","title":"{half}","toolKind":"other""#),
        5 => format!(r#""kind":"session","cwd":"{half}","model":"{half}""#),
        6 => format!(r#""kind":"session","sessionId":"{half}","agentVersion":"{half}""#),
        7 => format!(r#""kind":"fileChange","path":"{name}","change":"created","source":"reported""#),
        8 => format!(r#""kind":"text","delta":"d","messageId":"{name}""#),
        9 => format!(r#""parentToolCallId":"{name}","kind":"activity","message":"a""#),
        10 => format!(r#""kind":"unrecognized","type":"{name}","raw":"r""#),
        11 => format!(r#""kind":"toolStart","toolCallId":"{seq}","name":"n","input":"{name}","toolKind":"other""#),
        12 => format!(r#""kind":"error","message":"{name}","fatal":false"#),
        _ => return message(session, seq, "log", &format!(r#"{{"text":"{name}"}}"#)),
    };
    event(session, seq, &fields)
}

fn peak_kib(hub: &Hub) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", hub.child.id())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).expect("a figure").parse().expect("a number")
}

/// Asks for everything that shows the session, and waits until its overview has all messages.
fn look(hub: &Hub, token: &str) {
    let begun = Instant::now();
    let session = loop {
        let (status, session) = get(hub, token, "/v1/sessions/evil");
        assert_eq!(status, 200);
        if session["folded"] == EVENTS + 1 {
            break session;
        }
        assert!(begun.elapsed() < PATIENCE, "{session}");
    };
    assert_eq!(session["overview"]["toolCalls"], EVENTS / 14 * 4, "all of it was counted: {session}");
    let (status, list) = get(hub, token, "/v1/sessions?limit=500");
    assert_eq!((status, list["sessions"].as_array().expect("a list").len()), (200, 2));
    assert!(list.to_string().len() < 20_000, "the list is {} bytes", list.to_string().len());
    let (status, results) = get(hub, token, "/v1/sessions/evil/result");
    assert_eq!(status, 200);
    assert!(results["omitted"]["toolCalls"].as_u64() > Some(0), "what is left out is counted");
    for path in ["/v1/agents", "/v1/usage", "/v1/sessions?text=hello"] {
        assert_eq!(get(hub, token, path).0, 200, "{path}");
    }
    // The timeline as the page reads it, up to where it is live.
    let mut stream = TcpStream::connect(&hub.address).expect("a connection");
    let mut head = format!("GET /v1/sessions/evil/timeline HTTP/1.1\r\nHost: {}\r\n", hub.address);
    let _ = write!(head, "Authorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let (mut seen, mut piece, mut all) = (Vec::new(), vec![0; 64 << 10], 0);
    while !seen.windows(11).any(|window| window == b"event: live") {
        let read = stream.read(&mut piece).expect("more of it");
        assert!(read > 0, "it broke off");
        seen.drain(..seen.len().saturating_sub(16));
        seen.extend_from_slice(&piece[..read]);
        all += read;
    }
    assert!(all < 8 << 20, "{all} bytes of timeline");
}

#[test]
fn one_runner_can_not_fill_the_memory_of_a_hub() {
    let folder = tempfile::tempdir().expect("a folder");
    let (evil, good) = (token(folder.path(), "runner:evil"), token(folder.path(), "runner:good"));
    let watch = token(folder.path(), "watch");
    let hub = start_at(folder.path(), "127.0.0.1:0", &["--max-rate", "100000"]);
    hello(&hub, &evil, "evil");
    hello(&hub, &good, "good");
    send(&hub, &evil, "evil", 1, &event("evil", 1, r#""kind":"started","agent":"codex""#));
    let (done, served) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Another session meanwhile: what it sends is taken, and it is shown.
            while !done.load(Ordering::Relaxed) {
                let seq = served.fetch_add(1, Ordering::Relaxed) + 1;
                send(&hub, &good, "good", seq, &message("good", seq, "log", r#"{"text":"hello"}"#));
                assert_eq!(get(&hub, &watch, "/v1/sessions/good").1["last"], seq);
            }
        });
        let bytes: usize = (2..=EVENTS + 1).map(|seq| send(&hub, &evil, "evil", seq, &large("evil", seq))).sum();
        done.store(true, Ordering::Relaxed);
        assert!(bytes < 400_000, "it is a small attack: {bytes} bytes");
    });
    look(&hub, &watch);
    assert!(served.load(Ordering::Relaxed) > 10);
    let peak = peak_kib(&hub);
    assert!(peak <= MOST_KIB, "the hub took {peak} KiB");
    // Killed, it comes back and is as before.
    drop(hub);
    let hub = start_at(folder.path(), "127.0.0.1:0", &["--max-rate", "100000"]);
    look(&hub, &watch);
    let (status, good) = get(&hub, &watch, "/v1/sessions/good");
    assert_eq!((status, good["last"].as_u64()), (200, Some(served.load(Ordering::Relaxed))));
    assert_eq!(get(&hub, &watch, "/healthz").0, 200);
    let again = peak_kib(&hub);
    assert!(again <= MOST_KIB, "the hub took {again} KiB after a restart");
}

#[test]
fn verify_names_the_damaged_message_and_exits_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let verify = |arguments: &[&str]| {
        sabir().args(["hub", "verify", "--data"]).arg(folder.path()).args(arguments).output().expect("it runs")
    };
    let missing = verify(&[]);
    assert_eq!(missing.status.code(), Some(6), "{}", stderr(&missing));
    assert!(stderr(&missing).contains("the folder has no hub database") && stderr(&missing).contains("--data"));
    let hub = start_at(folder.path(), "127.0.0.1:0", &["--open"]);
    hello(&hub, "", "s");
    for seq in 1..=3 {
        send(&hub, "", "s", seq, &message("s", seq, "log", &format!(r#"{{"text":"needle {seq}"}}"#)));
    }
    let beside = verify(&["--json"]);
    let report: Value = serde_json::from_slice(&beside.stdout).expect("JSON");
    assert_eq!((beside.status.code(), &report["messages"], &report["problems"]), (Some(0), &json!(3), &json!([])));
    assert_eq!(hub.stop().1, Some(0));
    let database = folder.path().join("hub.sqlite");
    let mut bytes = std::fs::read(&database).expect("a file");
    let at = bytes.windows(8).position(|window| window == b"needle 2").expect("the message");
    bytes[at] ^= 4;
    std::fs::write(&database, bytes).expect("written");
    let found = verify(&[]);
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    assert!(stdout(&found).contains("messages are damaged or missing"), "{}", stdout(&found));
    assert!(stderr(&found).contains("1 messages are damaged") && stderr(&found).contains("--repair"), "{}", stderr(&found));
    let report: Value = serde_json::from_slice(&verify(&["--json"]).stdout).expect("JSON");
    assert_eq!(report["problems"], json!([{"session":"s","messages":[2,2],"what":"messages are damaged or missing"}]));
    let hub = start_at(folder.path(), "127.0.0.1:0", &["--open"]);
    let busy = verify(&["--repair"]);
    assert!(busy.status.code() == Some(6) && stderr(&busy).contains("stop the hub"), "{}", stderr(&busy));
    let (status, log) = request(&hub.address, "", "GET", "/v1/sessions/s/log", "", b"");
    assert!(status == 200 && String::from_utf8_lossy(&log).contains("message 2 is damaged"));
    let begun = Instant::now();
    while get(&hub, "", "/healthz").0 != 503 {
        assert!(begun.elapsed() < PATIENCE, "it says that it is well");
    }
}
