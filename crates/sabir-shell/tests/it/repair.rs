//! Repair of outboxes with flipped bits, and with messages that an earlier version cut at line breaks.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_protocol::SessionId;
use sabir_shell::RunnerError;
use sabir_shell::outbox::{Outbox, PageReader, Position};
use sabir_shell::sink::StorageSink;
use sabir_shell::uploader::DeliveryOutcome;
use sabir_store::{Cursor, Home, Journal, Kind, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

fn session() -> SessionId {
    "s/1".parse().expect("a session")
}

fn open(home: &Home) -> Arc<Outbox> {
    Arc::new(Outbox::open(home, &session()).expect("readable").expect("an outbox"))
}

/// A single-line message with this sequence number.
fn message(seq: u64) -> String {
    let payload = json!({ "text": format!("text of message {seq}") });
    json!({"sessionId": "s/1", "ts": "2026-01-02T03:04:05Z", "type": "log", "level": "info", "seq": seq, "payload": payload})
        .to_string()
}

/// A message over several lines, like tool arguments of a model.
fn cut_message(seq: u64) -> String {
    let head = r#"{"sessionId":"s/1","ts":"2026-01-02T03:04:05Z","type":"tool_event","level":"info","#;
    format!(
        "{head}\"seq\":{seq},\"payload\":{{\"args\":{{\n  \"path\": \".\",\n  \"edits\": [\n{{\"a\": 1}},\n{{\"a\": 2}}\n]\n}}}}}}"
    )
}

fn append(outbox: &Outbox, line: &str) {
    outbox.append(format!("{line}\n").as_bytes());
}

/// All messages, as read for delivery.
fn messages(outbox: &Arc<Outbox>) -> Vec<Value> {
    outbox.sync().expect("synced");
    let (mut pages, mut all) = (PageReader::new(Arc::clone(outbox)), Vec::new());
    while let Some(page) = pages.read_page(outbox.after() + 1 + all.len() as u64, 3, 10_000).expect("readable") {
        let lines = page.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        all.extend(lines.map(|line| serde_json::from_slice::<Value>(line).expect("a line is JSON")));
    }
    for (message, seq) in all.iter().zip(outbox.after() + 1..) {
        assert_eq!(message["seq"], seq);
    }
    assert_eq!(all.len() as u64, outbox.last() - outbox.after());
    all
}

fn is_lost(message: &Value) -> bool {
    message["level"] == "error" && message["payload"]["text"].as_str().is_some_and(|text| text.contains("lost"))
}

/// An outbox of a version that cut messages at line breaks.
fn earlier_outbox(home: &Home, messages: &[String]) {
    let folder = home.outbox("s/1").expect("a folder");
    let journal = Journal::open_in(&folder, Cursor::START, Options::default()).expect("open");
    let meta = json!({"schema": "sabir.outbox/1", "session": "s/1", "writer": "earlier", "after": 0}).to_string();
    let put = |kind, text: &str| journal.append(kind, 0, |out| out.extend_from_slice(text.as_bytes())).expect("appended");
    put(Kind::Meta, &meta);
    for line in messages.iter().flat_map(|message| message.lines()) {
        put(Kind::Message, line);
    }
    journal.finish().expect("written");
}

fn homes() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::at(folder.path().join("home"));
    (folder, home)
}

#[test]
fn joins_messages_cut_at_line_breaks() {
    let (_folder, home) = homes();
    earlier_outbox(&home, &[message(1), cut_message(2), cut_message(3), message(4), message(5), cut_message(6)]);
    let (repair, count) = Outbox::check(&home, &session()).expect("readable").expect("an outbox");
    assert_eq!((repair.restored, repair.lost_count(), count), (3, 0, 6));
    let outbox = open(&home);
    assert_eq!((outbox.repair().restored, outbox.repair().lost_count(), outbox.writer()), (3, 0, "earlier"));
    let all = messages(&outbox);
    assert_eq!(all.len(), 6);
    assert_eq!(all[1]["payload"]["args"], json!({"path": ".", "edits": [{"a": 1}, {"a": 2}]}));
    append(&outbox, &message(7));
    assert_eq!(messages(&outbox).len(), 7);
    drop(outbox);
    // The repair is permanent.
    assert!(Outbox::check(&home, &session()).expect("readable").expect("an outbox").0.is_empty());
    let outbox = open(&home);
    assert!(outbox.repair().is_empty() && messages(&outbox).len() == 7);
}

#[test]
fn reports_message_with_missing_piece() {
    let (_folder, home) = homes();
    let mut cut = cut_message(2);
    cut.truncate(cut.len() - 6);
    earlier_outbox(&home, &[message(1), cut, message(3), message(4)]);
    let outbox = open(&home);
    assert_eq!(outbox.repair().lost, [2..=2]);
    let all = messages(&outbox);
    assert_eq!(all.iter().map(is_lost).collect::<Vec<_>>(), [false, true, false, false]);
    assert!(all[1]["payload"]["text"].as_str().is_some_and(|text| text.contains("message 2 was lost")));
}

#[test]
fn append_replaces_invalid_lines() {
    let (_folder, home) = homes();
    let outbox = Outbox::create(&home, &session(), "w".to_owned(), Position::FIRST).expect("created");
    append(&outbox, &message(1));
    append(&outbox, &format!("{}\n{}\n{}\n{}", cut_message(2), cut_message(3), message(4), message(5)));
    for wrong in ["not json", r#"{"seq":6}"#, &message(6).replace("s/1", "other"), "{\"a\":\"\u{1}\"}"] {
        append(&outbox, wrong);
    }
    append(&outbox, &message(10));
    let all = messages(&Arc::new(outbox));
    let is_own: Vec<bool> = all.iter().map(|message| message["level"] != "error").collect();
    assert_eq!(is_own, [true, false, false, true, true, false, false, false, false, true]);
    let text = all[1]["payload"]["text"].as_str().expect("a text");
    assert!(text.contains("not valid was left out"), "{text}");
}

/// Flips one bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("a segment");
    bytes[at] ^= 1 << (at % 8);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn flipped_bit_loses_at_most_one_message() {
    let (_folder, home) = homes();
    let outbox = Outbox::create(&home, &session(), "w".to_owned(), Position::FIRST).expect("created");
    (1..=5).for_each(|seq| append(&outbox, &message(seq)));
    drop(outbox);
    let outbox = open(&home);
    (6..=9).for_each(|seq| append(&outbox, &message(seq)));
    drop(outbox);
    let folder = home.outbox("s/1").expect("a folder");
    let segments: Vec<_> = folder.segments().expect("segments").into_iter().map(|number| folder.segment(number)).collect();
    let original: Vec<Vec<u8>> = segments.iter().map(|path| std::fs::read(path).expect("a segment")).collect();
    let (mut with_loss, mut without) = (0, 0);
    for (path, bytes) in segments.iter().zip(&original) {
        for at in (0..bytes.len()).step_by(7) {
            let (_copy, home) = homes();
            let copy = home.outbox("s/1").expect("a folder");
            std::fs::create_dir_all(copy.path()).expect("made");
            for (path, bytes) in segments.iter().zip(&original) {
                std::fs::write(copy.path().join(path.file_name().expect("a name")), bytes).expect("written");
            }
            flip(&copy.path().join(path.file_name().expect("a name")), at);
            let outbox = Arc::new(
                Outbox::open(&home, &session())
                    .unwrap_or_else(|failure| panic!("byte {at} of {path:?}: {failure}"))
                    .expect("a log"),
            );
            let all = messages(&outbox);
            let lost: Vec<u64> =
                all.iter().filter(|message| is_lost(message)).map(|message| message["seq"].as_u64().expect("a number")).collect();
            assert!(lost.len() <= 1, "byte {at} of {path:?}: {lost:?}");
            for seq in (1..=9).filter(|seq| !lost.contains(seq)) {
                let want: Value = serde_json::from_str(&message(seq)).expect("JSON");
                assert_eq!(all[usize::try_from(seq).expect("small") - 1], want, "byte {at} of {path:?}");
            }
            assert_eq!(lost.is_empty(), outbox.repair().is_empty(), "byte {at} of {path:?}: {:?}", outbox.repair());
            *(if lost.is_empty() { &mut without } else { &mut with_loss }) += 1;
            // The next opening needs no repair and continues after the last message.
            drop(outbox);
            let again = open(&home);
            assert!(again.repair().is_empty() && again.last() == all.len() as u64, "byte {at} of {path:?}");
        }
    }
    assert!(with_loss > 50 && without > 5, "{with_loss} {without}");
}

#[test]
fn reader_never_skips_damage() {
    let (_folder, home) = homes();
    let outbox = Outbox::create(&home, &session(), "w".to_owned(), Position::FIRST).expect("created");
    (1..=9).for_each(|seq| append(&outbox, &message(seq)));
    drop(outbox);
    let outbox = open(&home);
    append(&outbox, &message(10));
    outbox.sync().expect("synced");
    let segment = home.outbox("s/1").expect("a folder").segment(1);
    let at = memchr::memmem::find(&std::fs::read(&segment).expect("a segment"), b"text of message 6").expect("it is there");
    flip(&segment, at);
    let mut pages = PageReader::new(Arc::clone(&outbox));
    let page = pages.read_page(1, 100, 100_000).expect("the part before the damage").expect("a page");
    assert_eq!((page.first, page.last()), (1, 5));
    let error = pages.read_page(6, 100, 100_000).expect_err("a record is missing");
    assert!(error.to_string().contains("damaged") && matches!(error, RunnerError::OutboxGap(6)), "{error:?}");
    drop((pages, outbox));
    assert_eq!(open(&home).repair().lost, [6..=6]);
}

#[test]
fn outbox_without_meta_is_refused_and_kept() {
    let (_folder, home) = homes();
    earlier_outbox(&home, &[message(1), message(2)]);
    let segment = home.outbox("s/1").expect("a folder").segment(1);
    let at = memchr::memmem::find(&std::fs::read(&segment).expect("a segment"), b"sabir.outbox").expect("it is there");
    flip(&segment, at);
    let error = Outbox::open(&home, &session()).expect_err("nobody knows whose it is");
    assert!(error.to_string().contains("beginning") && matches!(error, RunnerError::OutboxWithoutMeta { .. }), "{error:?}");
    assert!(memchr::memmem::find(&std::fs::read(&segment).expect("a segment"), b"text of message 2").is_some());
}

fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest
        .as_ref()
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// A sink folder of the same version.
fn earlier_folder(target: &Path, messages: &[String]) {
    let lines: Vec<&str> = messages.iter().flat_map(|message| message.lines()).collect();
    let bytes = lines.join("\n") + "\n";
    let root = target.join("sessions/s%2F1");
    std::fs::create_dir_all(root.join("log")).expect("made");
    std::fs::create_dir_all(root.join("epochs")).expect("made");
    std::fs::write(root.join("epochs/00000001.json"), json!({"writer": "earlier", "epoch": 1, "after": 0}).to_string())
        .expect("written");
    let name = format!("00000001-{:012}-{:012}-{}.jsonl", 1, lines.len(), sha256(bytes.as_bytes()));
    std::fs::write(root.join("log").join(name), &bytes).expect("written");
    std::fs::write(root.join("messages.json"), &bytes).expect("written");
}

fn deliver(sink: StorageSink, outbox: &Arc<Outbox>) -> DeliveryOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    outbox.sync().expect("synced");
    let (_finish, finished) = watch::channel(Some(Instant::now() + Duration::from_secs(60)));
    runtime.block_on(sink.run(Arc::clone(outbox), finished))
}

fn compacted(target: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(target.join("sessions/s%2F1/messages.json")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn sink_with_cut_messages_is_rewritten_from_outbox() {
    let (folder, home) = homes();
    let target = folder.path().join("kept");
    let log = [message(1), message(2), cut_message(3), message(4)];
    earlier_outbox(&home, &log);
    earlier_folder(&target, &log);
    let outbox = open(&home);
    append(&outbox, &message(5));
    let sink = StorageSink::folder(&target, &session()).expect("a sink");
    assert_eq!(deliver(sink, &outbox), DeliveryOutcome::Delivered);
    assert_eq!(compacted(&target), messages(&outbox));
}

#[test]
fn sink_reports_lost_messages() {
    let (folder, home) = homes();
    let target = folder.path().join("kept");
    earlier_folder(&target, &[message(1), cut_message(2), message(3), message(4)]);
    // Another machine continues after the stored messages.
    let sink = StorageSink::folder(&target, &session()).expect("a sink");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let position = runtime.block_on(sink.start_position()).expect("readable").expect("something is there");
    let outbox = Arc::new(Outbox::create(&home, &session(), "w".to_owned(), position).expect("created"));
    append(&outbox, &message(position.after + 1));
    assert_eq!(deliver(sink, &outbox), DeliveryOutcome::Delivered);
    let all = compacted(&target);
    let numbers: Vec<u64> = all.iter().map(|message| message["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, [1, 2, 3, 4, position.after + 1]);
    assert_eq!(all.iter().map(is_lost).collect::<Vec<_>>(), [false, true, false, false, false]);
}
