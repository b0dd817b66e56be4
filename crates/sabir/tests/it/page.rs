//! `sabir serve`, `sabir demo` with its page, and the page as a file.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::{sabir, stderr, stdout};

const SESSION: &str = "5d0f7a5e-6c1b-4c8e-9f53-2b7f0a4de001";

/// The command on a machine on which Claude Code was used once.
fn machine(home: &Path) -> Command {
    let log = home.join(".claude/projects/-home-user-a").join(format!("{SESSION}.jsonl"));
    fs::create_dir_all(log.parent().expect("a folder")).expect("made");
    let line = json!({"parentUuid":null,"isSidechain":false,"type":"user","uuid":"u","timestamp":"2026-11-15T10:00:00.000Z",
        "message":{"role":"user","content":"mend </script><script>alert(1)</script> it"},
        "userType":"external","cwd":"/home/user/a","sessionId":SESSION,"version":"2.1.1"});
    fs::write(log, format!("{line}\n")).expect("written");
    let mut command = sabir();
    command.env("HOME", home).env("SABIR_HOME", home.join("sabir")).env("TMPDIR", home);
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
        command.env_remove(name);
    }
    command
}

/// A command that shows the page, and the way in.
struct Page {
    child: Child,
    talk: BufReader<ChildStderr>,
    address: String,
    token: String,
}

impl Page {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut talk = BufReader::new(child.stderr.take().expect("a pipe"));
        let way_in = |line: std::io::Result<String>| {
            let line = line.expect("text");
            let (address, token) = line.trim().split_once("http://")?.1.split_once("/#token=")?;
            Some((address.to_owned(), token.to_owned()))
        };
        let (address, token) = talk.by_ref().lines().find_map(way_in).expect("it says where the page is");
        Self { child, talk, address, token }
    }

    fn ask(&self, method: &str, path: &str, host: &str, token: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        write!(stream, "{head}Authorization: Bearer {token}\r\n\r\n{body}").expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("an answer");
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, reply.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    fn get(&self, path: &str, token: &str) -> (u16, String) {
        self.ask("GET", path, &self.address, token, "")
    }

    /// Waits until the list says that of a session; what it says.
    fn wait(&self, session: &str, token: &str, what: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let head = format!("GET /v1/sessions/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).expect("sent");
        let name = format!("\"session\":\"{session}\"");
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.into_iter().find(|line| line.contains(&name) && line.contains(what)).expect("it comes to that")
    }

    fn enter(&self) -> (u16, String) {
        let body = json!({ "token": self.token }).to_string();
        let (status, reply) = self.ask("POST", "/v1/enter", &self.address, "", &body);
        let token = serde_json::from_str::<Value>(&reply).ok().and_then(|reply| Some(reply["token"].as_str()?.to_owned()));
        (status, token.unwrap_or_default())
    }

    fn interrupt(&self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("an id")), Signal::SIGINT).expect("a signal");
    }
}

#[test]
fn the_page_of_this_machine_lets_in_once_shows_and_changes_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = machine(home.path());
    command.arg("serve");
    let mut page = Page::start(command);
    assert_eq!(page.get("/", "").0, 200, "the page itself tells nothing");
    assert_eq!(page.get("/v1/sessions", &page.token).0, 401, "the address is not a token");
    let (status, token) = page.enter();
    assert_eq!(status, 200);
    assert_eq!(page.enter().0, 401, "it was used");
    let mut line = String::new();
    page.talk.read_line(&mut line).expect("a line");
    assert!(line.contains("another browser") && line.contains("/#token="), "{line}");
    let (status, sessions) = page.get("/v1/sessions", &token);
    assert!(status == 200 && sessions.contains(SESSION), "{sessions}");
    let (status, me) = page.get("/v1/me", &token);
    assert!(status == 200 && me.contains("\"local\":true") && me.contains("\"readOnly\":true"), "{me}");
    assert_eq!(page.ask("GET", "/v1/sessions", "evil.example.org", &token, "").0, 403);
    assert_eq!(page.ask("POST", &format!("/v1/sessions/{SESSION}/orders"), &page.address, &token, "{}").0, 405);
    page.interrupt();
    assert_eq!(page.child.wait().expect("it ends").code(), Some(0));
    let left: Vec<_> = fs::read_dir(home.path()).expect("a folder").filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    assert!(left.iter().all(|name| name == ".claude" || name == "sabir"), "{left:?}");
}

#[test]
fn a_session_is_one_file_that_asks_nobody() {
    let home = tempfile::tempdir().expect("a folder");
    let export = |arguments: &[&str]| {
        machine(home.path()).args(["export", "5d0f", "--to", "html"]).args(arguments).output().expect("it runs")
    };
    let output = export(&[]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.starts_with("<!doctype html>") && text.contains("default-src 'none'") && !text.contains("/assets/"));
    let data = text.split_once("id=\"run\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("data").0;
    let run: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!((&run["session"]["session"], &run["session"]["overview"]["agent"]), (&json!(SESSION), &json!("claude-code")));
    let prompt = run["items"].as_array().expect("items").iter().find(|item| item["what"]["kind"] == "prompt").expect("a prompt");
    assert_eq!(prompt["what"]["text"]["text"], "mend </script><script>alert(1)</script> it");
    let file = home.path().join("run.html");
    assert!(export(&["--output", file.to_str().expect("UTF-8")]).status.success());
    assert_eq!(fs::read_to_string(&file).expect("written"), text);
    let bad = export(&["--output", "/nowhere/at/all.html"]);
    assert_eq!(bad.status.code(), Some(2), "{}", stderr(&bad));
}

#[test]
fn the_demo_goes_the_whole_path_and_leaves_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = machine(home.path());
    // So slow that it does not end by itself.
    command.args(["demo", "--speed", "0.001"]);
    let mut page = Page::start(command);
    let (status, token) = page.enter();
    assert_eq!(status, 200);
    for agent in ["claude-code", "codex", "pi"] {
        let session = page.wait(&format!("demo-{agent}"), &token, "\"phase\":\"running\"");
        assert!(session.contains("\"takes\":[\"cancel\"]") && session.contains("\"workspace\":\"demo\""), "{session}");
    }
    // One is cancelled from the page, the rest by Ctrl-C.
    let order = r#"{"kind":"cancel"}"#;
    assert_eq!(page.ask("POST", "/v1/sessions/demo-pi/orders", &page.address, &token, order).0, 201);
    page.wait("demo-pi", &token, "\"phase\":\"cancelled\"");
    page.interrupt();
    let mut said = String::new();
    page.child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(page.child.wait().expect("it ends").code(), Some(4));
    assert_eq!(said.matches("cancelled").count(), 3, "{said}");
    let left: Vec<_> = fs::read_dir(home.path()).expect("a folder").filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    assert_eq!(left, [".claude"], "nothing is left behind");
}

#[test]
fn demo_serves_until_interrupted_once_the_web_ui_was_opened() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = machine(home.path());
    // So slow that no run ends by itself.
    command.args(["demo", "--speed", "0.001", "--no-open"]);
    let mut page = Page::start(command);
    let (status, token) = page.enter();
    assert_eq!(status, 200);
    for agent in ["claude-code", "codex", "pi"] {
        page.wait(&format!("demo-{agent}"), &token, "\"phase\":\"running\"");
        let path = format!("/v1/sessions/demo-{agent}/orders");
        assert_eq!(page.ask("POST", &path, &page.address, &token, r#"{"kind":"cancel"}"#).0, 201);
    }
    let ended = |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| line.contains("all runs ended"));
    assert!(page.talk.by_ref().lines().any(|line| ended(&line)), "it says that the runs ended");
    assert_eq!(page.get("/v1/sessions", &token).0, 200, "the web UI is still there");
    page.interrupt();
    assert_eq!(page.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn demo_in_a_script_ends_with_its_runs() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = machine(home.path());
    command.args(["demo", "--speed", "0", "--no-open"]);
    let mut page = Page::start(command);
    let mut printed = String::new();
    page.child.stdout.take().expect("a pipe").read_to_string(&mut printed).expect("text");
    assert_eq!(page.child.wait().expect("it ends").code(), Some(0));
    let readme = include_str!("../../../../README.md");
    let first = printed.split("\n\n▶").next().expect("a run");
    assert!(readme.contains(&format!("```text\n{}\n```", first.trim_end())), "the same as without the web UI: {first}");
}
