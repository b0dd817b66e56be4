//! A fake hub, written from the protocol's specification, with injectable faults.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use sabir_protocol::{Order, batch};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// A fault, consumed by its next occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Closes the connection instead of accepting a batch.
    DropBatch,
    /// Accepts a batch and closes the connection instead of acknowledging it.
    DropAck,
    /// Reports a gap for any batch.
    Gap,
    /// Rejects the upgrade like a proxy.
    NoUpgrade,
    /// Answers an upgrade or request with this error.
    Refuse(&'static str, u16),
    /// Ends an open connection with this error instead of accepting a batch.
    End(&'static str),
}

/// State of the hub. All of it counts as durable.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) hellos: Vec<Value>,
    pub(crate) taken: Vec<Value>,
    pub(crate) orders: BTreeMap<u64, Order>,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) batches: usize,
    pub(crate) by_http: usize,
    pub(crate) duplicates: usize,
    pub(crate) authorized: Vec<Option<String>>,
    /// Sequence number before the first message.
    pub(crate) begin: u64,
    pub(crate) writer: Option<(String, u64)>,
    /// Neither reads nor answers.
    pub(crate) stalled: bool,
}

/// A fake hub on the loopback interface.
pub(crate) struct FakeHub {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

impl FakeHub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::on(listener)
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let hub = Self { address, state: Arc::default(), changed: watch::Sender::new(0) };
        let (state, changed) = (Arc::clone(&hub.state), hub.changed.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = Connection { state: Arc::clone(&state), changed: changed.clone() };
                tokio::spawn(async move {
                    let _ = connection.serve(stream).await;
                });
            }
        });
        hub
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(crate) fn with<T>(&self, access: impl FnOnce(&mut State) -> T) -> T {
        let result = access(&mut self.state.lock().expect("the state"));
        self.changed.send_modify(|count| *count += 1);
        result
    }

    /// Waits until the state satisfies a condition.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let mut changes = self.changed.subscribe();
        let waiting = async {
            while !is_so(&self.state.lock().expect("the state")) {
                changes.changed().await.expect("the hub is there");
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
            let state = self.state.lock().expect("the state");
            panic!("{what}: {} messages, {} batches, hellos {:?}", state.messages.len(), state.batches, state.hellos);
        }
    }

    /// All messages. Asserts that their sequence numbers have no gap.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.with(|state| {
            let messages: Vec<Value> = state.messages.iter().map(|line| serde_json::from_slice(line).expect("JSON")).collect();
            for (message, seq) in messages.iter().zip(state.begin + 1..) {
                assert_eq!(message["seq"], seq);
            }
            messages
        })
    }
}

struct Connection {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

type Io<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Connection {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut self.state.lock().expect("the state"));
        self.changed.send_modify(|count| *count += 1);
        out
    }

    fn fault(&self, is_it: impl Fn(&Fault) -> bool) -> Option<Fault> {
        self.with(|state| if state.faults.front().is_some_and(&is_it) { state.faults.pop_front() } else { None })
    }

    async fn serve(&self, mut stream: TcpStream) -> Io<()> {
        let mut bytes = Vec::new();
        loop {
            // Keep-alive: several requests per connection.
            let head = loop {
                if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                    let head = String::from_utf8(bytes.drain(..end + 4).collect())?;
                    break head;
                }
                if stream.read_buf(&mut bytes).await? == 0 {
                    return Ok(());
                }
            };
            let field = |name: &str| {
                head.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                })
            };
            self.with(|state| state.authorized.push(field("authorization")));
            if let Some(Fault::Refuse(code, status)) = self.fault(|fault| matches!(fault, Fault::Refuse(..))) {
                answer(&mut stream, status, &json!({"type": "error", "code": code, "message": "refused by the test"})).await?;
                return Ok(());
            }
            if let Some(key) = field("sec-websocket-key") {
                if self.fault(|fault| *fault == Fault::NoUpgrade).is_some() {
                    stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 5\r\nconnection: close\r\n\r\nproxy").await?;
                    return Ok(());
                }
                assert_eq!(field("sec-websocket-protocol").as_deref(), Some("sabir.shell.1"));
                let accept = derive_accept_key(key.as_bytes());
                let head = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {accept}\r\nsec-websocket-protocol: sabir.shell.1\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await?;
                return self.socket(WebSocketStream::from_raw_socket(stream, Role::Server, None).await).await;
            }
            assert_eq!(field("sabir-protocol").as_deref(), Some("1"));
            let length: usize = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            while bytes.len() < length {
                if stream.read_buf(&mut bytes).await? == 0 {
                    return Ok(());
                }
            }
            let body: Vec<u8> = bytes.drain(..length).collect();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let name = path.rsplit('/').next().unwrap_or_default();
            match name.split('?').next().unwrap_or_default() {
                "hello" => answer(&mut stream, 200, &self.welcome(serde_json::from_slice(&body)?)).await?,
                "batches" => {
                    self.with(|state| state.by_http += 1);
                    assert!(field("sabir-writer").is_some() && field("sabir-epoch").is_some());
                    match self.batch(&body) {
                        Some(frame) => answer(&mut stream, if frame["type"] == "gap" { 409 } else { 200 }, &frame).await?,
                        None => return Ok(()),
                    }
                }
                "taken" => {
                    self.taken(serde_json::from_slice(&body)?);
                    answer(&mut stream, 200, &json!({})).await?;
                }
                "orders" => {
                    let after: u64 =
                        path.split(['?', '&']).find_map(|part| part.strip_prefix("after=")?.parse().ok()).unwrap_or(0);
                    let mut changes = self.changed.subscribe();
                    let commands = loop {
                        let commands: Vec<Order> = self
                            .state
                            .lock()
                            .expect("the state")
                            .orders
                            .range(after + 1..)
                            .map(|(_, order)| order.clone())
                            .collect();
                        if !commands.is_empty() {
                            break commands;
                        }
                        changes.changed().await?;
                    };
                    answer(&mut stream, 200, &json!({"orders": commands})).await?;
                }
                _ => {
                    answer(&mut stream, 404, &json!({"type": "error", "code": "not_found", "message": "nothing is here"}))
                        .await?;
                }
            }
        }
    }

    fn welcome(&self, hello: Value) -> Value {
        self.with(|state| {
            let last = state.begin + state.messages.len() as u64;
            let epoch = match hello["epoch"].as_u64() {
                Some(0) => state.writer.as_ref().map_or(1, |(_, epoch)| epoch + 1),
                epoch => epoch.expect("an epoch"),
            };
            state.writer = Some((hello["writer"].as_str().expect("a writer").to_owned(), epoch));
            let done = hello["orders"].as_u64().expect("a number");
            let commands: Vec<Order> = state.orders.range(done + 1..).map(|(_, order)| order.clone()).collect();
            state.hellos.push(hello);
            json!({"type": "welcome", "epoch": epoch, "last": last, "heartbeatSeconds": 1, "maxBatchBytes": 8 << 20, "orders": commands})
        })
    }

    /// The response to a batch; `None` closes the connection.
    fn batch(&self, frame: &[u8]) -> Option<Value> {
        if self.fault(|fault| *fault == Fault::DropBatch).is_some() {
            return None;
        }
        let drop_ack = self.fault(|fault| *fault == Fault::DropAck).is_some();
        let gap = self.fault(|fault| *fault == Fault::Gap).is_some();
        let answer = self.with(|state| {
            let batch = batch::decode(frame, 8 << 20).expect("a batch");
            state.batches += 1;
            let expected = state.begin + state.messages.len() as u64 + 1;
            if gap || batch.first > expected {
                return json!({"type": "gap", "expected": expected});
            }
            for (line, seq) in batch.messages().zip(batch.first..) {
                let message: Value = serde_json::from_slice(line).expect("JSON");
                assert_eq!(message["seq"], seq);
                if seq < expected {
                    state.duplicates += 1;
                    let known = &state.messages[usize::try_from(seq - state.begin - 1).expect("small")];
                    assert_eq!(known, line, "a message that comes again is the same");
                } else {
                    state.messages.push(line.to_vec());
                }
            }
            json!({"type": "ack", "last": state.begin + state.messages.len() as u64})
        });
        (!drop_ack).then_some(answer)
    }

    fn taken(&self, taken: Value) {
        self.with(|state| {
            state.orders.remove(&taken["order"].as_u64().expect("a number"));
            state.taken.push(taken);
        });
    }

    async fn socket(&self, mut socket: WebSocketStream<TcpStream>) -> Io<()> {
        let mut last_sent = 0;
        let mut changes = self.changed.subscribe();
        let mut greeted = false;
        loop {
            if self.state.lock().expect("the state").stalled {
                changes.changed().await?;
                continue;
            }
            let commands: Vec<Order> =
                self.state.lock().expect("the state").orders.range(last_sent + 1..).map(|(_, order)| order.clone()).collect();
            for order in commands.into_iter().filter(|_| greeted) {
                last_sent = order.order;
                let mut frame = serde_json::to_value(&order)?;
                frame["type"] = "order".into();
                socket.send(Message::text(frame.to_string())).await?;
            }
            tokio::select! {
                changed = changes.changed() => changed?,
                message = socket.next() => match message.ok_or("closed")?? {
                    Message::Binary(bytes) => {
                        if let Some(Fault::End(code)) = self.fault(|fault| matches!(fault, Fault::End(_))) {
                            let error = json!({"type": "error", "code": code, "message": "ended by the test"});
                            socket.send(Message::text(error.to_string())).await?;
                            return Ok(socket.close(None).await?);
                        }
                        match self.batch(&bytes) {
                            Some(frame) => socket.send(Message::text(frame.to_string())).await?,
                            None => return Ok(()),
                        }
                    }
                    Message::Text(text) => {
                        let frame: Value = serde_json::from_str(&text)?;
                        match frame["type"].as_str() {
                            Some("hello") => {
                                let welcome = self.welcome(frame);
                                greeted = true;
                                last_sent = self.state.lock().expect("the state").orders.keys().last().copied().unwrap_or(last_sent);
                                socket.send(Message::text(welcome.to_string())).await?;
                            }
                            Some("taken") => self.taken(frame),
                            _ => socket.send(Message::text(r#"{"type":"heartbeat"}"#)).await?,
                        }
                    }
                    Message::Close(_) => return Ok(()),
                    _ => {}
                },
            }
        }
    }
}

async fn answer(stream: &mut TcpStream, status: u16, body: &Value) -> Io<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    Ok(stream.write_all(head.as_bytes()).await?)
}
