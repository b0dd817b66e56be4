//! A small client, and a script that all APIs are tested with.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sabir_lab::script::{Block, Call, Failure, Input, Pace, Reply, Script, Step, Usage};
use sabir_lab::server::Server;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Every class another figure.
pub(crate) const USAGE: Usage = Usage { uncached_input: 1_000, cache_read: 200, cache_write: 30, output: 9, reasoning: 4 };

/// The same as Anthropic tells it, which does not tell reasoning.
pub(crate) const USAGE_WITHOUT_REASONING: Usage = Usage { reasoning: 0, ..USAGE };

/// What there is to say when cache writes cannot be told.
pub(crate) const USAGE_WITHOUT_WRITES: Usage = Usage { uncached_input: 1_030, cache_write: 0, ..USAGE };

/// Thinking, a text, two calls.
pub(crate) fn everything() -> Reply {
    let call = |id: &str, command: &str| {
        let input = Input::Json(json!({"command": command, "note": "\u{2028} \u{1f389}"}));
        Block::Call(Call { id: id.to_owned(), name: "shell".to_owned(), input })
    };
    Reply {
        blocks: vec![
            Block::Thinking("First think \u{e9} \u{1f389}, then speak at some length.".to_owned()),
            Block::Text("A text that is longer than one delta, with \u{2028} and \u{1f469}\u{200d}\u{1f467}.".to_owned()),
            call("call_1", "echo one"),
            call("call_2", "echo two"),
        ],
        usage: USAGE,
        pace: Pace::Free,
    }
}

pub(crate) fn reply(text: &str) -> Step {
    Step::Reply(Reply::text(text, USAGE))
}

pub(crate) fn failure(status: u16) -> Step {
    Step::Failure(Failure { status, message: "No.".to_owned(), retry_after: (status == 429).then_some(7) })
}

pub(crate) async fn serve(steps: Vec<Step>) -> Server {
    Server::start(Script::new(steps)).await.unwrap()
}

/// What came, and whether it came to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The events of a stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.text.split("\n\n").filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// The head of the response; the body is still on its way.
pub(crate) async fn open(address: SocketAddr, method: Method, path: &str, body: &Value) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", address.to_string());
    sender.send_request(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await.unwrap()
}

pub(crate) async fn post(server: &Server, path: &str, body: &Value) -> Answer {
    read(open(server.address(), Method::POST, path, body).await).await
}

pub(crate) async fn get(server: &Server, path: &str) -> Answer {
    read(open(server.address(), Method::GET, path, &Value::Null).await).await
}

pub(crate) async fn read(mut response: Response<Incoming>) -> Answer {
    let status = response.status();
    let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let mut bytes = Vec::new();
    let whole = loop {
        match response.frame().await {
            None => break true,
            Some(Err(_)) => break false,
            Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
        }
    };
    Answer { status, retry_after, text: String::from_utf8(bytes).unwrap(), whole }
}
