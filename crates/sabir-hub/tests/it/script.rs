//! Interprets bytes as a script of runner frames over a WebSocket: valid, slightly invalid, and arbitrary ones. Used by the property
//! tests and the fuzz target `session`.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use sabir_hub::store::{MessageReader, ReadLimit};
use sabir_protocol::{Code, FromHub, SUBPROTOCOL, batch};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// Maximum number of steps; longer scripts do not find more.
const MAX_STEPS: usize = 64;
/// Time after which a silent hub counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(60);

type Socket = WebSocketStream<TcpStream>;

struct Script<'s>(&'s [u8]);

impl<'s> Script<'s> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn flag(&mut self) -> bool {
        self.byte() < 128
    }

    /// A number of any magnitude.
    fn number(&mut self) -> u64 {
        let (low, shift) = (u64::from(self.byte()), u32::from(self.byte()) % 64);
        if shift == 63 { u64::MAX - low } else { low << shift }
    }

    fn bytes(&mut self) -> &'s [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    fn one<'o>(&mut self, of: &[&'o str]) -> &'o str {
        of[usize::from(self.byte()) % of.len()]
    }
}

/// State of a session.
struct Session<'n> {
    name: &'n str,
    /// Number of the last message that was sent in order.
    sent: u64,
    acked: u64,
}

impl Session<'_> {
    fn hello(&self, writer: &str, epoch: u64, last: u64) -> Value {
        json!({"type":"hello","session":self.name,"writer":writer,"epoch":epoch,"last":last,"agent":"codex","takes":["prompt"]})
    }

    fn message(&self, seq: u64, kind: &str, payload: &Value) -> String {
        let ts = "2026-01-02T03:04:05.678Z";
        json!({"sessionId":self.name,"seq":seq,"ts":ts,"type":kind,"payload":payload}).to_string() + "\n"
    }

    /// A batch of plain messages. Messages with the same number are equal.
    fn batch(&self, first: u64, count: u64, long: bool) -> Vec<u8> {
        let payload = |seq| json!({"text":format!("number {seq}").repeat(if long { 100 } else { 1 })});
        let lines: String =
            (0..count).map(|at| self.message(first.wrapping_add(at), "log", &payload(first.wrapping_add(at)))).collect();
        batch::encode(first, u32::try_from(count).unwrap_or(0), lines.as_bytes()).unwrap_or_default()
    }

    fn step(&mut self, script: &mut Script<'_>) -> Option<Message> {
        let binary = |bytes: Vec<u8>| Some(Message::Binary(bytes.into()));
        let text = |text: String| Some(Message::Text(text.into()));
        match script.byte() % 14 {
            0 => text(self.hello("a", 1, self.sent).to_string()),
            1 => {
                let (writer, epoch, last) = (script.text(), script.number(), script.number());
                text(self.hello(&writer, epoch, last).to_string())
            }
            2 | 3 => {
                let (first, count) = (self.sent + 1, 1 + u64::from(script.byte() % 5));
                self.sent += count;
                binary(self.batch(first, count, false))
            }
            4 => binary(self.batch(script.number(), 1 + u64::from(script.byte() % 5), false)),
            5 | 6 => {
                let mut frame = self.batch(self.sent + 1, 3, script.flag());
                for _ in 0..=script.byte() % 4 {
                    // Most checks concern the header.
                    let at = (usize::from(script.byte()) * if script.flag() { 1 } else { 97 }) % frame.len().max(1);
                    if let Some(byte) = frame.get_mut(at) {
                        *byte = script.byte();
                    }
                }
                frame.truncate(frame.len().saturating_sub(usize::from(script.byte().saturating_sub(200))));
                binary(frame)
            }
            7 => binary(script.bytes().to_vec()),
            8 => text(script.text()),
            9 => {
                let kind = script.one(&["taken", "hello", "heartbeat", "order", "ack", "error", ""]);
                text(json!({"type":kind,"order":script.number(),"accepted":script.flag(),"reason":script.text()}).to_string())
            }
            10 => {
                // A message with the next number and arbitrary content, which differs if it is repeated.
                let kind = script.one(&["log", "event", "status", "order", "session", "artifact", "result", "x"]);
                let bytes = script.bytes();
                let value = serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)));
                let payload = json!({"json":value,"text":value,"kind":script.one(&["started", "tool_call", "end", "usage"])});
                let line = self.message(self.sent + 1, kind, &payload);
                self.sent += 1;
                binary(batch::encode(self.sent, 1, line.as_bytes()).unwrap_or_default())
            }
            11 => Some(Message::Ping(script.bytes().iter().copied().take(125).collect())),
            12 => Some(Message::Close(None)),
            // Disconnects without a close frame.
            _ => None,
        }
    }

    /// Reads to the end of a connection; then all sent frames have taken effect.
    async fn finish(&mut self, mut socket: Socket, store: &dyn MessageReader) {
        let _ = socket.send(Message::Close(None)).await;
        let rest = async {
            while let Some(Ok(frame)) = socket.next().await {
                let Message::Text(text) = frame else { continue };
                match serde_json::from_str(&text).expect("the hub speaks the protocol") {
                    FromHub::Ack { last } => {
                        assert!(last >= self.acked, "an ack decreases from {} to {last}", self.acked);
                        self.acked = last;
                    }
                    FromHub::Error(refusal) => assert!(refusal.code != Code::Internal, "{refusal:?}"),
                    FromHub::Unknown => panic!("unknown frame of the hub: {text}"),
                    _ => {}
                }
            }
        };
        timeout(TIMEOUT, rest).await.expect("the connection ends");
        // The hub may have stored unacknowledged messages, and the next hello must have the last number.
        let session = self.name.parse().expect("an id");
        self.sent = store.last_seq(&session).await.expect("read").unwrap_or(0);
    }
}

async fn connect(address: SocketAddr, session: &str) -> Socket {
    let stream = TcpStream::connect(address).await.expect("the hub listens");
    let mut request = format!("ws://{address}/v1/runners/{session}").into_client_request().expect("a request");
    request.headers_mut().insert("Sec-WebSocket-Protocol", SUBPROTOCOL.parse().expect("a value"));
    timeout(TIMEOUT, tokio_tungstenite::client_async(request, stream)).await.expect("an answer").expect("an upgrade").0
}

/// Runs a script against a hub without tokens. Panics if the hub reports an internal error, hangs, loses acknowledged messages,
/// stores invalid ones, or does not serve a well-behaved runner afterwards.
pub(crate) async fn run(address: SocketAddr, store: &dyn MessageReader, name: &str, script: &[u8]) {
    let mut session = Session { name, sent: 0, acked: 0 };
    let mut script = Script(script);
    let mut socket = connect(address, name).await;
    for _ in 0..MAX_STEPS {
        if script.0.is_empty() {
            break;
        }
        let step = session.step(&mut script);
        let is_over = match step {
            Some(Message::Close(_)) => true,
            Some(message) => socket.send(message).await.is_err(),
            None => {
                socket = connect(address, name).await;
                false
            }
        };
        if is_over {
            session.finish(socket, store).await;
            socket = connect(address, name).await;
        }
    }
    session.finish(socket, store).await;
    check(store, name, session.acked).await;

    let name = format!("{name}-honest");
    let mut honest = Session { name: &name, sent: 0, acked: 0 };
    let mut socket = connect(address, &name).await;
    let hello = honest.hello("a", 1, 0).to_string();
    for message in [Message::Text(hello.into()), Message::Binary(honest.batch(1, 3, true).into())] {
        socket.send(message).await.expect("sent");
    }
    let acked = async {
        while let Some(Ok(frame)) = socket.next().await {
            if frame.to_text().is_ok_and(|text| text.contains("\"ack\"")) {
                return;
            }
        }
        panic!("the hub closed the connection of a well-behaved runner");
    };
    timeout(TIMEOUT, acked).await.expect("an ack");
    honest.finish(socket, store).await;
    check(store, &name, 3).await;
}

/// Checks that the stored messages have no gaps and include the acknowledged ones.
async fn check(store: &dyn MessageReader, name: &str, acked: u64) {
    let session = name.parse().expect("an id");
    let mut last = 0;
    loop {
        let page = store.read(&session, last, ReadLimit { messages: 1_000, bytes: 1 << 20 }).await.expect("read");
        if page.is_empty() {
            break;
        }
        for stored in page {
            last += 1;
            let message: Value = serde_json::from_slice(&stored.line).expect("a message is JSON");
            assert_eq!((stored.seq, message["seq"].as_u64(), message["sessionId"].as_str()), (last, Some(last), Some(name)));
        }
    }
    assert!(last >= acked, "{acked} messages were acknowledged, but {last} are stored");
}
