//! `sabir hub`, from its first word to its last.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{sabir, stderr, stdout};

/// A hub that runs, its address, and what it says.
pub(crate) struct Hub {
    pub(crate) child: Child,
    pub(crate) address: String,
    talk: BufReader<ChildStderr>,
}

fn start(folder: &Path, arguments: &[&str]) -> Hub {
    start_at(folder, "127.0.0.1:0", arguments)
}

pub(crate) fn start_at(folder: &Path, address: &str, arguments: &[&str]) -> Hub {
    started(command(folder, address, arguments))
}

pub(crate) fn command(folder: &Path, address: &str, arguments: &[&str]) -> Command {
    let mut command = sabir();
    command.args(["hub", "--listen", address, "--data"]).arg(folder).args(arguments);
    command
}

pub(crate) fn started(mut command: Command) -> Hub {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut talk = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    talk.read_line(&mut line).expect("a line");
    let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address").to_owned();
    Hub { child, address, talk }
}

impl Hub {
    pub(crate) fn get(&self, path: &str, token: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        write!(stream, "{head}Authorization: Bearer {token}\r\n\r\n").expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("an answer");
        reply
    }

    /// Ends it in good order; what it said, and its exit code.
    pub(crate) fn stop(mut self) -> (String, Option<i32>) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("an id")), Signal::SIGTERM).expect("a signal");
        let mut rest = String::new();
        self.talk.read_to_string(&mut rest).expect("text");
        (rest, self.child.wait().expect("it ends").code())
    }
}

/// One that a test left behind does not run on.
impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hub(folder: &Path, arguments: &[&str]) -> Output {
    sabir().arg("hub").args(arguments).arg("--data").arg(folder).output().expect("it runs")
}

#[test]
fn a_hub_runs_until_it_is_told_to_stop_and_tokens_are_made_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = start(folder.path(), &[]);
    assert!(running.get("/healthz", "").starts_with("HTTP/1.1 200"));
    assert!(running.get("/v1/sessions", "").starts_with("HTTP/1.1 401"));
    let second = hub(folder.path(), &["--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(6), "{}", stderr(&second));
    assert!(stderr(&second).contains("another hub"), "{}", stderr(&second));

    let made = hub(folder.path(), &["token", "new", "--scope", "watch", "--expires", "1h", "--note", "Ada"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let token = stdout(&made).trim().to_owned();
    assert!(running.get("/v1/sessions", &token).starts_with("HTTP/1.1 200"));
    let listed = hub(folder.path(), &["token", "list", "--json"]);
    let list: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!((&list[0]["note"], &list[0]["good"], list[0]["scopes"][0].as_str()), (&"Ada".into(), &true.into(), Some("watch")));
    assert!(!stdout(&listed).contains(&token[20..]) && list[0].get("digest").is_none());
    let id = list[0]["id"].as_str().expect("an id");
    assert_eq!(hub(folder.path(), &["token", "revoke", id]).status.code(), Some(0));
    while running.get("/v1/sessions", &token).starts_with("HTTP/1.1 200") {}
    assert_eq!(hub(folder.path(), &["token", "revoke", "nobody"]).status.code(), Some(2));
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("an audit log");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |what: &str| lines.iter().filter(|line| line["what"] == what && line["who"] == "cli" && line["token"] == id).count();
    assert_eq!((of("token_created"), of("token_revoked"), lines.len()), (1, 1, 2), "{audit}");
    assert!(!audit.contains(&token[20..]), "{audit}");
    assert_eq!(hub(folder.path(), &["token", "new", "--scope", "king"]).status.code(), Some(2));

    let (talk, code) = running.stop();
    assert_eq!(code, Some(0), "{talk}");
    assert!(talk.contains("WS_URL=ws://127.0.0.1:") && talk.contains("there is no token yet"), "{talk}");
}

#[test]
fn nothing_is_open_by_accident() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [&["--listen", "0.0.0.0:0"][..], &["--listen", "0.0.0.0:0", "--open"], &["--listen", "[::]:0"]] {
        let refused = hub(folder.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&refused).contains("hint:") && stderr(&refused).contains("--i-know-this-is-open"), "{}", stderr(&refused));
    }
    let open = start(folder.path(), &["--open"]);
    assert!(open.get("/v1/sessions", "").starts_with("HTTP/1.1 200"));
    assert_eq!(open.stop().1, Some(0));
}
