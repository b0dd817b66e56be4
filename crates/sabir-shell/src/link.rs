//! A connection to a hub, however it is made: what is said goes in, what is heard comes out.

use std::time::Duration;

use sabir_protocol::{FromHub, FromShell, Hello, Refusal, Welcome};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::deliver::{Lost, Way};
use crate::hub::Hub;
use crate::{http, ws};

/// What a shell says.
#[derive(Debug)]
pub(crate) enum Say {
    Frame(FromShell),
    /// An encoded batch.
    Batch(Vec<u8>),
}

/// A connection. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) way: Way,
    say: mpsc::Sender<Say>,
    hear: mpsc::Receiver<Result<FromHub, Lost>>,
    /// Those that may stop in the middle.
    tasks: Vec<JoinHandle<()>>,
}

/// As many things as are said before anybody looks: four batches, and frames.
pub(crate) const QUEUE: usize = 16;
/// A hub that does not answer in this time is none.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

impl Link {
    pub(crate) fn new(
        way: Way,
        say: mpsc::Sender<Say>,
        hear: mpsc::Receiver<Result<FromHub, Lost>>,
        tasks: Vec<JoinHandle<()>>,
    ) -> Self {
        Self { way, say, hear, tasks }
    }

    /// Says something; whether there was room for it. Never waits.
    pub(crate) fn say(&self, what: Say) -> bool {
        self.say.try_send(what).is_ok()
    }

    /// What comes next.
    pub(crate) async fn hear(&mut self) -> Result<FromHub, Lost> {
        self.hear.recv().await.unwrap_or_else(|| Err(Lost::Broken("the connection ended".to_owned())))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Connects, says hello, and waits for the welcome.
pub(crate) async fn greet(way: Way, hub: &Hub, hello: &Hello) -> Result<(Link, Welcome), Lost> {
    match way {
        Way::WebSocket => {
            let mut link = ws::connect(hub).await?;
            link.say(Say::Frame(FromShell::Hello(hello.clone())));
            let welcome = tokio::time::timeout(ANSWER, async {
                loop {
                    match link.hear().await? {
                        FromHub::Welcome(welcome) => return Ok(welcome),
                        FromHub::Error(refusal) => return Err(Lost::Refused(refusal)),
                        _ => {}
                    }
                }
            });
            let welcome = welcome.await.map_err(|_| Lost::Broken("the hub did not answer".to_owned()))??;
            Ok((link, welcome))
        }
        Way::Http => http::greet(hub, hello).await,
    }
}

/// A refusal as the body of an answer says it; `None` when the body is somebody else's.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    match serde_json::from_slice(body).ok()? {
        FromHub::Error(refusal) => Some(refusal),
        _ => None,
    }
}
