//! Brings a log to its hub, and orders back.
//!
//! It reads the log from the disk and knows nothing of who writes it. What it decides, [`Delivery`] decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, FromShell, Hello, Order, Refusal, SessionId, Taken, Welcome, batch};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use crate::Failure;
use crate::deliver::{Delivery, Due, Heard, Lost, Next, Way};
use crate::hub::Hub;
use crate::link::{Link, Say, greet};
use crate::outbox::{Outbox, Pages, Place};

/// So many messages go together at most.
const MESSAGES: u32 = 4096;
/// How long a new log waits for its place.
const PLACE: Duration = Duration::from_secs(5);

/// How delivery goes, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The way to the hub, while there is one.
    pub way: Option<Way>,
    /// The number of the last message that was sent.
    pub sent: u64,
    /// The number of the last message that is durable at the hub.
    pub acked: u64,
    /// Why there is no connection.
    pub trouble: Option<String>,
}

/// How delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The hub has all of it.
    Delivered,
    /// The time was over; this many messages are not acknowledged. 0 from a sink that has all segments and no complete
    /// `messages.json`.
    Unsent(u64),
    /// The hub takes no more.
    Refused(Refusal),
    /// The log can't be read.
    Failed(Failure),
}

/// Who this is, in the words of a hello.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The agent.
    pub agent: Option<String>,
    /// The orders that can be dealt with.
    pub takes: Vec<String>,
}

impl Names {
    fn hello(&self, session: &SessionId, writer: &str, epoch: u32, last: u64, orders: u64) -> Hello {
        Hello {
            session: session.clone(),
            writer: writer.to_owned(),
            epoch,
            last,
            orders,
            agent: self.agent.clone(),
            shell: Some(format!("sabir {}", env!("CARGO_PKG_VERSION"))),
            takes: self.takes.clone(),
        }
    }
}

/// Asks the hub where a new log begins. `None` when it can't be reached in time.
pub async fn place(hub: &Hub, session: &SessionId, writer: &str, names: &Names) -> Result<Option<Place>, Refusal> {
    let hello = names.hello(session, writer, 0, 0, 0);
    let mut delivery = Delivery::default();
    let asking = async {
        loop {
            let lost = match greet(delivery.way(), hub, &hello).await {
                Ok((_, Welcome { epoch, last, .. })) => return Ok(Place { epoch, after: last }),
                Err(lost) => lost,
            };
            match delivery.lost(&lost, Instant::now(), fastrand::f64()) {
                Next::Again(at) => sleep_until(at.into()).await,
                Next::Never(refusal) => return Err(refusal),
            }
        }
    };
    timeout(PLACE, asking).await.map_or(Ok(None), |asked| asked.map(Some))
}

/// Everything that a courier is given.
#[derive(Debug)]
pub struct Courier {
    /// Where to.
    pub hub: Hub,
    /// What.
    pub outbox: Arc<Outbox>,
    /// In whose name.
    pub names: Names,
    /// Where orders go.
    pub orders: mpsc::Sender<Order>,
    /// What became of them.
    pub taken: mpsc::Receiver<Taken>,
    /// The number of the last order that was dealt with.
    pub dealt_with: watch::Receiver<u64>,
    /// Tells how it goes.
    pub status: watch::Sender<Status>,
    /// Nothing more is written, and until when to go on.
    pub finish: watch::Receiver<Option<Instant>>,
    /// How often the WebSocket is tried again while there is only HTTP: [`deliver::RETURN`](crate::deliver::RETURN).
    pub return_after: Duration,
}

impl Courier {
    /// Delivers until the log is over and all of it is acknowledged, or the hub takes no more.
    pub async fn run(mut self) -> Ended {
        let mut delivery = Delivery::default();
        let mut pages = Pages::of(Arc::clone(&self.outbox));
        loop {
            let finish = self.finish.clone();
            let lost = tokio::select! {
                lost = self.connect_and_serve(&mut delivery, &mut pages) => lost,
                () = deadline(finish) => return self.unsent(&delivery),
            };
            let lost = match lost {
                Stop::Lost(lost) => lost,
                Stop::Ended(ended) => return ended,
            };
            let next = delivery.lost(&lost, Instant::now(), fastrand::f64());
            self.status.send_modify(|status| {
                status.way = None;
                status.trouble = Some(lost.what().to_owned());
            });
            match next {
                Next::Never(refusal) => return Ended::Refused(refusal),
                Next::Again(at) => tokio::select! {
                    () = sleep_until(at.into()) => {}
                    () = deadline(self.finish.clone()) => return self.unsent(&delivery),
                },
            }
        }
    }

    fn unsent(&self, delivery: &Delivery) -> Ended {
        match self.outbox.last().saturating_sub(delivery.acked()) {
            0 => Ended::Delivered,
            count => Ended::Unsent(count),
        }
    }

    fn hello(&self) -> impl Fn() -> Hello + use<> {
        let (outbox, names, dealt_with) = (Arc::clone(&self.outbox), self.names.clone(), self.dealt_with.clone());
        move || {
            // Of what is not on the disk, nobody is told.
            let last = outbox.last();
            let last = outbox.sync().map_or_else(|_| outbox.last_there(), |()| last);
            names.hello(outbox.session(), outbox.writer(), outbox.epoch(), last, *dealt_with.borrow())
        }
    }

    async fn connect_and_serve(&mut self, delivery: &mut Delivery, pages: &mut Pages) -> Stop {
        let mut way = delivery.way();
        let mut greeted = greet(way, &self.hub, &self.hello()()).await;
        loop {
            let (link, welcome) = match greeted {
                Ok(greeted) => greeted,
                Err(lost) => return Stop::Lost(lost),
            };
            if let Err(stop) = self.welcome(delivery, way, welcome) {
                return stop;
            }
            match self.serve(link, delivery, pages).await {
                Served::Stop(stop) => return stop,
                // The better way is there again.
                Served::Better(link, welcome) => {
                    way = Way::WebSocket;
                    greeted = Ok((link, welcome));
                }
            }
        }
    }

    fn welcome(&mut self, delivery: &mut Delivery, way: Way, welcome: Welcome) -> Result<(), Stop> {
        if welcome.last > self.outbox.last() {
            let what = format!("the hub has {} messages of this session, and this machine {}", welcome.last, self.outbox.last());
            return Err(Stop::Ended(Ended::Refused(Refusal::new(Code::Conflict, what))));
        }
        delivery.welcome(way, &welcome, Instant::now());
        self.tell(delivery, Some(way));
        for order in welcome.orders {
            self.order(order);
        }
        Ok(())
    }

    /// An order that finds no room is given out again at the next hello.
    fn order(&self, order: Order) {
        let _ = self.orders.try_send(order);
    }

    fn tell(&self, delivery: &Delivery, way: Option<Way>) {
        let status = Status { way, sent: delivery.sent(), acked: delivery.acked(), trouble: None };
        self.status.send_if_modified(|known| {
            let is_news = *known != status;
            *known = status;
            is_news
        });
    }

    async fn serve(&mut self, mut link: Link, delivery: &mut Delivery, pages: &mut Pages) -> Served {
        let way = link.way;
        let mut seen = self.outbox.synced();
        let (hub, hello, pause) = (self.hub.clone(), self.hello(), self.return_after);
        let mut better = std::pin::pin!(async move {
            loop {
                tokio::time::sleep(pause).await;
                if let Ok(greeted) = greet(Way::WebSocket, &hub, &hello()).await {
                    return greeted;
                }
            }
        });
        loop {
            if let Err(failure) = send(&link, delivery, pages) {
                return Served::Stop(Stop::Ended(Ended::Failed(failure)));
            }
            self.tell(delivery, Some(way));
            let is_finishing = self.finish.borrow().is_some();
            if is_finishing && delivery.acked() >= self.outbox.last_there() {
                while let Ok(taken) = self.taken.try_recv() {
                    link.say(Say::Frame(FromShell::Taken(taken)));
                }
                return Served::Stop(Stop::Ended(self.unsent(delivery)));
            }
            tokio::select! {
                heard = link.hear() => match heard.map(|frame| delivery.hear(frame, Instant::now())) {
                    Ok(Heard::Nothing | Heard::Acked) => {}
                    Ok(Heard::Order(order)) => self.order(order),
                    Ok(Heard::Lost(lost)) | Err(lost) => return Served::Stop(Stop::Lost(lost)),
                },
                cursor = self.outbox.synced_after(seen), if self.outbox.trouble().is_none() => seen = cursor,
                Some(taken) = self.taken.recv() => {
                    link.say(Say::Frame(FromShell::Taken(taken)));
                    delivery.said(Instant::now());
                }
                changed = self.finish.changed(), if !is_finishing => if changed.is_err() {
                    return Served::Stop(Stop::Ended(self.unsent(delivery)));
                },
                greeted = &mut better, if way == Way::Http => return Served::Better(greeted.0, greeted.1),
                () = sleep_until_some(delivery.due_at()) => match delivery.due(Instant::now()) {
                    Due::Nothing => {}
                    Due::Heartbeat => {
                        link.say(Say::Frame(FromShell::Heartbeat {}));
                        delivery.said(Instant::now());
                    }
                    Due::Silent => return Served::Stop(Stop::Lost(Lost::Broken("the hub fell silent".to_owned()))),
                },
            }
        }
    }
}

enum Stop {
    Lost(Lost),
    Ended(Ended),
}

enum Served {
    Stop(Stop),
    Better(Link, Welcome),
}

/// Sends what there is and what there is room for.
fn send(link: &Link, delivery: &mut Delivery, pages: &mut Pages) -> Result<(), Failure> {
    while let Some(room) = delivery.room() {
        let Some(page) = pages.page(room.first, MESSAGES, room.bytes)? else { break };
        let too_long = || Failure::delivery("a message is too long to be sent");
        let frame = batch::encode(page.first, page.count, &page.lines).ok_or_else(too_long)?;
        if !link.say(Say::Batch(frame)) {
            break;
        }
        delivery.sending(page.last(), page.lines.len(), Instant::now());
    }
    Ok(())
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for the end of the time after which nobody waits any more.
async fn deadline(mut finish: watch::Receiver<Option<Instant>>) {
    loop {
        let until = *finish.borrow_and_update();
        tokio::select! {
            () = sleep_until_some(until) => return,
            changed = finish.changed() => if changed.is_err() {
                // Nobody can say when any more; the other branch ends it.
                return sleep_until_some(until).await;
            },
        }
    }
}
