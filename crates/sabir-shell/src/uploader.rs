//! The delivery task: reads the outbox from disk and sends it to the hub, and receives the hub's remote commands.
//!
//! All decisions are made by the [`StateMachine`]; this module is the I/O around it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, FromShell, Hello, Order, Refusal, SessionId, Taken, Welcome, batch};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::RunnerError;
use crate::delivery::{Disconnect, Received, Retry, StateMachine, TimeoutAction, Transport};
use crate::hub::Hub;
use crate::outbox::{Outbox, PageReader, Position};
use crate::timer::{deadline_elapsed, sleep_until};
use crate::transport::{Connection, Outgoing, handshake};

const MAX_BATCH_MESSAGES: u32 = 4096;
/// Timeout of [`start_position`].
const POSITION_TIMEOUT: Duration = Duration::from_secs(5);

/// Progress of delivery.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeliveryStatus {
    /// Transport of the open connection; `None` while disconnected.
    pub transport: Option<Transport>,
    /// Sequence number of the last message sent.
    pub sent: u64,
    /// Sequence number of the last message that is durable at the hub.
    pub acked: u64,
    /// Why the last connection ended or failed.
    pub error: Option<String>,
}

/// Outcome of delivery to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// Every message is acknowledged.
    Delivered,
    /// The flush timeout passed with this many messages unacknowledged. A sink reports 0 if all segments are stored but
    /// `messages.json` is incomplete.
    Unsent(u64),
    /// The target refused further messages.
    Refused(Refusal),
    /// Reading the outbox or writing to the target failed.
    Failed(RunnerError),
}

/// Identity of the runner in its hello.
#[derive(Debug, Clone, Default)]
pub struct ClientInfo {
    /// Agent id.
    pub agent: Option<String>,
    /// Kinds of remote commands that the adapter handles.
    pub accepted_commands: Vec<String>,
}

impl ClientInfo {
    fn hello(&self, session: &SessionId, writer: &str, epoch: u32, last: u64, last_command: u64) -> Hello {
        Hello {
            session: session.clone(),
            writer: writer.to_owned(),
            epoch,
            last,
            orders: last_command,
            agent: self.agent.clone(),
            shell: Some(format!("sabir {}", env!("CARGO_PKG_VERSION"))),
            takes: self.accepted_commands.clone(),
        }
    }
}

/// Asks the hub where a new outbox of the session starts. `None` if the hub does not answer in time.
pub async fn start_position(
    hub: &Hub,
    session: &SessionId,
    writer: &str,
    client: &ClientInfo,
) -> Result<Option<Position>, Refusal> {
    let hello = client.hello(session, writer, 0, 0, 0);
    let mut machine = StateMachine::default();
    let request = async {
        loop {
            let reason = match handshake(machine.transport(), hub, &hello).await {
                Ok((_, Welcome { epoch, last, .. })) => return Ok(Position { epoch, after: last }),
                Err(reason) => reason,
            };
            match machine.handle_disconnect(&reason, Instant::now(), fastrand::f64()) {
                Retry::At(at) => sleep_until(Some(at)).await,
                Retry::Never(refusal) => return Err(refusal),
            }
        }
    };
    timeout(POSITION_TIMEOUT, request).await.map_or(Ok(None), |position| position.map(Some))
}

/// Delivers one outbox to one hub.
#[derive(Debug)]
pub struct Uploader {
    /// Target of delivery.
    pub hub: Hub,
    /// Source of messages.
    pub outbox: Arc<Outbox>,
    /// Identity in the hello.
    pub client: ClientInfo,
    /// Receives remote commands.
    pub commands: mpsc::Sender<Order>,
    /// Replies to remote commands.
    pub replies: mpsc::Receiver<Taken>,
    /// Number of the last command handled.
    pub last_command: watch::Receiver<u64>,
    /// Receives progress.
    pub status: watch::Sender<DeliveryStatus>,
    /// Set once nothing more is appended: the deadline of delivery.
    pub finish: watch::Receiver<Option<Instant>>,
    /// Interval of WebSocket retries while on HTTP, usually
    /// [`UPGRADE_RETRY_INTERVAL`](crate::delivery::UPGRADE_RETRY_INTERVAL).
    pub upgrade_interval: Duration,
}

impl Uploader {
    /// Delivers until everything is acknowledged after `finish` was set, its deadline passes, or the hub refuses for good.
    pub async fn run(mut self) -> DeliveryOutcome {
        let mut machine = StateMachine::default();
        let mut reader = PageReader::new(Arc::clone(&self.outbox));
        loop {
            let finish = self.finish.clone();
            let end = tokio::select! {
                end = self.connect_and_serve(&mut machine, &mut reader) => end,
                () = deadline_elapsed(finish) => return self.outcome(&machine),
            };
            let reason = match end {
                ConnectionEnd::Disconnected(reason) => reason,
                ConnectionEnd::Finished(outcome) => return outcome,
            };
            let retry = machine.handle_disconnect(&reason, Instant::now(), fastrand::f64());
            self.status.send_modify(|status| {
                status.transport = None;
                status.error = Some(reason.message().to_owned());
            });
            match retry {
                Retry::Never(refusal) => return DeliveryOutcome::Refused(refusal),
                Retry::At(at) => tokio::select! {
                    () = sleep_until(Some(at)) => {}
                    () = deadline_elapsed(self.finish.clone()) => return self.outcome(&machine),
                },
            }
        }
    }

    fn outcome(&self, machine: &StateMachine) -> DeliveryOutcome {
        match self.outbox.last().saturating_sub(machine.acked()) {
            0 => DeliveryOutcome::Delivered,
            count => DeliveryOutcome::Unsent(count),
        }
    }

    fn hello(&self) -> impl Fn() -> Hello + use<> {
        let (outbox, client, last_command) = (Arc::clone(&self.outbox), self.client.clone(), self.last_command.clone());
        move || {
            // Only durable messages are announced.
            let last = outbox.last();
            let last = outbox.sync().map_or_else(|_| outbox.last_durable(), |()| last);
            client.hello(outbox.session(), outbox.writer(), outbox.epoch(), last, *last_command.borrow())
        }
    }

    async fn connect_and_serve(&mut self, machine: &mut StateMachine, reader: &mut PageReader) -> ConnectionEnd {
        let mut transport = machine.transport();
        let mut connected = handshake(transport, &self.hub, &self.hello()()).await;
        loop {
            let (connection, welcome) = match connected {
                Ok(connected) => connected,
                Err(reason) => return ConnectionEnd::Disconnected(reason),
            };
            if let Err(end) = self.welcome(machine, transport, welcome) {
                return end;
            }
            match self.serve(connection, machine, reader).await {
                ServeResult::Ended(end) => return end,
                ServeResult::Upgraded(connection, welcome) => {
                    transport = Transport::WebSocket;
                    connected = Ok((connection, welcome));
                }
            }
        }
    }

    fn welcome(&mut self, machine: &mut StateMachine, transport: Transport, welcome: Welcome) -> Result<(), ConnectionEnd> {
        if welcome.last > self.outbox.last() {
            let message =
                format!("the hub has {} messages of this session, and this machine {}", welcome.last, self.outbox.last());
            return Err(ConnectionEnd::Finished(DeliveryOutcome::Refused(Refusal::new(Code::Conflict, message))));
        }
        machine.handle_welcome(transport, &welcome, Instant::now());
        self.publish_status(machine, Some(transport));
        for command in welcome.orders {
            self.forward(command);
        }
        Ok(())
    }

    /// Forwards a remote command. If the queue is full it is dropped; the hub repeats it after the next hello.
    fn forward(&self, command: Order) {
        let _ = self.commands.try_send(command);
    }

    fn publish_status(&self, machine: &StateMachine, transport: Option<Transport>) {
        let status = DeliveryStatus { transport, sent: machine.sent(), acked: machine.acked(), error: None };
        self.status.send_if_modified(|current| {
            let is_changed = *current != status;
            *current = status;
            is_changed
        });
    }

    async fn serve(&mut self, mut connection: Connection, machine: &mut StateMachine, reader: &mut PageReader) -> ServeResult {
        let transport = connection.transport;
        let mut synced = self.outbox.synced();
        let (hub, hello, interval) = (self.hub.clone(), self.hello(), self.upgrade_interval);
        let mut upgrade = std::pin::pin!(async move {
            loop {
                tokio::time::sleep(interval).await;
                if let Ok(connected) = handshake(Transport::WebSocket, &hub, &hello()).await {
                    return connected;
                }
            }
        });
        loop {
            if let Err(failure) = send(&connection, machine, reader) {
                return ServeResult::Ended(ConnectionEnd::Finished(DeliveryOutcome::Failed(failure)));
            }
            self.publish_status(machine, Some(transport));
            let is_finishing = self.finish.borrow().is_some();
            if is_finishing && machine.acked() >= self.outbox.last_durable() {
                while let Ok(reply) = self.replies.try_recv() {
                    connection.send(Outgoing::Frame(FromShell::Taken(reply)));
                }
                return ServeResult::Ended(ConnectionEnd::Finished(self.outcome(machine)));
            }
            tokio::select! {
                frame = connection.receive() => match frame.map(|frame| machine.handle_frame(frame, Instant::now())) {
                    Ok(Received::Nothing | Received::Acked) => {}
                    Ok(Received::Command(command)) => self.forward(command),
                    Ok(Received::Disconnect(reason)) | Err(reason) => {
                        return ServeResult::Ended(ConnectionEnd::Disconnected(reason));
                    }
                },
                cursor = self.outbox.synced_after(synced), if self.outbox.write_error().is_none() => synced = cursor,
                Some(reply) = self.replies.recv() => {
                    connection.send(Outgoing::Frame(FromShell::Taken(reply)));
                    machine.record_sent(Instant::now());
                }
                changed = self.finish.changed(), if !is_finishing => if changed.is_err() {
                    return ServeResult::Ended(ConnectionEnd::Finished(self.outcome(machine)));
                },
                connected = &mut upgrade, if transport == Transport::Http => {
                    return ServeResult::Upgraded(connected.0, connected.1);
                }
                () = sleep_until(machine.next_timeout()) => match machine.handle_timeout(Instant::now()) {
                    TimeoutAction::None => {}
                    TimeoutAction::SendHeartbeat => {
                        connection.send(Outgoing::Frame(FromShell::Heartbeat {}));
                        machine.record_sent(Instant::now());
                    }
                    TimeoutAction::PeerSilent => {
                        let reason = Disconnect::Broken("the hub fell silent".to_owned());
                        return ServeResult::Ended(ConnectionEnd::Disconnected(reason));
                    }
                },
            }
        }
    }
}

enum ConnectionEnd {
    Disconnected(Disconnect),
    Finished(DeliveryOutcome),
}

enum ServeResult {
    Ended(ConnectionEnd),
    /// A WebSocket replaces the HTTP connection.
    Upgraded(Connection, Welcome),
}

/// Sends durable messages while the send window is open.
fn send(connection: &Connection, machine: &mut StateMachine, reader: &mut PageReader) -> Result<(), RunnerError> {
    while let Some(window) = machine.send_window() {
        let Some(page) = reader.read_page(window.first, MAX_BATCH_MESSAGES, window.bytes)? else { break };
        let frame = batch::encode(page.first, page.count, &page.lines).ok_or(RunnerError::MessageTooLong)?;
        if !connection.send(Outgoing::Batch(frame)) {
            break;
        }
        machine.batch_sent(page.last(), page.lines.len(), Instant::now());
    }
    Ok(())
}
