//! The log: the only way to what the hub keeps.
//!
//! ```text
//!   ingest ── begin, append ──►┌─────┐◄── read, follow ── watch
//!   control ── add_order ─────►│ Log │◄── sessions, session, artifacts ── lists
//!   ingest ── orders, taken ──►└─────┘◄── tokens ── auth
//! ```
//!
//! What stands behind it may be memory, a folder, or other machines; nothing else in this crate knows which. Whatever an
//! implementation answers with `Ok` is durable to the degree that it promises, and every answer is whole: a batch is there
//! or it is not.

pub mod embedded;
mod heads;
pub mod local;
pub mod memory;
pub(crate) mod rules;
pub(crate) mod words;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Bytes;
use sabir_core::fold::{Overview, Phase};
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Hello, Order, Refusal, SessionId, Taken};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use utoipa::ToSchema;

use crate::auth::token::Token;
use crate::quota::Quota;
use crate::usage::{Cube, Period};

/// An answer that takes its time.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send>>;

/// What the hub keeps.
pub trait Log: Send + Sync + 'static {
    /// A shell says who writes a session. Makes the session if it is not known. With a connection it takes the place of
    /// the connection before it.
    fn begin(&self, hello: Hello, connection: bool) -> Answer<Begun>;

    /// Messages of a session, whose numbers were looked at. They are applied in the order in which this was called, not in
    /// the order in which the answers are waited for.
    fn append(&self, batch: Append) -> Answer<Appended>;

    /// Messages after a number, in order, up to the limit; none when there is nothing after it. In the place of one that
    /// can't be read any more there is a [gap](Stored::is_gap).
    fn read(&self, session: &SessionId, after: u64, limit: Limit) -> Answer<Vec<Stored>>;

    /// How far a session is, now and from now on; `None` when it is not known.
    fn follow(&self, session: &SessionId) -> Answer<Option<watch::Receiver<Head>>>;

    /// Sessions that have changed, as they do. Who listens too slowly is told that it missed some.
    fn changes(&self) -> broadcast::Receiver<SessionId>;

    /// Puts an order to a session and gives it its number, if the orders that wait do not take too much.
    fn add_order(&self, session: &SessionId, order: Order, at: Timestamp) -> Answer<Added>;

    /// The orders after a number, in order.
    fn orders(&self, session: &SessionId, after: u64) -> Answer<Vec<Placed>>;

    /// What became of an order. The first answer counts; `false` when there was one, or there is no such order.
    fn taken(&self, session: &SessionId, taken: Taken, at: Timestamp) -> Answer<bool>;

    /// Keeps what the messages up to a number say in short. An older word never replaces a newer one.
    fn describe(&self, session: &SessionId, folded: u64, overview: Overview) -> Answer<()>;

    /// One session.
    fn session(&self, session: &SessionId) -> Answer<Option<Session>>;

    /// The number of the last message that there is now; `None` when the session is not known.
    fn length(&self, session: &SessionId) -> Answer<Option<u64>> {
        let session = self.session(session);
        Box::pin(async move { Ok(session.await?.map(|session| session.last)) })
    }

    /// Sessions, the newest first.
    fn sessions(&self, filter: Filter) -> Answer<Page>;

    /// The agents that sessions are of, by their names.
    fn agents(&self) -> Answer<Vec<String>>;

    /// A line that the agent of a session printed. A log of messages does not have those.
    fn raw_line(&self, _session: &SessionId, _number: u64) -> Answer<RawLine> {
        Box::pin(std::future::ready(Ok(RawLine::Elsewhere)))
    }

    /// What was spent, where the log knows that better than the overviews of its sessions do.
    fn usage(&self, _period: Period) -> Answer<Option<Cube>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether something can be read and written now: an error when it can't, else what is damaged.
    fn health(&self) -> Answer<Vec<String>> {
        let one = self.sessions(Filter { limit: 1, ..Filter::default() });
        Box::pin(async move { one.await.map(|_| Vec::new()) })
    }

    /// Sessions whose last messages are not in their overview yet.
    fn behind(&self) -> Answer<Vec<SessionId>>;

    /// Says that there is an artifact, or that its bytes have come; `false` when the session is not known.
    fn put_artifact(&self, session: &SessionId, artifact: Artifact) -> Answer<bool>;

    /// The artifacts of a session, by their digests.
    fn artifacts(&self, session: &SessionId) -> Answer<Vec<Artifact>>;

    /// Keeps a token.
    fn add_token(&self, token: Token) -> Answer<()>;

    /// All tokens, those too that may not be used any more.
    fn tokens(&self) -> Answer<Vec<Token>>;

    /// A token may not be used any more; `false` when there is none of that id.
    fn revoke_token(&self, id: &str, at: Timestamp) -> Answer<bool>;

    /// What the log and all that is kept beside it may take, together.
    fn quota(&self) -> Arc<Quota> {
        Arc::default()
    }
}

/// Bytes of the pending orders of a session, so that they fit in a welcome.
pub(crate) const PENDING_BYTES: usize = 1 << 20;

/// What became of a new order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// It is kept, and has a number.
    Order(Order),
    /// The session is not known.
    NoSession,
    /// Too many bytes of orders are pending.
    Full {
        /// How many.
        pending: usize,
    },
}

/// What became of a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The writer may write.
    Welcome {
        /// Its epoch.
        epoch: u32,
        /// The number of the last message that is kept.
        last: u64,
        /// The number of this connection: a later one has a higher number.
        connection: u64,
        /// What is asked of the session and not dealt with.
        orders: Vec<Order>,
    },
    /// It may not.
    Refused(Refusal),
}

/// Messages for a session.
#[derive(Debug, Clone)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// Who writes.
    pub writer: String,
    /// In which epoch.
    pub epoch: u32,
    /// The number of the first message.
    pub first: u64,
    /// The messages, without line ends.
    pub messages: Vec<Bytes>,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// It is kept.
    Kept {
        /// The number of the last message that is kept now.
        last: u64,
        /// How many messages of the batch were new.
        new: usize,
    },
    /// It begins too late and was dropped.
    Gap {
        /// The number that it should have begun with.
        expected: u64,
    },
    /// It was refused.
    Refused(Refusal),
}

/// How much is read at once.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// At most so many messages.
    pub messages: usize,
    /// No further message once there are so many bytes.
    pub bytes: usize,
}

/// A message that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub seq: u64,
    /// The message, without a line end.
    pub line: Bytes,
}

impl Stored {
    /// How the message begins that stands for one which was kept and can't be read any more.
    const GAP: &'static [u8] = br#"{"type":"gap","sessionId":"#;

    /// The message that stands for one which was kept and can't be read any more.
    pub(crate) fn gap(session: &SessionId, seq: u64, at: Timestamp) -> Bytes {
        let session = serde_json::Value::from(session.as_str());
        let text = format!("message {seq} is damaged in the hub's database and can't be shown");
        format!(
            r#"{{"type":"gap","sessionId":{session},"seq":{seq},"ts":"{at}","level":"error","origin":"hub","payload":{{"text":"{text}"}}}}"#
        )
        .into()
    }

    /// Whether this only stands for a message that can't be read any more.
    pub fn is_gap(&self) -> bool {
        self.line.starts_with(Self::GAP)
    }
}

/// A line that an agent printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawLine {
    /// This is it, without a line end.
    Here(Bytes),
    /// There is no line of that number.
    Missing,
    /// The lines of this session are on another machine.
    Elsewhere,
}

/// How far a session is. None of its figures ever goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The number of the last message.
    pub last: u64,
    /// The epoch of the writer.
    pub epoch: u32,
    /// The number of the last hello over a connection.
    pub connection: u64,
    /// The number of the last order.
    pub orders: u64,
    /// All that there was at first is before this. A log that has to be made of something else is told as it is made.
    pub whole: bool,
}

/// An order and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Placed {
    /// The order.
    #[schema(value_type = Object)]
    pub order: Order,
    /// When it was put.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Outcome>,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// Whether it is carried out.
    pub accepted: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the shell said so.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its id.
    pub session: SessionId,
    /// The number of the last message.
    pub last: u64,
    /// Up to which message the overview goes.
    pub folded: u64,
    /// What the messages say in short.
    pub overview: Overview,
    /// What the shell says of itself.
    pub shell: Option<String>,
    /// The kinds of orders that the shell can deal with.
    pub takes: Vec<String>,
    /// When it was first heard of.
    pub created: Timestamp,
    /// When something last came.
    pub updated: Timestamp,
    /// What of it can't be read any more.
    pub damaged: Option<String>,
}

/// Which sessions are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this agent.
    pub agent: Option<String>,
    /// In this phase.
    pub phase: Option<Phase>,
    /// Of this workspace.
    pub workspace: Option<String>,
    /// Something came after this.
    pub since: Option<Timestamp>,
    /// Whose id starts so.
    pub prefix: Option<String>,
    /// A message has all of these words, and phrases between double quotes.
    pub text: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// Those after the page that gave this.
    pub cursor: Option<u64>,
}

/// Some sessions, and where the next ones begin.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The newest first.
    pub sessions: Vec<Session>,
    /// For the next page, if there is one.
    pub next: Option<u64>,
}

/// What is known of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    /// How many bytes it has.
    pub size: u64,
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is, as a media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Whether its bytes are here.
    #[serde(default)]
    pub complete: bool,
}

/// Why the log could not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Not now: there is no room, or it is closing. Nothing was changed.
    Unavailable(String),
    /// Something that should not happen. Nothing was changed.
    Internal(String),
    /// It was kept, and can't be read any more. Nothing was changed.
    Damaged(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unavailable(what) | Self::Internal(what) | Self::Damaged(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Trouble {}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        // What exactly the disk says is for the log of the hub, not for who asks from outside.
        match trouble {
            Trouble::Unavailable(_) => Self::new(Code::Unavailable, "the hub can't keep anything now; try again later"),
            Trouble::Internal(_) => Self::new(Code::Internal, "something went wrong in the hub"),
            Trouble::Damaged(_) => {
                Self::new(Code::Internal, "the database of the hub is damaged here; `sabir hub verify` says where")
            }
        }
    }
}
