//! A hub whose database was damaged while it was stopped: what it gives out is true or marked, and never a wrong answer.

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

/// What is kept, by session.
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

/// The folder of a stopped hub.
async fn stopped() -> (Arc<tempfile::TempDir>, Truth) {
    let hub = open_hub().await;
    let truth = truth();
    for (session, lines) in &truth {
        let mut shell = hub.shell(session).await;
        shell.hello(session, "a", 1, 0).await;
        shell.send(frame(1, lines)).await;
        assert_eq!(shell.hear().await, FromHub::Ack { last: MESSAGES });
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

fn change(file: &Path, at: u64, change: impl FnOnce(&mut [u8]), bytes: usize) {
    let mut file = OpenOptions::new().read(true).write(true).open(file).expect("a file");
    let mut part = vec![0; bytes];
    file.seek(SeekFrom::Start(at)).expect("a place");
    file.read_exact(&mut part).expect("bytes");
    change(&mut part);
    file.seek(SeekFrom::Start(at)).expect("a place");
    file.write_all(&part).expect("written");
}

/// Where a text stands in a file.
fn places(file: &Path, text: &str) -> Vec<u64> {
    let bytes = fs::read(file).expect("a file");
    let found = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
    found.map(|(at, _)| at as u64).collect()
}

async fn start(folder: &Arc<tempfile::TempDir>) -> Running {
    Setup { folder: Arc::clone(folder), ..Setup::default() }.start().await
}

/// What is shown is what was kept, or marked. Whether something is.
async fn shows_nothing_wrong(hub: &Running, truth: &Truth, what: &str) -> bool {
    let mut marked = false;
    let list = hub.get("/v1/sessions").await;
    assert_eq!(list.status, 200, "{what}: {}", list.text());
    let list = list.json()["sessions"].as_array().expect("a list").clone();
    for (session, lines) in truth {
        let listed = list.iter().find(|listed| listed["session"] == *session);
        let reply = hub.get(&format!("/v1/sessions/{session}/log")).await;
        if listed.is_none() {
            marked |= list.iter().any(|listed| !listed["damaged"].is_null());
            assert!(marked && reply.status != 200, "{what}: {session} is not there and nothing says so");
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
        // It is folded meanwhile, where it has to be made anew.
        let shown = loop {
            let shown = hub.get(&format!("/v1/sessions/{session}")).await.json();
            if !shown["damaged"].is_null() || shown["folded"] == shown["last"] {
                break shown;
            }
        };
        let is_marked = !shown["damaged"].is_null();
        let figures = &shown["overview"];
        let right = figures["tokens"] == MESSAGES / 2 * 11 && figures["agent"] == "codex" && shown["last"] == MESSAGES;
        assert!(is_marked || right, "{what}: {shown}");
        assert!(is_marked || (gaps == 0 && reply.status == 200), "{what}: {session} has {gaps} gaps and no mark");
        let result = hub.get(&format!("/v1/sessions/{session}/result")).await.json();
        let is_whole = result["runs"][0]["tokens"]["total"] == MESSAGES / 2 * 11;
        assert!(is_whole || is_marked, "{what}: {result}");
        assert_eq!(result["gaps"].is_array(), gaps > 0, "{what}: {result}");
        marked |= is_marked;
    }
    marked
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_overwritten_is_never_a_wrong_answer() {
    let (folder, truth) = stopped().await;
    let pages = fs::metadata(folder.path().join("hub.sqlite")).expect("a file").len() / PAGE as u64;
    let mut harmless = 0;
    for page in 1..pages {
        let folder = copy(folder.path());
        let database = folder.path().join("hub.sqlite");
        change(&database, page * PAGE as u64, |bytes| bytes.fill(0xAA), PAGE);
        let hub = start(&folder).await;
        let marked = shows_nothing_wrong(&hub, &truth, &format!("page {page}")).await;
        let health = hub.get("/healthz").await;
        assert!(!marked || health.status == 503, "page {page} is damaged and the hub says that it is well");
        if health.status == 200 {
            harmless += 1;
        }
        hub.stop().await;
    }
    assert!(pages > 12 && harmless < pages / 2, "{harmless} of {pages} pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_that_was_flipped_is_never_a_wrong_answer() {
    let (folder, truth) = stopped().await;
    let bytes = fs::metadata(folder.path().join("hub.sqlite")).expect("a file").len();
    // The first page says what tables there are: without it nothing can be opened, which is no wrong answer either.
    let mut at = PAGE as u64 + 7;
    let mut marked = 0;
    while at < bytes {
        let folder = copy(folder.path());
        change(&folder.path().join("hub.sqlite"), at, |byte| byte[0] ^= 1 << (at % 8), 1);
        let hub = start(&folder).await;
        marked += u32::from(shows_nothing_wrong(&hub, &truth, &format!("bit at {at}")).await);
        hub.stop().await;
        at += 1_511;
    }
    assert!(marked > 10, "{marked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_message_is_a_gap_for_everybody_who_reads_it() {
    let (folder, truth) = stopped().await;
    let database = folder.path().join("hub.sqlite");
    let at = places(&database, "word7 second")[0];
    change(&database, at, |byte| byte[0] ^= 1, 1);
    let found = verify(folder.path(), false, &mut |_, _| ()).expect("checked");
    let [problem] = &found.problems[..] else { panic!("{found:?}") };
    assert_eq!((problem.session.as_ref().map(SessionId::as_str), problem.messages), (Some("second"), Some([7, 7])));
    assert_eq!((found.sessions, found.messages, found.damaged_messages), (3, 3 * MESSAGES, 1));
    let hub = start(&folder).await;
    assert_eq!(hub.get("/healthz").await.status, 200, "nobody has read it yet");
    assert!(shows_nothing_wrong(&hub, &truth, "one message").await);
    let mut events = hub.events("/v1/sessions/second/events?after=6&only=event", &[]).await;
    assert_eq!(events.next().await.map(|(seq, message)| (seq, message["type"].clone())), Some((7, json!("gap"))));
    let mut timeline = hub.events("/v1/sessions/second/timeline", &[]).await;
    let (_, _, changes) = timeline.next_of_type().await.expect("changes");
    assert!(changes.to_string().contains("message 7 is damaged"), "{changes}");
    let one = hub.get("/v1/sessions/second/events/7").await;
    assert!(one.status == 500 && one.text().contains("damaged"), "{}", one.text());
    let result = hub.get("/v1/sessions/second/result").await.json();
    assert_eq!(result["gaps"], json!([[7, 7]]));
    assert!(hub.get("/v1/sessions/first").await.json()["damaged"].is_null(), "the others are well");
    // Who is to write on where another one wrote does not get a log with a gap.
    let shell = hub.request("GET", "/v1/shells/second/log?after=6", &[("Sabir-Protocol", "1")], b"").await;
    assert!(!shell.text().contains("gap"), "{}", shell.text());
    let health = hub.get("/healthz").await;
    // It was looked at less than a second ago.
    let health = if health.status == 200 { loop_until_unwell(&hub).await } else { health.text() };
    assert!(health.contains("1 sessions are damaged") && !health.contains("second"), "{health}");
    // The shell still has it, and sends it again: it is whole again.
    let mut shell = hub.shell("second").await;
    shell.hello("second", "a", 1, MESSAGES).await;
    shell.send(frame(7, &truth["second"][6..7])).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: MESSAGES });
    assert!(!hub.get("/v1/sessions/second/log").await.text().contains("\"gap\""));
    drop(shell);
    hub.stop().await;
}

async fn loop_until_unwell(hub: &Running) -> String {
    loop {
        let health = hub.get("/healthz").await;
        if health.status == 503 {
            return health.text();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_overview_is_made_anew_and_a_damaged_row_takes_nothing() {
    let (folder, truth) = stopped().await;
    let database = folder.path().join("hub.sqlite");
    let connection = rusqlite::Connection::open(&database).expect("a database");
    // Not JSON any more; JSON with another figure; another last message.
    connection.execute("UPDATE session SET overview = '{\"to' WHERE name = 'first'", []).expect("changed");
    let figure = "UPDATE session SET overview = replace(overview, '\"toolCalls\":0', '\"toolCalls\":9') WHERE name = 'second'";
    assert_eq!(connection.execute(figure, []), Ok(1));
    connection.execute("UPDATE session SET last = 12 WHERE name = 'third'", []).expect("changed");
    drop(connection);
    let hub = start(&folder).await;
    assert!(shows_nothing_wrong(&hub, &truth, "rows").await);
    for session in ["first", "second"] {
        let shown = hub.get(&format!("/v1/sessions/{session}")).await.json();
        assert_eq!((&shown["damaged"], &shown["overview"]["toolCalls"]), (&json!(null), &json!(0)), "made anew: {shown}");
    }
    let third = hub.get("/v1/sessions/third").await.json();
    assert_eq!(third["damaged"], "its row in the database is damaged");
    assert_eq!(hub.get("/v1/sessions/third/log").await.text().lines().count() as u64, MESSAGES, "what is there is shown");
    assert_eq!(hub.get("/healthz").await.status, 503);
    let refused = hub.post("/v1/shells/third/hello", &hello("third", "a", 1, MESSAGES)).await;
    assert_eq!(refused.status, 500, "nothing is acknowledged where it is not known how far it is");
    hub.stop().await;
    let found = verify(folder.path(), true, &mut |_, _| ()).expect("checked");
    assert!(!found.is_intact() && found.repaired.iter().any(|what| what.contains("third")), "{found:?}");
    assert!(verify(folder.path(), false, &mut |_, _| ()).expect("checked").is_intact());
    let hub = start(&folder).await;
    assert!(!shows_nothing_wrong(&hub, &truth, "repaired").await);
    assert_eq!(hub.get("/healthz").await.status, 200);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_index_of_words_costs_no_hit() {
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
async fn a_folder_of_the_version_before_opens_and_lets_go_of_overviews_that_are_too_large() {
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
    let mut shell = hub.shell("old").await;
    shell.hello("old", "a", 1, 2).await;
    shell.send(frame(3, &[message("old", 3, "more")])).await;
    assert_eq!(shell.hear().await, FromHub::Ack { last: 3 });
    drop(shell);
    hub.stop().await;
    let found = verify(folder.path(), false, &mut |_, _| ()).expect("checked");
    assert!(found.is_intact(), "{found:?}");
    assert_eq!((found.messages, found.without_checksum), (3, 2));
}
