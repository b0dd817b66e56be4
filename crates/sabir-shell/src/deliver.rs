//! What a shell does next about its hub: a machine without a socket, a clock or a file.
//!
//! ```text
//!           ┌──────────── Waiting (a random time) ◄───────────┐
//!           ▼                                                  │ lost
//!  Connecting, by WebSocket or HTTP ──► hello ──► welcome ──► Open ──► a refusal that is final
//!                                                            batches ─►   ◄─ acks
//! ```
//!
//! Messages up to `acked` are durable at the hub. Those up to `next - 1` are on the way. At most four batches, or 4 MiB, are: so
//! memory is bounded, whatever the hub does.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, FromHub, Order, Refusal, Welcome};

/// So many batches are on the way at most.
const BATCHES: usize = 4;
/// So many bytes are on the way at most, unless one batch is larger.
const BYTES: usize = 4 << 20;
/// A batch is no larger, whatever the hub would take.
const BATCH_BYTES: usize = 1 << 20;
/// The limits of the time between two tries.
const FIRST_LIMIT: Duration = Duration::from_millis(500);
const LAST_LIMIT: Duration = Duration::from_secs(30);
/// After so many tries without an upgrade, HTTP is used.
const TRIES: u32 = 2;
/// How often the WebSocket is tried again.
pub const RETURN: Duration = Duration::from_secs(30);

/// A way to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The usual one.
    WebSocket,
    /// Where that can't be had.
    Http,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(if *self == Self::WebSocket { "WebSocket" } else { "HTTP" })
    }
}

/// Why a connection is gone, or never was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The hub said why.
    Refused(Refusal),
    /// No WebSocket came about, though somebody answered.
    NoUpgrade(String),
    /// It broke, or nobody answered.
    Broken(String),
}

impl Lost {
    /// For people.
    pub fn what(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.message,
            Self::NoUpgrade(what) | Self::Broken(what) => what,
        }
    }
}

/// What to do after a connection was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Try again at that time.
    Again(Instant),
    /// Trying again can't help.
    Never(Refusal),
}

/// What is to be done about a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// More is durable.
    Acked,
    /// Somebody wants something.
    Order(Order),
    /// The hub does not go on.
    Lost(Lost),
}

/// What is to be done because of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Say that we are there.
    Heartbeat,
    /// The hub has been silent for too long.
    Silent,
}

/// What may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The number of the first message.
    pub first: u64,
    /// How many bytes of messages.
    pub bytes: usize,
}

/// The machine.
#[derive(Debug)]
pub struct Delivery {
    acked: u64,
    next: u64,
    flying: VecDeque<Flying>,
    open: Option<Open>,
    way: Way,
    socket_failures: u32,
    limit: Duration,
    /// Batches are no larger; a hub that refused one as too large makes it smaller.
    largest: usize,
}

#[derive(Debug)]
struct Flying {
    last: u64,
    count: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    /// By HTTP nobody has to say that he is there.
    heartbeat: Option<Duration>,
    heard: Instant,
    said: Instant,
    most: usize,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            acked: 0,
            next: 1,
            flying: VecDeque::new(),
            open: None,
            way: Way::WebSocket,
            socket_failures: 0,
            limit: FIRST_LIMIT,
            largest: BATCH_BYTES,
        }
    }
}

impl Delivery {
    /// How to connect.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The number of the last message that is durable at the hub.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The number of the last message that was sent.
    pub fn sent(&self) -> u64 {
        self.next - 1
    }

    /// The hub has answered our hello.
    pub fn welcome(&mut self, way: Way, welcome: &Welcome, now: Instant) {
        self.way = way;
        if way == Way::WebSocket {
            self.socket_failures = 0;
        }
        self.flying.clear();
        // What it has is what it says, and not what it said before: a hub may have lost a disk.
        self.acked = welcome.last;
        self.next = welcome.last + 1;
        let seconds = u64::from(welcome.heartbeat_seconds.max(1));
        let heartbeat = (way == Way::WebSocket).then(|| Duration::from_secs(seconds));
        let most = (welcome.max_batch_bytes as usize).saturating_sub(sabir_protocol::batch::HEAD);
        self.open = Some(Open { heartbeat, heard: now, said: now, most });
    }

    /// What may be sent now, if anything.
    pub fn room(&self) -> Option<Room> {
        let open = self.open.as_ref()?;
        let flying: usize = self.flying.iter().map(|batch| batch.bytes).sum();
        let has_room = self.flying.len() < BATCHES && flying < BYTES;
        let bytes = self.largest.min(open.most).min(BYTES - flying.min(BYTES));
        has_room.then_some(Room { first: self.next, bytes })
    }

    /// A batch is on its way.
    pub fn sending(&mut self, last: u64, bytes: usize, now: Instant) {
        self.flying.push_back(Flying { last, count: last - self.sent(), bytes });
        self.next = last + 1;
        self.said(now);
    }

    /// Something was said.
    pub fn said(&mut self, now: Instant) {
        self.open.iter_mut().for_each(|open| open.said = now);
    }

    /// The hub said something.
    pub fn hear(&mut self, frame: FromHub, now: Instant) -> Heard {
        self.open.iter_mut().for_each(|open| open.heard = now);
        match frame {
            // An answer to what was never sent is a mistake of the hub, and no progress.
            FromHub::Ack { last } if last > self.acked && last < self.next => {
                self.acked = last;
                while self.flying.front().is_some_and(|batch| batch.last <= last) {
                    self.flying.pop_front();
                }
                self.limit = FIRST_LIMIT;
                self.largest = BATCH_BYTES.min(self.largest.saturating_mul(2));
                Heard::Acked
            }
            FromHub::Gap { expected } if expected > 0 && expected < self.next => {
                self.flying.clear();
                self.next = expected;
                Heard::Nothing
            }
            FromHub::Order(order) => Heard::Order(order),
            FromHub::Error(refusal) => Heard::Lost(Lost::Refused(refusal)),
            _ => Heard::Nothing,
        }
    }

    /// When to look at the time next.
    pub fn due_at(&self) -> Option<Instant> {
        let open = self.open.as_ref()?;
        open.heartbeat.map(|heartbeat| (open.said + heartbeat).min(open.heard + 3 * heartbeat))
    }

    /// What the time demands.
    pub fn due(&self, now: Instant) -> Due {
        let Some((open, heartbeat)) = self.open.as_ref().and_then(|open| Some((open, open.heartbeat?))) else {
            return Due::Nothing;
        };
        if now >= open.heard + 3 * heartbeat {
            Due::Silent
        } else if now >= open.said + heartbeat {
            Due::Heartbeat
        } else {
            Due::Nothing
        }
    }

    /// The connection is gone, or did not come about. `random` is between 0 and 1.
    pub fn lost(&mut self, lost: &Lost, now: Instant, random: f64) -> Next {
        let was_open = self.open.take().is_some();
        let flying = std::mem::take(&mut self.flying);
        let mut at_least = Duration::ZERO;
        match lost {
            Lost::Refused(refusal) => {
                let was = self.way;
                match refusal.code {
                    Code::NotFound if was == Way::WebSocket => self.way = Way::Http,
                    Code::NotFound => return Next::Never(refusal.clone()),
                    Code::TooLarge => match flying.front() {
                        Some(batch) if batch.count > 1 => self.largest = (batch.bytes / 2).max(1),
                        // One message is the least that can be sent.
                        _ => return Next::Never(Refusal { code: Code::Malformed, ..refusal.clone() }),
                    },
                    code if code.is_final() => return Next::Never(refusal.clone()),
                    _ => {}
                }
                at_least = Duration::from_secs(u64::from(refusal.retry_after_seconds.unwrap_or(0)));
            }
            _ if was_open => {}
            _ if self.way == Way::WebSocket => {
                self.socket_failures += 1;
                if self.socket_failures >= TRIES {
                    self.way = Way::Http;
                }
            }
            // Nobody is there by HTTP either; who comes back is asked for the better way first.
            _ => (self.way, self.socket_failures) = (Way::WebSocket, 0),
        }
        let wait = self.limit.mul_f64(random.clamp(0.0, 1.0)).max(at_least);
        self.limit = (self.limit * 2).min(LAST_LIMIT);
        Next::Again(now + wait)
    }
}

#[cfg(test)]
mod tests;
