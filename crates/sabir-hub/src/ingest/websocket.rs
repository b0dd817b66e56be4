//! Runner protocol over a WebSocket.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderValue;
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use sabir_protocol::batch::HEAD;
use sabir_protocol::{Code, FromHub, FromShell, Hello, Refusal, SUBPROTOCOL};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Error as SocketError;

use super::{Opened, check_batch, finish_append, open, resolve_command, unsupported_version};
use crate::error::{ApiError, StoreError, malformed};
use crate::extract::{Runner, SessionPath};
use crate::live_cache::Connected;
use crate::openapi::RunnerErrors;
use crate::state::ReportError as _;
use crate::store::{AppendRequest, AppendResult, SessionHead};

/// Maximum number of batches that a connection has in flight.
const MAX_IN_FLIGHT: usize = 4;
/// Maximum time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Rate-limit cost of frames, where a request costs 1. A batch is cheaper, because waiting for its commit already limits the rate.
const FRAME_COST: f64 = 1.0;
const BATCH_COST: f64 = 0.1;

/// Opens the WebSocket of a runner.
#[utoipa::path(get, path = "/v1/runners/{session}", operation_id = "runnerSocket", tag = "runners",
    params(SessionPath),
    responses(
        (status = 101, description = "Switch to the WebSocket protocol, see docs/shell-protocol.md"),
        RunnerErrors,
    ))]
pub(crate) async fn connect(
    runner: Runner,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let mut upgrade = upgrade.map_err(|_| malformed("not a WebSocket request"))?;
    if !upgrade.requested_protocols().any(|offered| offered == SUBPROTOCOL) {
        return Err(unsupported_version().into());
    }
    upgrade.set_selected_protocol(HeaderValue::from_static(SUBPROTOCOL));
    // Frames may exceed the batch limit, so that a large batch gets an error of the protocol. Even larger ones abort the connection.
    let max = 2 * runner.state.limits.batch_bytes + HEAD;
    let upgrade = upgrade.max_message_size(max).max_frame_size(max).read_buffer_size(16 << 10).write_buffer_size(0);
    Ok(upgrade.on_upgrade(move |socket| serve(runner, socket)))
}

/// A batch that is being stored.
type InFlight = Pin<Box<dyn Future<Output = (AppendRequest, Result<AppendResult, StoreError>)> + Send>>;

/// End of a connection.
enum End {
    /// A close without an error.
    Normal,
    /// An error frame and a close with its code.
    Refused(Refusal),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

async fn serve(runner: Runner, mut socket: WebSocket) {
    let state = &runner.state;
    let end = run(&runner, &mut socket).await.err().unwrap_or(End::Normal);
    if let End::Refused(refusal) = &end {
        state.audit.count_response(&runner.client.principal.audit_name(), refusal.code.status());
    }
    let close = |code: u16, reason: &str| {
        // A close frame has at most 123 bytes.
        let reason: String = reason.chars().take(100).filter(char::is_ascii).collect();
        Message::Close(Some(CloseFrame { code, reason: reason.into() }))
    };
    let closing = async {
        match end {
            End::Normal => socket.send(close(1000, "")).await,
            End::Refused(refusal) => {
                let (code, reason) = (refusal.code.close(), refusal.message.clone());
                if let Ok(text) = serde_json::to_string(&FromHub::Error(refusal)) {
                    socket.send(Message::Text(text.into())).await?;
                }
                socket.send(close(code, &reason)).await
            }
        }?;
        // Unread data makes the system reset the connection, and the runner may then lose our last frames.
        while socket.recv().await.is_some_and(|frame| frame.is_ok()) {}
        Ok::<(), axum::Error>(())
    };
    let _ = timeout(state.limits.request_timeout.min(CLOSE_TIMEOUT), closing).await;
}

/// A connection after its hello.
struct Connection<'c> {
    runner: &'c Runner,
    socket: &'c mut WebSocket,
    writer: String,
    epoch: u32,
    /// Number of this connection; a later one replaces it.
    number: u64,
    /// Number of the last command that was sent.
    last_command: u64,
    in_flight: FuturesOrdered<InFlight>,
    /// Rate-limit key of frames. It belongs to the session, so that reconnecting does not refill the bucket.
    rate_limit_key: String,
    /// Nothing is read before this time, because the rate limit is exceeded.
    paused_until: Instant,
    last_received: Instant,
    last_sent: Instant,
    head: watch::Receiver<SessionHead>,
    _connected: Connected,
}

async fn run(runner: &Runner, socket: &mut WebSocket) -> Result<(), End> {
    let state = &runner.state;
    let rate_limit_key = format!("{} {} frames", runner.client.principal.rate_limit_key(), runner.session);
    let no_hello = || Refusal::new(Code::Malformed, "the first frame must be a hello");
    let first = async {
        loop {
            match next_frame(socket).await? {
                Some(Message::Text(text)) => return Ok(text),
                Some(Message::Binary(_)) => return Err(no_hello().into()),
                Some(_) => tokio::time::sleep(state.rate_limiter.charge(&rate_limit_key, FRAME_COST)).await,
                None => return Err(End::Normal),
            }
        }
    };
    let text = tokio::select! {
        first = timeout(state.limits.request_timeout, first) => {
            first.map_err(|_| Refusal::new(Code::Unavailable, "timed out waiting for the hello"))??
        }
        refusal = state.stopping() => return Err(refusal.into()),
    };
    let Ok(FromShell::Hello(hello)) = serde_json::from_str(&text) else { return Err(no_hello().into()) };
    Connection::open(runner, socket, rate_limit_key, hello).await?.run().await
}

/// The next frame; `None` at the end of the connection.
async fn next_frame(socket: &mut WebSocket) -> Result<Option<Message>, End> {
    match socket.recv().await {
        Some(Ok(Message::Close(_))) | None => Ok(None),
        Some(Ok(message)) => Ok(Some(message)),
        Some(Err(error)) => match error.into_inner().downcast_ref::<SocketError>() {
            Some(SocketError::Capacity(_)) => Err(Refusal::new(Code::TooLarge, "the frame is too large").into()),
            Some(SocketError::Utf8(_) | SocketError::Protocol(_)) => {
                Err(Refusal::new(Code::Malformed, "invalid WebSocket frame").into())
            }
            _ => Err(End::Normal),
        },
    }
}

impl<'c> Connection<'c> {
    /// Opens the session and answers the hello.
    async fn open(runner: &'c Runner, socket: &'c mut WebSocket, rate_limit_key: String, hello: Hello) -> Result<Self, End> {
        let (state, writer) = (&runner.state, hello.writer.clone());
        let Opened { welcome, connection } = open(runner, hello, true).await?;
        let head = state.store.messages.watch(&runner.session).await.report(state)?;
        let head = head.ok_or_else(|| Refusal::new(Code::Internal, "internal error: the session does not exist"))?;
        let mut connection = Connection {
            runner,
            socket,
            writer,
            epoch: welcome.epoch,
            number: connection,
            last_command: welcome.orders.last().map_or(0, |command| command.order),
            in_flight: FuturesOrdered::new(),
            rate_limit_key,
            paused_until: Instant::now(),
            last_received: Instant::now(),
            last_sent: Instant::now(),
            head,
            _connected: state.live.connect(&runner.session),
        };
        connection.send(&FromHub::Welcome(welcome)).await?;
        // Look for commands that were added before the subscription to the head.
        connection.head.mark_changed();
        Ok(connection)
    }

    async fn run(mut self) -> Result<(), End> {
        let state = &self.runner.state;
        let heartbeat = state.limits.heartbeat;
        let mut stopping = pin!(state.stopping());
        let mut revoked = pin!(state.authenticator.until_revoked(&self.runner.client.principal));
        loop {
            let is_paused = self.paused_until > Instant::now();
            let can_read = self.in_flight.len() < MAX_IN_FLIGHT && !is_paused;
            tokio::select! {
                refusal = &mut stopping => return Err(refusal.into()),
                refusal = &mut revoked => return Err(refusal.into()),
                changed = self.head.changed() => {
                    changed.map_err(|_| End::Normal)?;
                    self.handle_head().await?;
                }
                Some((request, result)) = self.in_flight.next() => {
                    self.handle_append(&request, result).await?;
                    self.last_received = Instant::now();
                }
                frame = next_frame(self.socket), if can_read => match frame? {
                    Some(frame) => {
                        self.last_received = Instant::now();
                        let cost = if matches!(frame, Message::Binary(_)) { BATCH_COST } else { FRAME_COST };
                        self.paused_until = self.last_received + state.rate_limiter.charge(&self.rate_limit_key, cost);
                        self.handle_frame(frame).await?;
                    }
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(self.paused_until), if is_paused => {}
                () = tokio::time::sleep_until(self.last_sent + heartbeat) => self.send(&FromHub::Heartbeat {}).await?,
                () = tokio::time::sleep_until(self.last_received + 3 * heartbeat), if can_read => return Ok(()),
            }
        }
    }

    /// Ends the connection if another runner or connection has replaced it, and sends new commands.
    async fn handle_head(&mut self) -> Result<(), End> {
        let head = *self.head.borrow_and_update();
        if head.epoch > self.epoch {
            let message = format!("epoch {} was replaced by epoch {}", self.epoch, head.epoch);
            return Err(Refusal::new(Code::Fenced, message).into());
        }
        if head.connection > self.number {
            return Err(End::Normal);
        }
        if head.last_command > self.last_command {
            let store = &self.runner.store.commands;
            let commands = store.commands(&self.runner.session, self.last_command).await.report(&self.runner.state)?;
            for stored in commands {
                self.last_command = self.last_command.max(stored.command.order);
                if stored.outcome.is_none() {
                    self.send(&FromHub::Order(stored.command)).await?;
                }
            }
        }
        Ok(())
    }

    async fn handle_frame(&mut self, frame: Message) -> Result<(), End> {
        match frame {
            Message::Binary(frame) => {
                let batch = check_batch(self.runner, &frame, &self.writer, self.epoch).await?;
                // The store queues the batch here, so batches stay in order.
                let append = self.runner.store.messages.append(batch.request.clone());
                self.in_flight.push_back(Box::pin(async move {
                    let result = append.await;
                    drop(batch.memory);
                    (batch.request, result)
                }));
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(FromShell::Hello(hello)) => self.handle_hello(hello).await?,
                Ok(FromShell::Taken(taken)) => resolve_command(self.runner, taken).await?,
                Ok(FromShell::Heartbeat {} | FromShell::Unknown) => {}
                Err(error) => return Err(Refusal::new(Code::Malformed, format!("invalid text frame: {error}")).into()),
            },
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
        }
        Ok(())
    }

    /// Handles another hello: after epoch 0, a runner sends the epoch that it was given once its log is ready.
    async fn handle_hello(&mut self, hello: Hello) -> Result<(), End> {
        let writer = hello.writer.clone();
        let Opened { welcome, connection } = open(self.runner, hello, true).await?;
        (self.writer, self.epoch, self.number) = (writer, welcome.epoch, connection);
        self.last_command = welcome.orders.last().map_or(0, |command| command.order).max(self.last_command);
        self.send(&FromHub::Welcome(welcome)).await
    }

    async fn handle_append(&mut self, request: &AppendRequest, result: Result<AppendResult, StoreError>) -> Result<(), End> {
        match finish_append(&self.runner.state, request, result)? {
            AppendResult::Stored { last, .. } => self.send(&FromHub::Ack { last }).await,
            AppendResult::Gap { expected } => self.send(&FromHub::Gap { expected }).await,
            AppendResult::Refused(refusal) => Err(refusal.into()),
        }
    }

    async fn send(&mut self, frame: &FromHub) -> Result<(), End> {
        let text = serde_json::to_string(frame).map_err(|_| End::Normal)?;
        // A runner that does not read for three heartbeats counts as gone.
        let sent = timeout(3 * self.runner.state.limits.heartbeat, self.socket.send(Message::Text(text.into()))).await;
        self.last_sent = Instant::now();
        if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(End::Normal) }
    }
}
