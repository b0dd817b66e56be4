//! A damaged database: every response is either correct or marked as damaged.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use sabir_hub::store::sqlite::verify;
use sabir_protocol::{FromHub, SessionId};
use serde_json::{Value, json};

use crate::client::{Running, Setup, event, frame, hello, message, open_hub};

const SESSIONS: [&str; 3] = ["first", "second", "third"];
const MESSAGES: u64 = 40;
const PAGE: usize = 4_096;

/// Stored lines by session.
type Truth = BTreeMap<&'static str, Vec<String>>;

fn truth() -> Truth {
    let lines = |session: &'static str| {
        let line = |seq| match seq {
            1 => event(session, 1, &json!({"kind":"started","agent":"codex"})),
            seq if seq % 2 == 0 => event(
                session,
                seq,
                &json!({"kind":"usage","scope":"message","inputTokens":10,"outputTokens":1,"model":"m".repeat(200)}),
            ),
            seq => message(session, seq, &format!("word{seq} {session} {}", "pad ".repeat(100))),
        };
        (session, (1..=MESSAGES).map(line).collect())
    };
    SESSIONS.into_iter().map(lines).collect()
}

/// The folder of a stopped hub with some sessions.
async fn stopped() -> (Arc<tempfile::TempDir>, Truth) {
    let hub = open_hub().await;
    let truth = truth();
    for (session, lines) in &truth {
        let mut runner = hub.runner(session).await;
        runner.hello(session, "a", 1, 0).await;
        runner.send(frame(1, lines)).await;
        assert_eq!(runner.receive().await, FromHub::Ack { last: MESSAGES });
        while hub.get(&format!("/v1/sessions/{session}")).await.json()["folded"] != MESSAGES {}
    }
    (hub.stop().await, truth)
}

fn copy(folder: &Path) -> Arc<tempfile::TempDir> {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    Arc::new(copy)
}

/// Changes some bytes of a file.
fn change(file: &Path, at: u64, change: impl FnOnce(&mut [u8]), bytes: usize) {
    let mut file = OpenOptions::new().read(true).write(true).open(file).expect("a file");
    let mut part = vec![0; bytes];
    file.seek(SeekFrom::Start(at)).expect("a place");
    file.read_exact(&mut part).expect("bytes");
    change(&mut part);
    file.seek(SeekFrom::Start(at)).expect("a place");
    file.write_all(&part).expect("written");
}

/// Offsets of a text in a file.
fn offsets(file: &Path, text: &str) -> Vec<u64> {
    let bytes = fs::read(file).expect("a file");
    let matches = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
    matches.map(|(at, _)| at as u64).collect()
}

async fn start(folder: &Arc<tempfile::TempDir>) -> Running {
    Setup { folder: Arc::clone(folder), ..Setup::default() }.start().await
}

/// Asserts that every response is correct or marked, and returns whether any is marked.
async fn assert_correct_or_marked(hub: &Running, truth: &Truth, what: &str) -> bool {
    let mut marked = false;
    let list = hub.get("/v1/sessions").await;
    assert_eq!(list.status, 200, "{what}: {}", list.text());
    let list = list.json()["sessions"].as_array().expect("a list").clone();
    for (session, lines) in truth {
        let listed = list.iter().find(|listed| listed["session"] == *session);
        let reply = hub.get(&format!("/v1/sessions/{session}/log")).await;
        if listed.is_none() {
            marked |= list.iter().any(|listed| !listed["damaged"].is_null());
            assert!(marked && reply.status != 200, "{what}: {session} is missing without a mark");
            continue;
        }
        let text = reply.text();
        let mut gaps = 0;
        if reply.status == 200 {
            assert_eq!(text.lines().count() as u64, MESSAGES, "{what}: {session} has another length");
            for (line, expected) in text.lines().zip(lines) {
                if line != expected {
                    let seq: Value = serde_json::from_str(expected).expect("JSON");
                    let gap: Value = serde_json::from_str(line).expect("JSON");
                    assert_eq!((&gap["type"], &gap["seq"]), (&json!("gap"), &seq["seq"]), "{what}: {line}");
                    gaps += 1;
                }
            }
        } else {
            assert_eq!(reply.status, 500, "{what}: {text}");
        }
        // A damaged overview is being rebuilt.
        let current = loop {
            let current = hub.get(&format!("/v1/sessions/{session}")).await.json();
            if !current["damaged"].is_null() || current["folded"] == current["last"] {
                break current;
            }
        };
        let is_marked = !current["damaged"].is_null();
        let overview = &current["overview"];
        let is_correct = overview["tokens"] == MESSAGES / 2 * 11 && overview["agent"] == "codex" && current["last"] == MESSAGES;
        assert!(is_marked || is_correct, "{what}: {current}");
        assert!(is_marked || (gaps == 0 && reply.status == 200), "{what}: {session} has {gaps} gaps and no mark");
        let result = hub.get(&format!("/v1/sessions/{session}/result")).await.json();
        let is_complete = result["runs"][0]["tokens"]["total"] == MESSAGES / 2 * 11;
        assert!(is_complete || is_marked, "{what}: {result}");
        assert_eq!(result["gaps"].is_array(), gaps > 0, "{what}: {result}");
        marked |= is_marked;
    }
    marked
}

#[tokio::test(flavor = "multi_thread")]
async fn overwritten_pages_are_detected() {
    let (folder, truth) = stopped().await;
    let pages = fs::metadata(folder.path().join("hub.sqlite")).expect("a file").len() / PAGE as u64;
    let mut harmless = 0;
    for page in 1..pages {
        let folder = copy(folder.path());
        let database = folder.path().join("hub.sqlite");
        change(&database, page * PAGE as u64, |bytes| bytes.fill(0xAA), PAGE);
        let hub = start(&folder).await;
        let marked = assert_correct_or_marked(&hub, &truth, &format!("page {page}")).await;
        let health = hub.get("/healthz").await;
        assert!(!marked || health.status == 503, "page {page} is damaged but the hub is healthy");
        if health.status == 200 {
            harmless += 1;
        }
        hub.stop().await;
    }
    assert!(pages > 12 && harmless < pages / 2, "{harmless} of {pages} pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bits_are_detected() {
    let (folder, truth) = stopped().await;
    let bytes = fs::metadata(folder.path().join("hub.sqlite")).expect("a file").len();
    // Damage to the first page, which has the list of tables, prevents opening the database.
    let mut at = PAGE as u64 + 7;
    let mut marked = 0;
    while at < bytes {
        let folder = copy(folder.path());
        change(&folder.path().join("hub.sqlite"), at, |byte| byte[0] ^= 1 << (at % 8), 1);
        let hub = start(&folder).await;
        marked += u32::from(assert_correct_or_marked(&hub, &truth, &format!("bit at {at}")).await);
        hub.stop().await;
        at += 1_511;
    }
    assert!(marked > 10, "{marked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_message_is_a_gap_until_the_runner_sends_it_again() {
    let (folder, truth) = stopped().await;
    let database = folder.path().join("hub.sqlite");
    let at = offsets(&database, "word7 second")[0];
    change(&database, at, |byte| byte[0] ^= 1, 1);
    let verification = verify(folder.path(), false, &mut |_, _| ()).expect("checked");
    let [problem] = &verification.problems[..] else { panic!("{verification:?}") };
    assert_eq!((problem.session.as_ref().map(SessionId::as_str), problem.messages), (Some("second"), Some([7, 7])));
    assert_eq!((verification.sessions, verification.messages, verification.damaged_messages), (3, 3 * MESSAGES, 1));
    let hub = start(&folder).await;
    assert_eq!(hub.get("/healthz").await.status, 200, "it was not read yet");
    assert!(assert_correct_or_marked(&hub, &truth, "one message").await);
    let mut events = hub.events("/v1/sessions/second/events?after=6&only=event", &[]).await;
    assert_eq!(events.next().await.map(|(seq, message)| (seq, message["type"].clone())), Some((7, json!("gap"))));
    let mut timeline = hub.events("/v1/sessions/second/timeline", &[]).await;
    let (_, _, changes) = timeline.next_of_type().await.expect("changes");
    assert!(changes.to_string().contains("message 7 is damaged"), "{changes}");
    let one = hub.get("/v1/sessions/second/events/7").await;
    assert!(one.status == 500 && one.text().contains("damaged"), "{}", one.text());
    let result = hub.get("/v1/sessions/second/result").await.json();
    assert_eq!(result["gaps"], json!([[7, 7]]));
    assert!(hub.get("/v1/sessions/first").await.json()["damaged"].is_null(), "the others are intact");
    // A runner cannot resume from a log with a gap.
    let log = hub.request("GET", "/v1/runners/second/log?after=6", &[("Sabir-Protocol", "1")], b"").await;
    assert!(!log.text().contains("gap"), "{}", log.text());
    let health = hub.get("/healthz").await;
    // The result of a health check is reused for a second.
    let health = if health.status == 200 { wait_until_unhealthy(&hub).await } else { health.text() };
    assert!(health.contains("1 sessions are damaged") && !health.contains("second"), "{health}");
    // The runner sends the message again, which repairs it.
    let mut runner = hub.runner("second").await;
    runner.hello("second", "a", 1, MESSAGES).await;
    runner.send(frame(7, &truth["second"][6..7])).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: MESSAGES });
    assert!(!hub.get("/v1/sessions/second/log").await.text().contains("\"gap\""));
    drop(runner);
    hub.stop().await;
}

async fn wait_until_unhealthy(hub: &Running) -> String {
    loop {
        let health = hub.get("/healthz").await;
        if health.status == 503 {
            return health.text();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_overview_is_rebuilt_and_damaged_row_is_read_only() {
    let (folder, truth) = stopped().await;
    let database = folder.path().join("hub.sqlite");
    let connection = rusqlite::Connection::open(&database).expect("a database");
    // Invalid JSON; JSON with another number; another last message.
    connection.execute("UPDATE session SET overview = '{\"to' WHERE name = 'first'", []).expect("changed");
    let number = "UPDATE session SET overview = replace(overview, '\"toolCalls\":0', '\"toolCalls\":9') WHERE name = 'second'";
    assert_eq!(connection.execute(number, []), Ok(1));
    connection.execute("UPDATE session SET last = 12 WHERE name = 'third'", []).expect("changed");
    drop(connection);
    let hub = start(&folder).await;
    assert!(assert_correct_or_marked(&hub, &truth, "rows").await);
    for session in ["first", "second"] {
        let current = hub.get(&format!("/v1/sessions/{session}")).await.json();
        assert_eq!((&current["damaged"], &current["overview"]["toolCalls"]), (&json!(null), &json!(0)), "rebuilt: {current}");
    }
    let third = hub.get("/v1/sessions/third").await.json();
    assert_eq!(third["damaged"], "its row in the database is damaged");
    assert_eq!(hub.get("/v1/sessions/third/log").await.text().lines().count() as u64, MESSAGES, "readable messages are returned");
    assert_eq!(hub.get("/healthz").await.status, 503);
    let refused = hub.post("/v1/runners/third/hello", &hello("third", "a", 1, MESSAGES)).await;
    assert_eq!(refused.status, 500, "nothing is acknowledged if the last number is unknown");
    hub.stop().await;
    let verification = verify(folder.path(), true, &mut |_, _| ()).expect("checked");
    let is_repaired = verification.repaired.iter().any(|what| what.contains("third"));
    assert!(!verification.is_intact() && is_repaired, "{verification:?}");
    assert!(verify(folder.path(), false, &mut |_, _| ()).expect("checked").is_intact());
    let hub = start(&folder).await;
    assert!(!assert_correct_or_marked(&hub, &truth, "repaired").await);
    assert_eq!(hub.get("/healthz").await.status, 200);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_word_index_does_not_change_search_results() {
    let (folder, _) = stopped().await;
    let words = folder.path().join("words.sqlite");
    let hub = start(&folder).await;
    assert_eq!(hub.get("/v1/sessions?text=word7").await.json()["sessions"].as_array().map(Vec::len), Some(3));
    hub.stop().await;
    let pages = fs::metadata(&words).expect("a file").len() / PAGE as u64;
    for page in 1..pages {
        let folder = copy(folder.path());
        change(&folder.path().join("words.sqlite"), page * PAGE as u64, |bytes| bytes.fill(0xAA), PAGE);
        let hub = start(&folder).await;
        let reply = hub.get("/v1/sessions?text=word7").await;
        let hits = reply.json()["sessions"].as_array().map(Vec::len);
        assert_eq!((reply.status, hits), (200, Some(3)), "page {page}: {}", reply.text());
        hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_of_an_earlier_version_opens_and_drops_oversized_overviews() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let connection = rusqlite::Connection::open(folder.path().join("hub.sqlite")).expect("a database");
    connection.execute_batch(include_str!("tables-1.sql")).expect("tables");
    let started = event("old", 1, &json!({"kind":"started","agent":"pi"}));
    let turn = event("old", 2, &json!({"kind":"turnStart","turn":1}));
    for (seq, line) in [(1, &started), (2, &turn)] {
        let values = rusqlite::params![seq, line.as_bytes()];
        connection.execute("INSERT INTO message (session, seq, line) VALUES (1, ?1, ?2)", values).expect("kept");
    }
    let overview = json!({"agent":"pi","cwd":"x".repeat(1 << 20),"turns":1}).to_string();
    let insert = "INSERT INTO session (name, writer, epoch, start, last, created, updated, folded, agent, overview)
                  VALUES ('old', 'a', 1, 0, 2, 1, 1, 2, 'pi', ?1)";
    connection.execute(insert, [overview]).expect("kept");
    connection.pragma_update(None, "user_version", 1).expect("a version");
    drop(connection);
    let hub = start(&folder).await;
    loop {
        let list = hub.get("/v1/sessions").await;
        assert!(list.status == 200 && list.body.len() < 10_000);
        let session = &list.json()["sessions"][0];
        if session["folded"] == 2 {
            let overview = &session["overview"];
            assert_eq!((&overview["agent"], &overview["turns"], &session["damaged"]), (&json!("pi"), &json!(1), &json!(null)));
            break;
        }
    }
    let mut runner = hub.runner("old").await;
    runner.hello("old", "a", 1, 2).await;
    runner.send(frame(3, &[message("old", 3, "more")])).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 3 });
    drop(runner);
    hub.stop().await;
    let verification = verify(folder.path(), false, &mut |_, _| ()).expect("checked");
    assert!(verification.is_intact(), "{verification:?}");
    assert_eq!((verification.messages, verification.without_checksum), (3, 2));
}
