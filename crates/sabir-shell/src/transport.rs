//! Connections to a hub, over WebSocket or HTTP: frames and batches out, frames in.

use std::time::Duration;

use sabir_protocol::{FromHub, FromShell, Hello, Refusal, Welcome};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::delivery::{Disconnect, Transport};
use crate::hub::Hub;

pub(crate) mod http;
mod websocket;

/// A message to the hub.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Frame(FromShell),
    /// An encoded batch.
    Batch(Vec<u8>),
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    outgoing: mpsc::Sender<Outgoing>,
    incoming: mpsc::Receiver<Result<FromHub, Disconnect>>,
    /// Tasks that are aborted when the connection is dropped.
    tasks: Vec<JoinHandle<()>>,
}

/// Capacity of both channels: four batches, and frames.
pub(crate) const CHANNEL_CAPACITY: usize = 16;
/// Timeout for connecting and for the hub's first answer.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

impl Connection {
    pub(crate) fn new(
        transport: Transport,
        outgoing: mpsc::Sender<Outgoing>,
        incoming: mpsc::Receiver<Result<FromHub, Disconnect>>,
        tasks: Vec<JoinHandle<()>>,
    ) -> Self {
        Self { transport, outgoing, incoming, tasks }
    }

    /// Queues a message without waiting. Returns `false` if the queue is full.
    pub(crate) fn send(&self, message: Outgoing) -> bool {
        self.outgoing.try_send(message).is_ok()
    }

    /// Waits for the next frame of the hub.
    pub(crate) async fn receive(&mut self) -> Result<FromHub, Disconnect> {
        self.incoming.recv().await.unwrap_or_else(|| Err(Disconnect::Broken("the connection ended".to_owned())))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Connects, sends the hello, and waits for the welcome.
pub(crate) async fn handshake(transport: Transport, hub: &Hub, hello: &Hello) -> Result<(Connection, Welcome), Disconnect> {
    match transport {
        Transport::WebSocket => {
            let mut connection = websocket::connect(hub).await?;
            connection.send(Outgoing::Frame(FromShell::Hello(hello.clone())));
            let welcome = tokio::time::timeout(RESPONSE_TIMEOUT, async {
                loop {
                    match connection.receive().await? {
                        FromHub::Welcome(welcome) => return Ok(welcome),
                        FromHub::Error(refusal) => return Err(Disconnect::Refused(refusal)),
                        _ => {}
                    }
                }
            });
            let welcome = welcome.await.map_err(|_| Disconnect::Broken("the hub did not answer".to_owned()))??;
            Ok((connection, welcome))
        }
        Transport::Http => http::handshake(hub, hello).await,
    }
}

/// Parses a refusal from a response body. `None` if the body is not the hub's, for example a proxy's error page.
pub(crate) fn parse_refusal(body: &[u8]) -> Option<Refusal> {
    match serde_json::from_slice(body).ok()? {
        FromHub::Error(refusal) => Some(refusal),
        _ => None,
    }
}
