//! Delivery state machine: decides what to do next about the hub connection. Sans-IO: no sockets, clocks or files.
//!
//! ```text
//!           ┌──────── waiting (random backoff) ◄──────────────┐
//!           ▼                                                 │ disconnected
//!  connecting, by WebSocket or HTTP ──► hello ──► welcome ──► open ──► final refusal
//!                                                           batches ─►   ◄─ acks
//! ```
//!
//! Messages up to `acked` are durable at the hub; those up to `next_seq - 1` are in flight. At most
//! `MAX_IN_FLIGHT_BATCHES` batches or `MAX_IN_FLIGHT_BYTES` are in flight, so memory is bounded whatever the hub does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, FromHub, Order, Refusal, Welcome};

const MAX_IN_FLIGHT_BATCHES: usize = 4;
/// Exceeded only by a single larger batch.
const MAX_IN_FLIGHT_BYTES: usize = 4 << 20;
/// Upper bound of a batch, even if the hub accepts more.
const MAX_BATCH_BYTES: usize = 1 << 20;
const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Failed WebSocket upgrades before falling back to HTTP.
const UPGRADE_ATTEMPTS: u32 = 2;
/// Interval at which a runner on HTTP retries the WebSocket.
pub const UPGRADE_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Transport of a hub connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The default.
    WebSocket,
    /// Fallback if WebSocket upgrades fail.
    Http,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(if *self == Self::WebSocket { "WebSocket" } else { "HTTP" })
    }
}

/// Why a connection ended or was not established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disconnect {
    /// The hub refused it.
    Refused(Refusal),
    /// A server answered, but did not upgrade to a WebSocket.
    NoUpgrade(String),
    /// The connection failed, or there was no answer.
    Broken(String),
}

impl Disconnect {
    /// Human-readable reason.
    pub fn message(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.message,
            Self::NoUpgrade(message) | Self::Broken(message) => message,
        }
    }
}

/// Decision about reconnecting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    /// Reconnect at this time.
    At(Instant),
    /// Reconnecting cannot help.
    Never(Refusal),
}

/// Effect of a received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// No effect for the caller.
    Nothing,
    /// More messages are durable at the hub.
    Acked,
    /// A remote command to forward.
    Command(Order),
    /// The hub ends the connection.
    Disconnect(Disconnect),
}

/// Effect of elapsed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutAction {
    /// Nothing is due.
    None,
    /// Send a heartbeat.
    SendHeartbeat,
    /// The hub has been silent for three heartbeat intervals: disconnect.
    PeerSilent,
}

/// Messages that may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWindow {
    /// Sequence number of the first message.
    pub first: u64,
    /// Maximum size of the batch, in bytes.
    pub bytes: usize,
}

/// Randomized exponential backoff.
#[derive(Debug)]
pub(crate) struct Backoff {
    limit: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { limit: MIN_BACKOFF }
    }
}

impl Backoff {
    /// Delay before the next attempt, uniform up to a limit that doubles with each call. `random` is in `0.0..=1.0`.
    pub(crate) fn next_delay(&mut self, random: f64) -> Duration {
        let delay = self.limit.mul_f64(random.clamp(0.0, 1.0));
        self.limit = (self.limit * 2).min(MAX_BACKOFF);
        delay
    }
}

/// State of delivery to one hub, over any number of connections.
#[derive(Debug)]
pub struct StateMachine {
    acked: u64,
    next_seq: u64,
    in_flight: VecDeque<InFlight>,
    open: Option<Open>,
    transport: Transport,
    socket_failures: u32,
    backoff: Backoff,
    /// Maximum batch size; halved each time the hub refuses a batch as too large.
    batch_limit: usize,
}

#[derive(Debug)]
struct InFlight {
    last: u64,
    count: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    /// `None` over HTTP, which needs no heartbeats.
    heartbeat: Option<Duration>,
    last_received: Instant,
    last_sent: Instant,
    max_batch_bytes: usize,
}

impl Default for StateMachine {
    fn default() -> Self {
        Self {
            acked: 0,
            next_seq: 1,
            in_flight: VecDeque::new(),
            open: None,
            transport: Transport::WebSocket,
            socket_failures: 0,
            backoff: Backoff::default(),
            batch_limit: MAX_BATCH_BYTES,
        }
    }
}

impl StateMachine {
    /// Transport to use for the next connection.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Sequence number of the last message that is durable at the hub.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Sequence number of the last message sent.
    pub fn sent(&self) -> u64 {
        self.next_seq - 1
    }

    /// Records the hub's answer to a hello: the connection is open.
    pub fn handle_welcome(&mut self, transport: Transport, welcome: &Welcome, now: Instant) {
        self.transport = transport;
        if transport == Transport::WebSocket {
            self.socket_failures = 0;
        }
        self.in_flight.clear();
        // The welcome overrides earlier acks: the hub may have lost a disk.
        self.acked = welcome.last;
        self.next_seq = welcome.last + 1;
        let seconds = u64::from(welcome.heartbeat_seconds.max(1));
        let heartbeat = (transport == Transport::WebSocket).then(|| Duration::from_secs(seconds));
        let max_batch_bytes = (welcome.max_batch_bytes as usize).saturating_sub(sabir_protocol::batch::HEAD);
        self.open = Some(Open { heartbeat, last_received: now, last_sent: now, max_batch_bytes });
    }

    /// Messages that may be sent now; `None` while disconnected or if too much is in flight.
    pub fn send_window(&self) -> Option<SendWindow> {
        let open = self.open.as_ref()?;
        let in_flight: usize = self.in_flight.iter().map(|batch| batch.bytes).sum();
        let is_open = self.in_flight.len() < MAX_IN_FLIGHT_BATCHES && in_flight < MAX_IN_FLIGHT_BYTES;
        let bytes = self.batch_limit.min(open.max_batch_bytes).min(MAX_IN_FLIGHT_BYTES - in_flight.min(MAX_IN_FLIGHT_BYTES));
        is_open.then_some(SendWindow { first: self.next_seq, bytes })
    }

    /// Records that a batch up to `last` was sent.
    pub fn batch_sent(&mut self, last: u64, bytes: usize, now: Instant) {
        self.in_flight.push_back(InFlight { last, count: last - self.sent(), bytes });
        self.next_seq = last + 1;
        self.record_sent(now);
    }

    /// Records that any frame was sent.
    pub fn record_sent(&mut self, now: Instant) {
        self.open.iter_mut().for_each(|open| open.last_sent = now);
    }

    /// Processes a frame of the hub.
    pub fn handle_frame(&mut self, frame: FromHub, now: Instant) -> Received {
        self.open.iter_mut().for_each(|open| open.last_received = now);
        match frame {
            // Acks of unsent messages are ignored.
            FromHub::Ack { last } if last > self.acked && last < self.next_seq => {
                self.acked = last;
                while self.in_flight.front().is_some_and(|batch| batch.last <= last) {
                    self.in_flight.pop_front();
                }
                self.backoff = Backoff::default();
                self.batch_limit = MAX_BATCH_BYTES.min(self.batch_limit.saturating_mul(2));
                Received::Acked
            }
            FromHub::Gap { expected } if expected > 0 && expected < self.next_seq => {
                self.in_flight.clear();
                self.next_seq = expected;
                Received::Nothing
            }
            FromHub::Order(command) => Received::Command(command),
            FromHub::Error(refusal) => Received::Disconnect(Disconnect::Refused(refusal)),
            _ => Received::Nothing,
        }
    }

    /// Time at which to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self) -> Option<Instant> {
        let open = self.open.as_ref()?;
        open.heartbeat.map(|heartbeat| (open.last_sent + heartbeat).min(open.last_received + 3 * heartbeat))
    }

    /// Heartbeat action that is due at `now`.
    pub fn handle_timeout(&self, now: Instant) -> TimeoutAction {
        let Some((open, heartbeat)) = self.open.as_ref().and_then(|open| Some((open, open.heartbeat?))) else {
            return TimeoutAction::None;
        };
        if now >= open.last_received + 3 * heartbeat {
            TimeoutAction::PeerSilent
        } else if now >= open.last_sent + heartbeat {
            TimeoutAction::SendHeartbeat
        } else {
            TimeoutAction::None
        }
    }

    /// Processes the end of a connection, or a failed attempt to connect. `random` is in `0.0..=1.0`.
    pub fn handle_disconnect(&mut self, reason: &Disconnect, now: Instant, random: f64) -> Retry {
        let was_open = self.open.take().is_some();
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut min_delay = Duration::ZERO;
        match reason {
            Disconnect::Refused(refusal) => {
                match refusal.code {
                    Code::NotFound if self.transport == Transport::WebSocket => self.transport = Transport::Http,
                    Code::NotFound => return Retry::Never(refusal.clone()),
                    Code::TooLarge => match in_flight.front() {
                        Some(batch) if batch.count > 1 => self.batch_limit = (batch.bytes / 2).max(1),
                        // A single message cannot be split.
                        _ => return Retry::Never(Refusal { code: Code::Malformed, ..refusal.clone() }),
                    },
                    code if code.is_final() => return Retry::Never(refusal.clone()),
                    _ => {}
                }
                min_delay = Duration::from_secs(u64::from(refusal.retry_after_seconds.unwrap_or(0)));
            }
            _ if was_open => {}
            _ if self.transport == Transport::WebSocket => {
                self.socket_failures += 1;
                if self.socket_failures >= UPGRADE_ATTEMPTS {
                    self.transport = Transport::Http;
                }
            }
            // HTTP fails too, so the hub is down: prefer the WebSocket once it is back.
            _ => (self.transport, self.socket_failures) = (Transport::WebSocket, 0),
        }
        Retry::At(now + self.backoff.next_delay(random).max(min_delay))
    }
}

#[cfg(test)]
mod tests;
