//! One WebSocket of a shell.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use sabir_protocol::{Code, FromHub, FromShell, Hello, Refusal, SessionId, Taken, Welcome};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Error as SocketError;

use super::{check_hello, fit_welcome, ready, settle};
use crate::auth::Visitor;
use crate::error::StoreError;
use crate::hub::{Asker, Shared};
use crate::live::Connected;
use crate::store::{AppendRequest, AppendResult, OpenResult, SessionHead};

/// No more batches of one connection are dealt with at the same time.
const ON_THE_WAY: usize = 4;

/// What frames cost in the bucket of their connection, where a request costs 1. A batch is acknowledged after a commit, so the disk
/// already slows its sender down.
const FRAME_COST: f64 = 1.0;
const BATCH_COST: f64 = 0.1;

/// A batch that is on its way to the disk, and its share of the room.
type Pending = Pin<Box<dyn Future<Output = (AppendRequest, Result<AppendResult, StoreError>)> + Send>>;

/// How a connection ends: without a word, or with one.
enum End {
    Quiet,
    Said(Refusal),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Said(refusal)
    }
}

pub(super) async fn serve(hub: Shared, mut socket: WebSocket, session: SessionId, asker: Asker) {
    let end = talk(&hub, &mut socket, &session, &asker.visitor).await;
    if let End::Said(refusal) = &end {
        hub.audit.answered(&asker.visitor.name(), refusal.code.status());
    }
    let close = |code: u16, reason: &str| {
        // A close frame has room for 123 bytes.
        let reason: String = reason.chars().take(100).filter(char::is_ascii).collect();
        Message::Close(Some(CloseFrame { code, reason: reason.into() }))
    };
    let last = async {
        match end {
            End::Quiet => socket.send(close(1000, "")).await,
            End::Said(refusal) => {
                let (code, reason) = (refusal.code.close(), refusal.message.clone());
                if let Ok(text) = serde_json::to_string(&FromHub::Error(refusal)) {
                    socket.send(Message::Text(text.into())).await?;
                }
                socket.send(close(code, &reason)).await
            }
        }?;
        // What the shell sent meanwhile must be read, else the system may throw away our last words with it.
        while socket.recv().await.is_some_and(|frame| frame.is_ok()) {}
        Ok::<(), axum::Error>(())
    };
    // Who does not listen to the end is left alone.
    let _ = timeout(hub.limits.patience.min(Duration::from_secs(5)), last).await;
}

struct Connection<'h> {
    hub: &'h Shared,
    socket: &'h mut WebSocket,
    session: &'h SessionId,
    writer: String,
    epoch: u32,
    /// The number of this connection; a later one replaces it.
    number: u64,
    /// The last order that was given out.
    orders: u64,
    pending: FuturesOrdered<Pending>,
    /// The bucket that frames are paid from: a session has one connection, and connecting again does not fill it.
    bucket: String,
    /// Nothing is read before this, because too many frames came.
    paused: Instant,
    heard: Instant,
    said: Instant,
    head: watch::Receiver<SessionHead>,
    _connected: Connected,
}

async fn talk(hub: &Shared, socket: &mut WebSocket, session: &SessionId, visitor: &Visitor) -> End {
    let bucket = format!("{} {session} frames", visitor.key());
    let first = async {
        loop {
            match next(socket).await? {
                Some(Message::Text(text)) => return Ok(text),
                Some(Message::Binary(_)) => return Err(Refusal::new(Code::Malformed, "the first frame is a hello").into()),
                Some(_) => tokio::time::sleep(hub.pace.spend(&bucket, FRAME_COST)).await,
                None => return Err(End::Quiet),
            }
        }
    };
    let hello = tokio::select! {
        hello = timeout(hub.limits.patience, first) => hello,
        refusal = hub.stopping() => return refusal.into(),
    };
    let hello = match hello {
        Ok(Ok(text)) => match serde_json::from_str(&text) {
            Ok(FromShell::Hello(hello)) => hello,
            _ => return Refusal::new(Code::Malformed, "the first frame is a hello").into(),
        },
        Ok(Err(end)) => return end,
        Err(_) => return Refusal::new(Code::Unavailable, "no hello came in time").into(),
    };
    match begin(hub, socket, session, bucket, hello).await {
        Ok(connection) => match connection.run(visitor).await {
            Ok(()) => End::Quiet,
            Err(end) => end,
        },
        Err(end) => end,
    }
}

/// The next frame; `None` when there is none any more.
async fn next(socket: &mut WebSocket) -> Result<Option<Message>, End> {
    match socket.recv().await {
        Some(Ok(Message::Close(_))) | None => Ok(None),
        Some(Ok(message)) => Ok(Some(message)),
        Some(Err(error)) => match error.into_inner().downcast_ref::<SocketError>() {
            Some(SocketError::Capacity(_)) => Err(Refusal::new(Code::TooLarge, "the frame is too large").into()),
            Some(SocketError::Utf8(_) | SocketError::Protocol(_)) => {
                Err(Refusal::new(Code::Malformed, "this is not the WebSocket protocol").into())
            }
            _ => Err(End::Quiet),
        },
    }
}

/// Answers a hello.
async fn begin<'h>(
    hub: &'h Shared,
    socket: &'h mut WebSocket,
    session: &'h SessionId,
    bucket: String,
    hello: Hello,
) -> Result<Connection<'h>, End> {
    check_hello(&hello, session)?;
    let writer = hello.writer.clone();
    let begun = hub.write()?.messages.open_session(hello, true).await.map_err(|trouble| hub.trouble(trouble))?;
    let (epoch, last, number, mut orders) = match begun {
        OpenResult::Welcome { epoch, last, connection, commands } => (epoch, last, connection, commands),
        OpenResult::Refused(refusal) => {
            hub.counts.refused.add(1);
            return Err(refusal.into());
        }
    };
    let head = hub.store.messages.watch(session).await.map_err(|trouble| hub.trouble(trouble))?;
    let head = head.ok_or_else(|| Refusal::new(Code::Internal, "the session is gone"))?;
    fit_welcome(&mut orders);
    let given = orders.last().map_or(0, |order| order.order);
    let mut connection = Connection {
        hub,
        socket,
        session,
        writer,
        epoch,
        number,
        orders: given,
        pending: FuturesOrdered::new(),
        bucket,
        paused: Instant::now(),
        heard: Instant::now(),
        said: Instant::now(),
        head,
        _connected: hub.live.connect(session),
    };
    connection.say(&FromHub::Welcome(connection.welcome(last, orders))).await?;
    // An order that came before this was followed is looked for once.
    connection.head.mark_changed();
    Ok(connection)
}

impl Connection<'_> {
    fn welcome(&self, last: u64, orders: Vec<sabir_protocol::Order>) -> Welcome {
        let limits = &self.hub.limits;
        Welcome {
            epoch: self.epoch,
            last,
            heartbeat_seconds: u32::try_from(limits.heartbeat.as_secs().max(1)).unwrap_or(u32::MAX),
            max_batch_bytes: u32::try_from(limits.batch_bytes).unwrap_or(u32::MAX),
            orders,
        }
    }

    async fn run(mut self, visitor: &Visitor) -> Result<(), End> {
        let (hub, beat) = (self.hub, self.hub.limits.heartbeat);
        let mut stopping = pin!(hub.stopping());
        let mut turned_away = pin!(hub.gate.turned_away(visitor));
        loop {
            let paused = self.paused > Instant::now();
            let reading = self.pending.len() < ON_THE_WAY && !paused;
            tokio::select! {
                refusal = &mut stopping => return Err(refusal.into()),
                refusal = &mut turned_away => return Err(refusal.into()),
                changed = self.head.changed() => {
                    changed.map_err(|_| End::Quiet)?;
                    self.look().await?;
                }
                Some((append, appended)) = self.pending.next() => {
                    self.settled(&append, appended).await?;
                    self.heard = Instant::now();
                }
                frame = next(self.socket), if reading => match frame? {
                    Some(frame) => {
                        self.heard = Instant::now();
                        let cost = if matches!(frame, Message::Binary(_)) { BATCH_COST } else { FRAME_COST };
                        self.paused = self.heard + hub.pace.spend(&self.bucket, cost);
                        self.frame(frame).await?;
                    }
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(self.paused), if paused => {}
                () = tokio::time::sleep_until(self.said + beat) => self.say(&FromHub::Heartbeat {}).await?,
                () = tokio::time::sleep_until(self.heard + 3 * beat), if reading => return Ok(()),
            }
        }
    }

    /// Somebody else writes, or somebody wants something.
    async fn look(&mut self) -> Result<(), End> {
        let head = *self.head.borrow_and_update();
        if head.epoch > self.epoch {
            return Err(Refusal::new(Code::Fenced, format!("epoch {} is over; this is epoch {}", self.epoch, head.epoch)).into());
        }
        if head.connection > self.number {
            return Err(End::Quiet);
        }
        if head.last_command > self.orders {
            let placed = self
                .hub
                .write()?
                .commands
                .commands(self.session, self.orders)
                .await
                .map_err(|trouble| self.hub.trouble(trouble))?;
            for placed in placed {
                self.orders = self.orders.max(placed.command.order);
                if placed.outcome.is_none() {
                    self.say(&FromHub::Order(placed.command)).await?;
                }
            }
        }
        Ok(())
    }

    async fn frame(&mut self, frame: Message) -> Result<(), End> {
        match frame {
            Message::Binary(frame) => {
                let batch = ready(self.hub, &frame, self.session, &self.writer, self.epoch).await?;
                // It is in the queue from here on, so that batches stay in order.
                let answer = self.hub.write()?.messages.append(batch.append.clone());
                self.pending.push_back(Box::pin(async move {
                    let appended = answer.await;
                    drop(batch.room);
                    (batch.append, appended)
                }));
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(FromShell::Hello(hello)) => self.hello_again(hello).await?,
                Ok(FromShell::Taken(taken)) => self.taken(taken).await?,
                Ok(FromShell::Heartbeat {} | FromShell::Unknown) => {}
                Err(_) => return Err(Refusal::new(Code::Malformed, "a text frame is not what it says").into()),
            },
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
        }
        Ok(())
    }

    /// A shell that asked for a place has made its log, and begins.
    async fn hello_again(&mut self, hello: Hello) -> Result<(), End> {
        check_hello(&hello, self.session)?;
        let writer = hello.writer.clone();
        match self.hub.write()?.messages.open_session(hello, true).await.map_err(|trouble| self.hub.trouble(trouble))? {
            OpenResult::Welcome { epoch, last, connection, commands: mut orders } => {
                fit_welcome(&mut orders);
                (self.writer, self.epoch, self.number) = (writer, epoch, connection);
                self.orders = orders.last().map_or(self.orders, |order| order.order.max(self.orders));
                self.say(&FromHub::Welcome(self.welcome(last, orders))).await
            }
            OpenResult::Refused(refusal) => Err(refusal.into()),
        }
    }

    async fn taken(&mut self, taken: Taken) -> Result<(), End> {
        super::http::take(self.hub, self.session, taken).await.map_err(End::Said)
    }

    async fn settled(&mut self, append: &AppendRequest, appended: Result<AppendResult, StoreError>) -> Result<(), End> {
        match settle(self.hub, append, appended)? {
            AppendResult::Stored { last, .. } => self.say(&FromHub::Ack { last }).await,
            AppendResult::Gap { expected } => self.say(&FromHub::Gap { expected }).await,
            AppendResult::Refused(refusal) => Err(refusal.into()),
        }
    }

    async fn say(&mut self, frame: &FromHub) -> Result<(), End> {
        let text = serde_json::to_string(frame).map_err(|_| End::Quiet)?;
        let send = self.socket.send(Message::Text(text.into()));
        // Who does not read what it is told is as good as gone.
        let sent = timeout(3 * self.hub.limits.heartbeat, send).await;
        self.said = Instant::now();
        if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(End::Quiet) }
    }
}
