//! Test harness: a hub in this process, and minimal HTTP, event-stream and WebSocket clients.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};

use futures_util::{SinkExt as _, StreamExt as _};
use sabir_hub::auth::token::{Scope, Token};
use sabir_hub::store::local::{LocalStore, Sources};
use sabir_hub::store::memory::MemoryStore;
use sabir_hub::store::sqlite::SqliteStore;
use sabir_hub::store::{MessageReader, Store};
use sabir_hub::tls::Certificates;
use sabir_hub::{Limits, OneTimeTokens, Settings, now};
use sabir_protocol::{FromHub, Hello, SUBPROTOCOL, batch};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

/// A running hub.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    /// The backend, if it is on disk.
    sqlite: Weak<SqliteStore>,
    pub(crate) folder: Arc<tempfile::TempDir>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

/// Configuration of a hub under test.
pub(crate) struct Setup {
    pub(crate) open: bool,
    pub(crate) limits: Limits,
    pub(crate) folder: Arc<tempfile::TempDir>,
    pub(crate) tls: Option<Certificates>,
    pub(crate) one_time_tokens: Option<OneTimeTokens>,
    /// Use the in-memory backend.
    pub(crate) memory: bool,
    /// Use the read-only backend over these files.
    pub(crate) local: Option<Sources>,
    /// Use this store.
    pub(crate) store: Option<Store>,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = Limits { requests_per_second: 100_000, ..Limits::default() };
        Self {
            open: true,
            limits,
            folder: Arc::new(tempfile::tempdir().expect("a folder")),
            tls: None,
            one_time_tokens: None,
            memory: false,
            local: None,
            store: None,
        }
    }
}

impl Setup {
    pub(crate) async fn start(self) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut sqlite = Weak::new();
        let store: Store = if let Some(store) = self.store {
            store
        } else if let Some(sources) = self.local {
            Arc::new(LocalStore::open(sources, &mut |_, _| ()).expect("a store")).into()
        } else if self.memory {
            Arc::new(MemoryStore::default()).into()
        } else {
            let backend = Arc::new(SqliteStore::open(self.folder.path()).expect("a store"));
            sqlite = Arc::downgrade(&backend);
            backend.into()
        };
        let settings = Settings {
            folder: self.folder.path().to_owned(),
            allow_anonymous: self.open,
            hosts: vec!["hub.example.org".to_owned()],
            origins: Vec::new(),
            limits: self.limits,
            one_time_tokens: self.one_time_tokens,
            diagnostics: mpsc::channel(1).0,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = sabir_hub::serve(listener, store.clone(), settings, self.tls, async {
            let _ = stopped.await;
        });
        Running { address, store, sqlite, folder: self.folder, stop: Some(stop), task: tokio::spawn(serve) }
    }
}

/// Starts a hub that accepts requests without a token.
pub(crate) async fn open_hub() -> Running {
    Setup::default().start().await
}

/// Starts a hub that requires tokens.
pub(crate) async fn closed_hub() -> Running {
    Setup { open: false, ..Setup::default() }.start().await
}

impl Running {
    /// Stops the hub, waits until it has ended, and returns its folder.
    pub(crate) async fn stop(mut self) -> Arc<tempfile::TempDir> {
        self.begin_to_stop();
        self.task.await.expect("no panic").expect("no error");
        let backend: Weak<dyn MessageReader> = Arc::downgrade(&self.store.messages);
        drop(self.store);
        assert_eq!(backend.strong_count(), 0, "the hub has dropped the backend");
        self.folder
    }

    /// Sets the size limit.
    pub(crate) async fn set_limit(&self, bytes: Option<u64>) {
        self.sqlite.upgrade().expect("a store on disk").set_limit(bytes).await.expect("a limit");
    }

    pub(crate) fn begin_to_stop(&mut self) {
        let _ = self.stop.take().expect("it runs").send(());
    }

    /// Creates a token and returns its secret.
    pub(crate) async fn token(&self, scope: &str) -> String {
        self.token_until(scope, None).await.1
    }

    pub(crate) async fn token_until(&self, scope: &str, seconds: Option<i64>) -> (String, String) {
        let scope: Scope = scope.parse().expect("a scope");
        let later = |seconds| sabir_core::time::Timestamp::from_millis(now().as_millis() + seconds * 1_000);
        let (token, secret) = Token::new(vec![scope], None, now(), seconds.and_then(later)).expect("randomness");
        let id = token.id.clone();
        self.store.tokens.add_token(token).await.expect("stored");
        (id, secret)
    }

    pub(crate) async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection")) {
            head += "Connection: close\r\n";
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            let _ = write!(head, "Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("sent");
        // A hub that has refused the request does not read the rest.
        let _ = stream.write_all(body).await;
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply).await;
        Reply::parse(&reply)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], b"").await
    }

    pub(crate) async fn get_with(&self, path: &str, token: &str) -> Reply {
        self.request("GET", path, &[("Authorization", &format!("Bearer {token}"))], b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, &[("Sabir-Protocol", "1")], body.to_string().as_bytes()).await
    }

    /// Requests a stream of server-sent events.
    pub(crate) async fn events(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        let mut head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("sent");
        Events { lines: BufReader::new(stream).lines() }
    }

    /// Opens a WebSocket; the error is the status of a refusal.
    pub(crate) async fn socket(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let mut request = format!("ws://{}{path}", self.address).into_client_request().expect("a request");
        for (name, value) in headers {
            let name: tokio_tungstenite::tungstenite::http::HeaderName = name.parse().expect("a name");
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens the WebSocket of a runner.
    pub(crate) async fn runner(&self, session: &str) -> Socket {
        let path = format!("/v1/runners/{session}");
        self.socket(&path, &[("Sec-WebSocket-Protocol", SUBPROTOCOL)]).await.expect("a WebSocket")
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let mut body = bytes.get(end + 4..).unwrap_or_default().to_vec();
        if head.contains("transfer-encoding: chunked") {
            body = join_chunks(&body);
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head, body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The code of an error response.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Joins the chunks of a body.
fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).expect("digits"), 16).expect("a size");
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    body
}

/// A stream of server-sent events.
pub(crate) struct Events {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
}

impl Events {
    /// The next event with its id; `None` at the end. Lines with chunk sizes are skipped.
    pub(crate) async fn next(&mut self) -> Option<(u64, Value)> {
        self.next_of_type().await.map(|(id, _, data)| (id, data))
    }

    /// The next event with its id and type.
    pub(crate) async fn next_of_type(&mut self) -> Option<(u64, String, Value)> {
        let (mut id, mut kind) = (0, String::new());
        while let Ok(Some(line)) = self.lines.next_line().await {
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.parse().expect("a number");
            } else if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((id, kind, serde_json::from_str(data).expect("JSON")));
            }
        }
        None
    }

    pub(crate) async fn status(&mut self) -> u16 {
        let line = self.lines.next_line().await.expect("a line").expect("a line");
        line.split(' ').nth(1).expect("a status").parse().expect("a number")
    }
}

/// A WebSocket connection.
pub(crate) struct Socket(pub(crate) WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn send_json(&mut self, frame: &Value) {
        self.0.send(Message::Text(frame.to_string().into())).await.expect("sent");
    }

    pub(crate) async fn send(&mut self, frame: Vec<u8>) {
        self.0.send(Message::Binary(frame.into())).await.expect("sent");
    }

    /// Sends a frame; `false` if the connection is closed.
    pub(crate) async fn try_send(&mut self, frame: Vec<u8>) -> bool {
        self.0.send(Message::Binary(frame.into())).await.is_ok()
    }

    /// The next frame of the protocol.
    pub(crate) async fn receive(&mut self) -> FromHub {
        serde_json::from_str(&self.text().await.expect("a frame")).expect("a frame of the protocol")
    }

    /// The next text frame, or the code of the close frame.
    pub(crate) async fn text(&mut self) -> Result<String, u16> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map_or(0, |frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(0),
            }
        }
    }

    /// Sends a hello and returns the answer.
    pub(crate) async fn hello(&mut self, session: &str, writer: &str, epoch: u32, last: u64) -> FromHub {
        self.send_json(&hello(session, writer, epoch, last)).await;
        self.receive().await
    }

    /// Waits for the end; returns the codes of the error and of the close frame.
    pub(crate) async fn end(&mut self) -> (String, u16) {
        let mut code = String::new();
        loop {
            match self.text().await {
                Ok(text) => {
                    let frame: Value = serde_json::from_str(&text).expect("JSON");
                    if frame["type"] == "error" {
                        frame["code"].as_str().expect("a code").clone_into(&mut code);
                    }
                }
                Err(close) => return (code, close),
            }
        }
    }
}

pub(crate) fn hello(session: &str, writer: &str, epoch: u32, last: u64) -> Value {
    let session = session.parse().expect("an id");
    let takes = vec!["prompt".to_owned()];
    let agent = Some("codex".to_owned());
    let shell = Some("test".to_owned());
    let hello = Hello { session, writer: writer.to_owned(), epoch, last, orders: 0, agent, shell, takes };
    serde_json::to_value(sabir_protocol::FromShell::Hello(hello)).expect("JSON")
}

pub(crate) fn message(session: &str, seq: u64, text: &str) -> String {
    let ts = "2026-01-02T03:04:05.678Z";
    json!({ "sessionId": session, "seq": seq, "ts": ts, "type": "log", "payload": { "text": text } }).to_string()
}

/// A message with an event in it.
pub(crate) fn event(session: &str, seq: u64, fields: &Value) -> String {
    let mut event = json!({ "runId": "r", "seq": seq, "at": "2026-01-02T03:04:05.678Z" });
    event.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    let ts = "2026-01-02T03:04:05.678Z";
    json!({ "sessionId": session, "seq": seq, "ts": ts, "type": "event", "payload": { "json": event } }).to_string()
}

/// A batch with these lines.
pub(crate) fn frame(first: u64, lines: &[String]) -> Vec<u8> {
    let all: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    batch::encode(first, u32::try_from(lines.len()).expect("few"), all.as_bytes()).expect("fits")
}

/// A batch with messages from `first` to `last`.
pub(crate) fn numbered_batch(session: &str, first: u64, last: u64) -> Vec<u8> {
    let lines: Vec<String> = (first..=last).map(|seq| message(session, seq, &format!("number {seq}"))).collect();
    frame(first, &lines)
}

/// Content of a file in the hub's folder.
pub(crate) fn file(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("a file")
}
