//! Many shells and many watchers in one process, which has one clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use sabir_protocol::{FromHub, SUBPROTOCOL, batch};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

#[derive(clap::Args)]
pub(crate) struct LoadArguments {
    /// Where the hub is
    address: String,
    #[arg(long, default_value_t = 1)]
    sessions: u32,
    #[arg(long, default_value_t = 1)]
    per_second: u32,
    #[arg(long, default_value_t = 1)]
    seconds: u32,
    /// Only one session, which gets so many events as fast as they go
    #[arg(long, value_name = "EVENTS")]
    one: Option<u64>,
}

/// What came of a load. Times are in milliseconds, from when a message was due to when its watcher had it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Loaded {
    pub(super) sent: u64,
    /// How many were seen before the time was over, or in the second after it.
    pub(super) seen: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

impl Loaded {
    /// Everything was seen, and nearly everything within a second.
    pub(super) fn keeps_up(&self) -> bool {
        self.seen == self.sent && self.p99 < 1_000.0
    }
}

/// How long after the end something may still be seen.
const AFTER: Duration = Duration::from_secs(1);

pub(crate) fn load(arguments: &LoadArguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.one {
            Some(count) => fill(&arguments.address, count).await,
            None => {
                let loaded = many(arguments).await?;
                println!("{}", serde_json::to_string(&loaded)?);
                Ok(())
            }
        }
    })
}

type Socket = WebSocketStream<TcpStream>;

/// A shell of the protocol, after its welcome; the number of the last message that the hub has.
async fn shell(address: &str, session: &str) -> Result<(Socket, u64)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut request = format!("ws://{address}/v1/shells/{session}").into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", SUBPROTOCOL.parse()?);
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await?;
    // It has no log of before, so it asks for a place each time.
    let writer = format!("bench-{}", std::process::id());
    let hello = |epoch: u32, last: u64| json!({"type":"hello","session":session,"writer":writer,"epoch":epoch,"last":last,"orders":0,"takes":[]});
    socket.send(Message::text(hello(0, 0).to_string())).await?;
    let (epoch, last) = welcome(&mut socket).await?;
    socket.send(Message::text(hello(epoch, last).to_string())).await?;
    let (_, last) = welcome(&mut socket).await?;
    Ok((socket, last))
}

async fn welcome(socket: &mut Socket) -> Result<(u32, u64)> {
    while let Some(frame) = socket.next().await {
        let Message::Text(text) = frame? else { continue };
        match serde_json::from_str(&text)? {
            FromHub::Welcome(welcome) => return Ok((welcome.epoch, welcome.last)),
            FromHub::Error(refusal) => bail!("the hub refuses: {refusal}"),
            _ => {}
        }
    }
    bail!("the hub did not answer")
}

fn message(session: &str, seq: u64, text: &str) -> String {
    let event = json!({"runId":"bench","seq":seq,"at":"2026-01-02T03:04:05.678Z","kind":"text","delta":text});
    let payload = json!({"json":event});
    // The number stands before what is long, as in the messages of a shell.
    format!(
        "{{\"sessionId\":\"{session}\",\"seq\":{seq},\"ts\":\"2026-01-02T03:04:05.678Z\",\"type\":\"event\",\"payload\":{payload}}}\n"
    )
}

/// One session, as fast as it goes: four batches are on the way.
async fn fill(address: &str, count: u64) -> Result<()> {
    const BATCH: u64 = 2_000;
    let (mut socket, last) = shell(address, "long").await?;
    ensure!(last == 0, "there is such a session already");
    let (mut sent, mut acked) = (0, 0);
    let words = "a piece of what a model says, as long as such pieces are";
    while acked < count {
        while sent < count && sent - acked < 4 * BATCH {
            let until = count.min(sent + BATCH);
            let lines: String = (sent + 1..=until).map(|seq| message("long", seq, words)).collect();
            let frame = batch::encode(sent + 1, u32::try_from(until - sent)?, lines.as_bytes()).context("a batch")?;
            socket.send(Message::binary(frame)).await?;
            sent = until;
        }
        let Message::Text(text) = socket.next().await.context("the hub is gone")?? else { continue };
        match serde_json::from_str(&text)? {
            FromHub::Ack { last } => acked = last,
            FromHub::Error(refusal) => bail!("the hub refuses: {refusal}"),
            _ => {}
        }
    }
    Ok(())
}

/// What everybody shares.
struct Count {
    start: Instant,
    seen: AtomicU64,
}

async fn many(arguments: &LoadArguments) -> Result<Loaded> {
    let count = Arc::new(Count { start: Instant::now(), seen: AtomicU64::new(0) });
    let (times, mut seen) = mpsc::unbounded_channel();
    let mut to = Vec::new();
    for number in 0..arguments.sessions {
        let session = format!("bench-{number}");
        let (socket, last) = shell(&arguments.address, &session).await?;
        let (send, due) = mpsc::unbounded_channel();
        to.push(send);
        tokio::spawn(send_on(socket, session.clone(), last, due));
        watch(&arguments.address, &session, last, Arc::clone(&count), times.clone()).await?;
    }
    drop(times);
    let begin = Instant::now();
    let total = u64::from(arguments.per_second) * u64::from(arguments.seconds);
    for number in 0..total {
        let due = begin + Duration::from_secs_f64(number as f64 / f64::from(arguments.per_second));
        tokio::time::sleep_until(due.into()).await;
        // When it was due, not when it was sent: who is late must not look quick.
        let micros = u64::try_from(due.duration_since(count.start).as_micros())?;
        let session = usize::try_from(number % u64::from(arguments.sessions))?;
        to.get(session).context("a session")?.send(micros)?;
    }
    let until = tokio::time::Instant::now() + AFTER;
    while count.seen.load(Ordering::Relaxed) < total && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut all: Vec<f64> = Vec::new();
    while let Ok(time) = seen.try_recv() {
        all.push(time);
    }
    all.sort_by(f64::total_cmp);
    // The one below which so many in a thousand are.
    let at = |thousandths: usize| {
        let index = (all.len() * thousandths / 1_000).min(all.len().saturating_sub(1));
        all.get(index).copied().unwrap_or(f64::INFINITY)
    };
    Ok(Loaded { sent: total, seen: all.len() as u64, p50: at(500), p99: at(990), most: at(1_000) })
}

/// Sends a message whenever one is due, and reads what the hub says.
async fn send_on(mut socket: Socket, session: String, mut last: u64, mut due: mpsc::UnboundedReceiver<u64>) -> Result<()> {
    loop {
        tokio::select! {
            micros = due.recv() => {
                let Some(first) = micros else { return Ok(()) };
                // Whatever is due by now goes together, as in a shell.
                let mut all = vec![first];
                while let Ok(micros) = due.try_recv() {
                    all.push(micros);
                }
                let lines: String = (last + 1..).zip(&all).map(|(seq, micros)| message(&session, seq, &format!("due={micros}="))).collect();
                let frame = batch::encode(last + 1, u32::try_from(all.len())?, lines.as_bytes()).context("a batch")?;
                last += all.len() as u64;
                socket.send(Message::binary(frame)).await?;
            }
            frame = socket.next() => match frame.context("the hub is gone")?? {
                Message::Text(text) if text.contains("\"heartbeat\"") => {
                    socket.send(Message::text(r#"{"type":"heartbeat"}"#)).await?;
                }
                _ => {}
            },
        }
    }
}

/// Watches a session, and notes how long each message took.
async fn watch(address: &str, session: &str, after: u64, count: Arc<Count>, times: mpsc::UnboundedSender<f64>) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("GET /v1/sessions/{session}/events?after={after} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut lines = BufReader::new(stream).lines();
    let status = lines.next_line().await?.context("an answer")?;
    ensure!(status.contains("200"), "a watcher is refused: {status}");
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let Some(due) = line.split("due=").nth(1).and_then(|rest| rest.split('=').next()).and_then(|due| due.parse().ok())
            else {
                continue;
            };
            let due: u64 = due;
            let late = count.start.elapsed().as_secs_f64() * 1e3 - due as f64 / 1e3;
            count.seen.fetch_add(1, Ordering::Relaxed);
            if times.send(late).is_err() {
                return;
            }
        }
    });
    Ok(())
}
