//! Reads what an earlier build wrote (`fixtures/earlier_build`) and compares the answers with those of that build.
//!
//! Fields may have been added since. Every recorded field must be there, with its value.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::faults::bucket::Bucket;
use crate::faults::kept;
use crate::hub::{Hub, start_at};
use crate::{sabir, stderr, stdout};

/// When the logs of agents were last written, in seconds since 1970; see `make.py`.
const MODIFIED: u64 = 1_763_300_000;
const CLAUDE: &str = "home/.claude/projects/-srv-project/0a1b2c3d-0000-4000-8000-000000000001.jsonl";
const CODEX: &str = "home/.codex/sessions/2026/11/16/rollout-2026-11-16T09-00-00-01a1e067-0000-7000-8000-000000000001.jsonl";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/earlier_build").join(name)
}

fn recorded(name: &str) -> String {
    fs::read_to_string(fixture("answers").join(name)).expect("a recorded answer")
}

/// A copy of what the earlier build wrote.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        copy_tree(&fixture("files"), folder.path());
        for log in [CLAUDE, CODEX] {
            let file = fs::File::options().append(true).open(folder.path().join(log)).expect("a log");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)).expect("set");
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The recorded text with the paths of this copy.
    fn recorded(&self, name: &str) -> String {
        let moved =
            |text: String, name: &str| text.replace(&format!("\"/srv/{name}/"), &format!("\"{}/", self.path(name).display()));
        moved(moved(recorded(name), "home"), "sabir")
    }

    fn answer(&self, arguments: &[&str]) -> String {
        let mut command = sabir();
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "SABIR_JOURNAL"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path("home")).env("SABIR_HOME", self.path("sabir")).env("TZ", "UTC").args(arguments);
        let output = command.output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    }

    fn assert_answers(&self, name: &str, arguments: &[&str]) {
        assert_includes(name, &self.answer(arguments), &self.recorded(name));
    }

    fn token(&self) -> String {
        fs::read_to_string(self.path("token")).expect("a token").trim().to_owned()
    }

    fn hub(&self) -> Hub {
        start_at(&self.path("hub"), "127.0.0.1:0", &[])
    }

    /// A shell of this build that goes on with a session.
    fn go_on(&self, session: &str, configure: impl FnOnce(&mut Command)) {
        let mut command = sabir();
        for name in ["RUNNER_ADAPTER", "WS_URL", "AUTH_TOKEN", "SESSION_ID", "S3_BUCKET", "S3_PREFIX"] {
            command.env_remove(name);
        }
        command.args(["shell", "--session", session]).env("SABIR_HOME", self.path("runner"));
        configure(&mut command);
        let output = command.args(["--", "localexec", "echo again"]).output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

/// JSON values one after another, with or without line ends between them.
fn values(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn assert_includes(what: &str, now: &str, recorded: &str) {
    let (now, recorded) = (Value::from(values(now)), Value::from(values(recorded)));
    assert_value(what, &now, &recorded);
}

/// The same value, but for fields of objects that were not there.
fn assert_value(place: &str, now: &Value, recorded: &Value) {
    match (now, recorded) {
        (Value::Object(now), Value::Object(recorded)) => {
            for (name, value) in recorded {
                assert_value(&format!("{place}.{name}"), now.get(name).unwrap_or(&Value::String("(none)".to_owned())), value);
            }
        }
        (Value::Array(now), Value::Array(recorded)) => {
            assert_eq!(now.len(), recorded.len(), "{place}: {now:#?}");
            for (number, (now, recorded)) in now.iter().zip(recorded).enumerate() {
                assert_value(&format!("{place}[{number}]"), now, recorded);
            }
        }
        _ => assert_eq!(now, recorded, "{place}"),
    }
}

/// The log begins with these lines, and this build went on with it, without a gap.
fn assert_goes_on(log: &str, recorded: &str) {
    assert!(log.starts_with(recorded), "{log}");
    assert!(log[recorded.len()..].contains("again"), "{log}");
    for (message, seq) in values(log).iter().zip(1_u64..) {
        assert_eq!(message["seq"], seq);
    }
}

const USAGE: [&str; 5] = ["day", "session", "model", "agent", "project"];

fn assert_lists(copy: &Copy) {
    copy.assert_answers("ls.jsonl", &["ls", "--json"]);
    assert!(!copy.answer(&["ls", "--json"]).contains("\"damage\""));
    let prices = fixture("input/prices.json").display().to_string();
    for by in USAGE {
        let arguments = ["usage", "--json", "--by", by, "--timezone", "UTC", "--prices", &prices, "--breakdown"];
        copy.assert_answers(&format!("usage-{by}.json"), &arguments);
    }
}

#[test]
fn journal_is_listed_and_shown() {
    let copy = Copy::new();
    fs::remove_file(copy.path("sabir/history.index")).expect("removed");
    assert_lists(&copy);
    let mut shown = 0;
    for entry in fs::read_dir(fixture("answers")).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        for (end, view) in [(".events.jsonl", "events"), (".result.json", "result")] {
            if let Some(id) = name.strip_suffix(end) {
                copy.assert_answers(&name, &["show", id, "--to", view]);
                shown += 1;
            }
        }
    }
    assert_eq!(shown, 14, "two logs and five runs, two of which have one id");
    copy.assert_answers("search.jsonl", &["search", "--json", "basket"]);
}

#[test]
fn index_changes_no_answer() {
    let copy = Copy::new();
    assert_lists(&copy);

    // An index of the same format is used: the logs that it knows are not read.
    let copy = Copy::new();
    let index = copy.path("sabir/history.index");
    let earlier = fs::read(&index).expect("an index");
    fs::remove_file(&index).expect("removed");
    copy.answer(&["ls", "--json"]);
    let has_same_format = fs::read(&index).expect("an index")[..HEAD] == earlier[..HEAD];
    if has_same_format {
        for log in [CLAUDE, CODEX] {
            let size = fs::metadata(copy.path(log)).expect("a log").len();
            let mut file = fs::File::options().write(true).open(copy.path(log)).expect("a log");
            file.write_all(&vec![b' '; usize::try_from(size).expect("small")]).expect("written");
        }
    }
    fs::write(&index, moved(&earlier, copy.0.path())).expect("written");
    assert_lists(&copy);
}

/// Bytes before the first entry of an index.
const HEAD: usize = 12;

/// The index as if it had been made of the logs in this copy: paths, identities and times of files are theirs.
fn moved(index: &[u8], copy: &Path) -> Vec<u8> {
    let mut out = index[..HEAD].to_vec();
    let mut rest = &index[HEAD..];
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
    let mut logs = 0;
    while !rest.is_empty() {
        let (entry, others) = rest[8..].split_at(number(rest));
        rest = others;
        let (path, mut known) = entry[5..].split_at(number(&entry[1..]));
        let path = copy.join(std::str::from_utf8(path).expect("a path").strip_prefix("/srv/").expect("below /srv"));
        // Folders and runs are known by more than what stays the same in a copy.
        if entry[0] != 1 {
            continue;
        }
        logs += 1;
        for _ in 0..5 {
            let end = known.iter().position(|byte| byte & 0x80 == 0).expect("the end of a number");
            known = &known[end + 1..];
        }
        let data = fs::metadata(&path).expect("a log");
        let nanoseconds = |seconds: i64, rest: i64| u64::try_from(seconds * 1_000_000_000 + rest).expect("after 1970") << 1;
        let text = path.to_str().expect("a path");
        let mut body = vec![entry[0]];
        body.extend(u32::try_from(text.len()).expect("short").to_le_bytes());
        body.extend(text.as_bytes());
        let modified = nanoseconds(data.mtime(), data.mtime_nsec());
        for number in [data.dev(), data.ino(), data.size(), modified, nanoseconds(data.ctime(), data.ctime_nsec())] {
            varint(number, &mut body);
        }
        body.extend(known);
        out.extend(u32::try_from(body.len()).expect("short").to_le_bytes());
        out.extend(crc32c(&body).to_le_bytes());
        out.extend(body);
    }
    assert_eq!(logs, 2, "the index has the logs of both agents");
    out
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

fn body(hub: &Hub, path: &str, token: &str) -> String {
    let reply = hub.get(path, token);
    assert!(reply.starts_with("HTTP/1.1 200"), "{path}: {reply}");
    reply.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

fn log(hub: &Hub, session: &str, token: &str) -> String {
    kept(hub, session, token).into_iter().map(|line| line + "\n").collect()
}

/// The data of the server-sent events of a timeline, until all that there was has been sent.
fn timeline(hub: &Hub, session: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(&hub.address).expect("a connection");
    let head = format!("GET /v1/sessions/{session}/timeline HTTP/1.1\r\nHost: {}\r\n", hub.address);
    write!(stream, "{head}Authorization: Bearer {token}\r\n\r\n").expect("sent");
    let mut data = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("readable");
        match line.strip_prefix("data: ") {
            Some(line) => data.push_str(line),
            None if line == "event: live" => return data,
            None => {}
        }
    }
    panic!("it ends before all was sent: {data}");
}

/// The items that the changes of a timeline leave, as a client of the web API has them.
fn items(changes: &str) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for change in values(changes).iter().flat_map(|changes| changes.as_array().expect("changes")) {
        let item = change.get("put").expect("the items of the fixture come whole");
        let id = usize::try_from(item["id"].as_u64().expect("an id")).expect("small");
        items.resize(items.len().max(id + 1), Value::Null);
        items[id] = item.clone();
    }
    items
}

#[test]
fn hub_folder_is_served() {
    let copy = Copy::new();
    let token = copy.token();
    let in_folder = |arguments: &[&str]| {
        let output = sabir().arg("hub").args(arguments).arg("--data").arg(copy.path("hub")).output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    };
    assert_includes("hub/tokens.json", &in_folder(&["token", "list", "--json"]), &recorded("hub/tokens.json"));
    in_folder(&["verify"]);
    let hub = copy.hub();
    for (name, path) in [
        ("hub/sessions.json", "/v1/sessions"),
        ("hub/text.json", "/v1/sessions?text=basket"),
        ("hub/agents.json", "/v1/agents"),
        ("hub/usage.json", "/v1/usage"),
    ] {
        assert_includes(name, &body(&hub, path, &token), &recorded(name));
    }
    for session in ["first", "second"] {
        for name in ["result", "orders", "artifacts"] {
            let name = format!("hub/{session}.{name}");
            let path = format!("/v1/sessions/{}", name["hub/".len()..].replace('.', "/"));
            assert_includes(&name, &body(&hub, &path, &token), &recorded(&name));
        }
        let name = format!("hub/{session}.session");
        assert_includes(&name, &body(&hub, &format!("/v1/sessions/{session}"), &token), &recorded(&name));
        assert_eq!(log(&hub, session, &token), recorded(&format!("hub/{session}.log")));
        let name = format!("hub/{session}.timeline");
        let (now, before) = (items(&timeline(&hub, session, &token)), items(&recorded(&name)));
        assert_value(&name, &Value::from(now), &Value::from(before));
    }
    let artifact = &values(&recorded("hub/first.artifacts"))[0]["artifacts"][0];
    let digest = artifact["digest"].as_str().expect("a digest");
    assert_eq!(body(&hub, &format!("/v1/sessions/first/artifacts/{digest}"), &token), "apples and pears\n");
    assert_eq!(hub.stop().1, Some(0));
    let audit = fs::read_to_string(copy.path("hub/audit.jsonl")).expect("an audit log");
    assert!(audit.starts_with(&fs::read_to_string(fixture("files/hub/audit.jsonl")).expect("an audit log")));
}

#[test]
fn outbox_is_delivered_and_continued() {
    let copy = Copy::new();
    let output = sabir().args(["hub", "token", "new", "--scope", "runner:unsent", "--data"]).arg(copy.path("hub")).output();
    let output = output.expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let hub = copy.hub();
    let address = format!("ws://{}", hub.address);
    copy.go_on("unsent", |command| {
        command.args(["--hub", &address, "--flush", "60s"]).env("AUTH_TOKEN", stdout(&output).trim());
    });
    assert_goes_on(&log(&hub, "unsent", &copy.token()), &recorded("unsent.jsonl"));
    assert_eq!(hub.stop().1, Some(0));
}

#[test]
fn log_folder_is_continued_with_and_without_the_outbox() {
    for has_outbox in [true, false] {
        let copy = Copy::new();
        if !has_outbox {
            fs::remove_dir_all(copy.path("runner")).expect("removed");
        }
        copy.go_on("in-folder", |command| {
            command.args(["--flush", "60s", "--log-folder"]).arg(copy.path("sink"));
        });
        let messages = |file: &Path| fs::read_to_string(file).expect("a log");
        let part = "sessions/in-folder/messages.json";
        assert_goes_on(&messages(&copy.path("sink").join(part)), &messages(&fixture("files/sink").join(part)));
    }
}

#[test]
fn bucket_is_continued_with_and_without_the_outbox() {
    let before = fs::read_to_string(fixture("files/bucket/team/sessions/in-bucket/messages.json")).expect("a log");
    for has_outbox in [true, false] {
        let copy = Copy::new();
        if !has_outbox {
            fs::remove_dir_all(copy.path("runner")).expect("removed");
        }
        let bucket = Bucket::new().expect("a server of S3");
        bucket.put(&copy.path("bucket"));
        copy.go_on("in-bucket", |command| {
            bucket.tell(command.args(["--flush", "60s"]));
        });
        assert_goes_on(&(bucket.messages("in-bucket").join("\n") + "\n"), &before);
    }
}
