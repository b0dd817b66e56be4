//! The fault matrix: a real shell, a real hub and a real S3 server, and what can happen between them and to them.
//!
//! After each of them the log at the hub and the one in the bucket are the log on the shell's disk: no gap, no duplicate, in
//! order. The agent writes while the fault goes on, and says when it is done: a fault that blocked it would end
//! the test with a time-out. How long its longest write took, and how much memory the two programs had, is printed.

mod agent;
pub(crate) mod bucket;
mod clock;
mod disk;
mod network;
pub(crate) mod proxy;
mod rivals;
mod s3;
mod watchers;

use std::fmt::Display;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use sabir_store::{Home, Kind, Reader};
use serde_json::Value;

use crate::hub::Hub;
use crate::sabir;
use agent::{Agent, Present, peak};
use bucket::Bucket;

const SESSION: &str = "s-1";

/// The messages of a session as the shell has them on its disk.
pub(crate) fn written(home: &Path, session: &str) -> Vec<String> {
    let mut reader = Reader::of(Home::at(home).outbox(session).expect("a folder")).expect("a log");
    let mut messages = Vec::new();
    while let Some(record) = reader.next().expect("readable") {
        if record.kind == Kind::Message {
            messages.push(String::from_utf8(record.payload.to_vec()).expect("UTF-8").trim_end().to_owned());
        }
    }
    messages
}

/// The messages of a session as the hub gives them out.
pub(crate) fn kept(hub: &Hub, session: &str, token: &str) -> Vec<String> {
    let reply = hub.get(&format!("/v1/sessions/{session}/log"), token);
    let (_, body) = reply.split_once("\r\n\r\n").unwrap_or_default();
    unchunked(body).lines().map(str::to_owned).collect()
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        body.push_str(&after[..size]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    body
}

/// Messages have the numbers from 1 on; each of them once.
pub(crate) fn assert_numbered(messages: &[String]) {
    for (message, seq) in messages.iter().zip(1_u64..) {
        let message: Value = serde_json::from_str(message).expect("JSON");
        assert_eq!(message["seq"], seq);
    }
}

/// Waits until the hub has a message of a session: it says so itself.
pub(crate) fn wait_for(hub: &Hub, session: &str, number: u64, token: &str) {
    let after = number.saturating_sub(1);
    loop {
        let mut stream = TcpStream::connect(&hub.address).expect("a connection");
        let path = format!("/v1/sessions/{session}/events?after={after}");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", hub.address);
        stream.write_all(head.as_bytes()).expect("sent");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        // A session that is not known yet is asked for again.
        if lines.next().is_some_and(|status| status.contains("200")) && lines.any(|line| line.starts_with("id: ")) {
            return;
        }
        std::thread::yield_now();
    }
}

/// A hub, a shell with an agent, and what is between them.
struct Scene {
    folder: tempfile::TempDir,
    hub: Hub,
    agent: Agent,
    /// `None` if no server can be installed and skipping is allowed.
    bucket: Option<Bucket>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let hub = crate::hub::start_at(&folder.path().join("hub"), "127.0.0.1:0", HUB);
        Self { folder, hub, agent: Agent::new(), bucket: Bucket::new() }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("shell")
    }

    /// A shell that is told to use that address.
    fn shell(&self, address: impl Display) -> Command {
        self.shell_in(&self.home(), address, &self.agent)
    }

    /// A shell with another disk, or another agent.
    fn shell_in(&self, home: &Path, address: impl Display, agent: &Agent) -> Command {
        let mut command = shell_in(home, address, &agent.prompt());
        if let Some(bucket) = &self.bucket {
            bucket.tell(&mut command);
        }
        command
    }

    /// The bucket has these messages, and no others.
    fn assert_in_bucket(&self, here: &[String], what: &str) {
        if let Some(bucket) = &self.bucket {
            assert_same(&bucket.messages(SESSION), here, &format!("{what}, in the bucket"));
        }
    }

    /// All logs are the same, and have the end of the run.
    fn assert_same(&self, what: &str) -> Vec<String> {
        let (there, here) = (kept(&self.hub, SESSION, ""), written(&self.home(), SESSION));
        assert_numbered(&here);
        assert_same(&there, &here, what);
        assert!(here.iter().any(|message| message.contains(r#""type":"result""#)), "{what}: {}", here.len());
        self.assert_in_bucket(&here, what);
        here
    }
}

/// A hub that is asked often, and that notices soon when somebody is gone.
const HUB: &[&str] = &["--open", "--max-rate", "100000", "--heartbeat", "1s"];

fn shell_in(home: &Path, address: impl Display, prompt: &str) -> Command {
    let mut command = sabir();
    command.args(["shell", "--hub", &format!("ws://{address}"), "--session", SESSION, "--flush", "60s", "--json"]);
    command.args(["--", "localexec", prompt]);
    for name in ["RUNNER_ADAPTER", "WS_URL", "AUTH_TOKEN", "SESSION_ID", "S3_BUCKET"] {
        command.env_remove(name);
    }
    command.env("SABIR_HOME", home).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A comparison whose failure can be read.
pub(crate) fn assert_same(there: &[String], here: &[String], what: &str) {
    let differs = there.iter().zip(here).position(|(there, here)| there != here);
    assert_eq!(differs, None, "{what}: {:?} and {:?}", differs.map(|at| &there[at]), differs.map(|at| &here[at]));
    assert_eq!(there.len(), here.len(), "{what}: how many there are");
}

/// A shell that runs; what it says is read all the time.
struct Running {
    child: Child,
    said: Vec<std::thread::JoinHandle<String>>,
}

fn start(mut command: Command) -> Running {
    let mut child = command.spawn().expect("it starts");
    let pipes: [Box<dyn std::io::Read + Send>; 2] =
        [Box::new(child.stdout.take().expect("a pipe")), Box::new(child.stderr.take().expect("a pipe"))];
    let said = pipes.map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).expect("text");
            text
        })
    });
    Running { child, said: said.into() }
}

impl Running {
    /// Waits for its end: its status, and what it said.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        let said: Vec<String> = self.said.into_iter().map(|said| said.join().expect("read")).collect();
        (status, said.join("\n"))
    }

    fn ends_well(self, what: &str) {
        let (status, said) = self.end();
        assert_eq!(status.code(), Some(0), "{what}: {said}");
    }
}

/// Figures for people: how long the agent waited at most, and the memory of the two.
#[allow(clippy::print_stderr)]
fn tell(what: &str, agent: &Present, shell: u64, hub: u64) {
    eprintln!(
        "{what}: {:.1} MB written, longest write {:.1} ms, peak of shell {:.1} MB and hub {:.1} MB",
        agent.written as f64 / 1e6,
        agent.longest.as_secs_f64() * 1e3,
        shell as f64 / 1e6,
        hub as f64 / 1e6
    );
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
