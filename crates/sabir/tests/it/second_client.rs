//! A shell that somebody else could have written: in Python, from the document of the protocol alone, against the real hub.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use sabir_test_support::python::environment;
use serde_json::{Value, json};

use crate::faults::kept;
use crate::hub::{Hub, start_at};
use crate::{sabir, stderr, stdout};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/second_client.py");
/// An id that can't stand in an address as it is.
const SESSION: &str = "py/1 ü";
const ADDRESS: &str = "py%2F1%20%C3%BC";

/// The client, at one of its tasks.
struct Client {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Client {
    fn at(task: &str, python: &Path, hub: &Hub, folder: &Path, token: &str) -> Self {
        let mut command = Command::new(python);
        command.args([CLIENT, task, &hub.address, SESSION]).arg(folder.join("log")).env("AUTH_TOKEN", token);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, said }
    }

    /// What it says next.
    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?} is no answer of the client"))
    }

    fn end(mut self) {
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn token(folder: &Path, scope: &str) -> String {
    let made = sabir().args(["hub", "token", "new", "--scope", scope, "--data"]).arg(folder).output().expect("it runs");
    assert!(made.status.success(), "{}", stderr(&made));
    stdout(&made).trim().to_owned()
}

/// Somebody wants something of the session.
fn order(hub: &Hub, token: &str, body: &Value) {
    let mut stream = TcpStream::connect(&hub.address).expect("a connection");
    let body = body.to_string();
    let head = format!("POST /v1/sessions/{ADDRESS}/orders HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", hub.address);
    write!(stream, "{head}Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).expect("sent");
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).expect("an answer");
    assert!(status.contains("201"), "{status}");
}

/// The log of the client, without its head.
fn written(folder: &Path) -> Vec<String> {
    std::fs::read_to_string(folder.join("log")).expect("a log").lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn completes_the_protocol() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let packages = ["websockets>=14,<18"];
    let Some(python) = environment(cache, "websockets", &packages, "websockets.asyncio.client") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("hub");
    let hub = start_at(&data, "127.0.0.1:0", &["--heartbeat", "1s"]);
    let (runner, operate) = (token(&data, &format!("runner:{SESSION}")), token(&data, "operate"));
    let at = |task: &str| Client::at(task, &python, &hub, folder.path(), &runner);

    let mut client = at("begin");
    let place = client.hear();
    assert_eq!((&place["type"], &place["epoch"], &place["last"]), (&json!("welcome"), &json!(1), &json!(0)));
    assert_eq!(client.hear()["heartbeatSeconds"], 1);
    assert_eq!(client.hear(), json!({"type":"done","acknowledged":30}));
    client.end();
    assert_eq!(kept(&hub, ADDRESS, &operate), written(folder.path()));

    let mut client = at("resume");
    let welcome = client.hear();
    assert_eq!((&welcome["epoch"], &welcome["last"]), (&json!(2), &json!(30)));
    assert_eq!(client.hear(), json!({"type":"gap","expected":31}));
    assert_eq!(client.hear(), json!({"type":"ack","last":40}));
    order(&hub, &operate, &json!({"kind":"prompt","text":"go on"}));
    let took = client.hear();
    assert_eq!((&took["order"]["kind"], &took["order"]["text"]), (&json!("prompt"), &json!("go on")));
    assert_eq!(client.hear()["type"], "heartbeat");
    client.end();
    assert_eq!(kept(&hub, ADDRESS, &operate), written(folder.path()));

    let mut client = at("by_http");
    let welcome = client.hear();
    assert_eq!((&welcome["status"], &welcome["epoch"], &welcome["last"]), (&json!(200), &json!(3), &json!(41)));
    assert_eq!(client.hear(), json!({"status":409,"type":"gap","expected":42}));
    assert_eq!(client.hear(), json!({"status":200,"type":"ack","last":46}));
    assert_eq!(client.hear(), json!({"status":200,"type":"ack","last":51}));
    assert_eq!(client.hear()["type"], "waits");
    order(&hub, &operate, &json!({"kind":"cancel","reason":"enough"}));
    assert_eq!(client.hear(), json!({"status":200}));
    let took = client.hear();
    assert_eq!((&took["status"], &took["order"]["kind"], &took["order"]["order"]), (&json!(200), &json!("cancel"), &json!(2)));
    client.end();
    assert_eq!(kept(&hub, ADDRESS, &operate), written(folder.path()));
    let orders = hub.get(&format!("/v1/sessions/{ADDRESS}/orders"), &operate);
    assert!(orders.contains("only prompts are taken here"), "{orders}");

    let mut client = at("wrong");
    for _ in 0..2 {
        let refused = client.hear();
        assert_eq!((&refused["status"], &refused["code"], &refused["versions"]), (&json!(426), &json!("version"), &json!([1])));
    }
    for (status, code) in [(409, "fenced"), (409, "conflict"), (409, "conflict")] {
        let refused = client.hear();
        assert_eq!((&refused["status"], &refused["code"]), (&json!(status), &json!(code)), "{refused}");
    }
    assert_eq!(client.hear()["type"], "welcome");
    assert_eq!(client.hear()["code"], "malformed");
    assert_eq!(client.hear(), json!({"type":"closed","code":4400}));
    client.end();
    assert_eq!(kept(&hub, ADDRESS, &operate), written(folder.path()), "nothing of that is kept");
    assert_eq!(hub.stop().1, Some(0));
}
