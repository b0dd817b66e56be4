//! Storage of a hub: one small trait per topic, and the backends that implement them.
//!
//! | backend | topics | data |
//! |---|---|---|
//! | [`sqlite`] | all | a folder, for one process at a time |
//! | [`memory`] | all | the process; for tests |
//! | [`local`] | reading | the sessions that agents and Sabir left on this machine |
//!
//! ```text
//!   subscribe ─── MessageReader ──┐                   ┌── MessageWriter ─── ingest
//!   listings ──── SessionIndex ───┤                   ├── OverviewStore ─── live cache
//!                                 ├──►  backend  ◄────┤
//!   auth ──────── TokenStore ─────┘                   ├── CommandStore ──── commands
//!        every backend                                └── ArtifactStore ─── artifacts
//!                                                        writable backends
//! ```
//!
//! The rest of the crate holds a [`Store`] and does not know the backend. What a backend answers with `Ok` is as durable as it
//! promises, and calls are atomic: a batch is stored completely or not at all.

mod fencing;
pub mod local;
pub mod memory;
mod session_watch;
pub mod sqlite;
mod tokenize;

use std::sync::Arc;

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use sabir_core::fold::{Overview, Phase};
use sabir_core::time::Timestamp;
use sabir_protocol::{Hello, Order, Refusal, SessionId, Taken};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use utoipa::ToSchema;

use crate::auth::token::Token;
use crate::error::StoreError;
use crate::quota::Quota;
use crate::usage::{Period, UsageRollup};

pub(crate) use fencing::encoded_size;

/// Outcome of a store call. Calls take effect in the order in which they are made, whenever their futures are polled.
pub type StoreFuture<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Reads the messages of sessions.
pub trait MessageReader: Send + Sync + 'static {
    /// Messages numbered above `after`, in order, up to `limit`. A [gap](StoredMessage::is_gap) replaces an unreadable message.
    fn read(&self, session: &SessionId, after: u64, limit: ReadLimit) -> StoreFuture<Vec<StoredMessage>>;

    /// Number of the last message; `None` if the session is unknown.
    fn last_seq(&self, session: &SessionId) -> StoreFuture<Option<u64>>;

    /// Current and future progress of a session; `None` if it is unknown.
    fn watch(&self, session: &SessionId) -> StoreFuture<Option<watch::Receiver<SessionHead>>>;

    /// One line of the agent's own output.
    fn raw_line(&self, _session: &SessionId, _number: u64) -> StoreFuture<RawLineLookup> {
        Box::pin(std::future::ready(Ok(RawLineLookup::NotStored)))
    }
}

/// Lists sessions.
pub trait SessionIndex: Send + Sync + 'static {
    /// One session.
    fn session(&self, session: &SessionId) -> StoreFuture<Option<SessionRecord>>;

    /// A page of sessions, newest first.
    fn sessions(&self, filter: SessionFilter) -> StoreFuture<SessionPage>;

    /// Names of all agents that have sessions, sorted.
    fn agents(&self) -> StoreFuture<Vec<String>>;

    /// Ids of sessions as they change. A receiver that falls behind gets a `Lagged` error.
    fn changes(&self) -> broadcast::Receiver<SessionId>;

    /// Token usage, where the backend knows it better than the overviews of its sessions.
    fn usage(&self, _period: Period) -> StoreFuture<Option<UsageRollup>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Checks that the store works; returns the damage that is known.
    fn health(&self) -> StoreFuture<Vec<String>> {
        let page = self.sessions(SessionFilter { limit: 1, ..SessionFilter::default() });
        Box::pin(async move { page.await.map(|_| Vec::new()) })
    }
}

/// Access tokens.
pub trait TokenStore: Send + Sync + 'static {
    /// Stores a token.
    fn add_token(&self, token: Token) -> StoreFuture<()>;

    /// All tokens, including expired and revoked ones.
    fn tokens(&self) -> StoreFuture<Vec<Token>>;

    /// Revokes a token; `false` if there is none with this id.
    fn revoke_token(&self, id: &str, at: Timestamp) -> StoreFuture<bool>;
}

/// Writes the messages of sessions.
pub trait MessageWriter: Send + Sync + 'static {
    /// Opens a session for a runner, and creates it if necessary. With `connection`, the runner replaces the session's previous
    /// connection.
    fn open_session(&self, hello: Hello, connection: bool) -> StoreFuture<OpenResult>;

    /// Appends messages whose numbers were checked.
    fn append(&self, request: AppendRequest) -> StoreFuture<AppendResult>;
}

/// Overviews of sessions, which are derived from their messages.
pub trait OverviewStore: Send + Sync + 'static {
    /// Stores the overview of the messages up to `seq`, unless the stored one covers more.
    fn put_overview(&self, session: &SessionId, seq: u64, overview: Overview) -> StoreFuture<()>;

    /// Sessions whose overview does not cover their last message.
    fn outdated_overviews(&self) -> StoreFuture<Vec<SessionId>>;
}

/// Commands to runners.
pub trait CommandStore: Send + Sync + 'static {
    /// Queues a command and numbers it, if the pending ones are not too large.
    fn add_command(&self, session: &SessionId, command: Order, at: Timestamp) -> StoreFuture<AddCommandResult>;

    /// Commands numbered above `after`, in order.
    fn commands(&self, session: &SessionId, after: u64) -> StoreFuture<Vec<StoredCommand>>;

    /// Stores the outcome of a command. The first one counts: `false` if there is one, or no such command.
    fn resolve_command(&self, session: &SessionId, taken: Taken, at: Timestamp) -> StoreFuture<bool>;
}

/// Descriptions of artifacts; their bytes are in files.
pub trait ArtifactStore: Send + Sync + 'static {
    /// Stores the description of an artifact; `false` if the session is unknown.
    fn put_artifact(&self, session: &SessionId, artifact: Artifact) -> StoreFuture<bool>;

    /// Artifacts of a session, by digest.
    fn artifacts(&self, session: &SessionId) -> StoreFuture<Vec<Artifact>>;
}

/// A backend, by topic.
#[derive(Clone)]
pub struct Store {
    /// Messages of sessions.
    pub messages: Arc<dyn MessageReader>,
    /// Listings of sessions.
    pub sessions: Arc<dyn SessionIndex>,
    /// Access tokens.
    pub tokens: Arc<dyn TokenStore>,
    /// Topics of a writable backend; `None` if it can only be read.
    pub write: Option<Arc<WriteStore>>,
}

/// The topics that only a writable backend has.
pub struct WriteStore {
    /// Messages of sessions.
    pub messages: Arc<dyn MessageWriter>,
    /// Overviews of sessions.
    pub overviews: Arc<dyn OverviewStore>,
    /// Commands to runners.
    pub commands: Arc<dyn CommandStore>,
    /// Descriptions of artifacts.
    pub artifacts: Arc<dyn ArtifactStore>,
    /// The size limit that the backend shares with the hub's other files.
    pub quota: Arc<Quota>,
}

impl Store {
    /// A store on a backend that cannot be written to.
    pub fn read_only<B: MessageReader + SessionIndex + TokenStore>(backend: Arc<B>) -> Self {
        Self { messages: Arc::clone(&backend) as _, sessions: Arc::clone(&backend) as _, tokens: backend, write: None }
    }

    /// A store on a backend that implements every topic.
    pub fn writable<B>(backend: Arc<B>, quota: Arc<Quota>) -> Self
    where
        B: MessageReader + SessionIndex + TokenStore + MessageWriter + OverviewStore + CommandStore + ArtifactStore,
    {
        let write = WriteStore {
            messages: Arc::clone(&backend) as _,
            overviews: Arc::clone(&backend) as _,
            commands: Arc::clone(&backend) as _,
            artifacts: Arc::clone(&backend) as _,
            quota,
        };
        Self { write: Some(Arc::new(write)), ..Self::read_only(backend) }
    }
}

/// Limit of the bytes of a session's pending commands, so that they fit in a welcome.
pub(crate) const MAX_PENDING_BYTES: usize = 1 << 20;

/// Outcome of [`CommandStore::add_command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddCommandResult {
    /// The command was queued and has its number.
    Added(Order),
    /// The session is unknown.
    UnknownSession,
    /// Too many bytes of commands are pending.
    Full {
        /// Bytes of the pending commands.
        pending: usize,
    },
}

/// Outcome of [`MessageWriter::open_session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenResult {
    /// The runner may write.
    Welcome {
        /// The runner's epoch.
        epoch: u32,
        /// Number of the last stored message.
        last: u64,
        /// Number of this connection; later connections have higher numbers.
        connection: u64,
        /// Pending commands.
        commands: Vec<Order>,
    },
    /// The runner may not write.
    Refused(Refusal),
}

/// Messages to append to a session.
#[derive(Debug, Clone)]
pub struct AppendRequest {
    /// The session.
    pub session: SessionId,
    /// Id of the writing runner.
    pub writer: String,
    /// Epoch of the writing runner.
    pub epoch: u32,
    /// Number of the first message.
    pub first: u64,
    /// The messages, without line ends.
    pub messages: Vec<Bytes>,
}

/// Outcome of [`MessageWriter::append`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendResult {
    /// All messages are stored.
    Stored {
        /// Number of the last stored message.
        last: u64,
        /// Number of messages that were not stored before.
        new: usize,
    },
    /// Messages are missing before the first one; nothing was stored.
    Gap {
        /// Number that the first message should have had.
        expected: u64,
    },
    /// The runner may not write, or sent a different message under a known number.
    Refused(Refusal),
}

/// Limit of one [`MessageReader::read`].
#[derive(Debug, Clone, Copy)]
pub struct ReadLimit {
    /// Maximum number of messages.
    pub messages: usize,
    /// No message is added once the page has this many bytes.
    pub bytes: usize,
}

/// A message in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// The message as JSON, without a line end.
    pub line: Bytes,
}

impl StoredMessage {
    /// Beginning of every gap message.
    const GAP: &'static [u8] = br#"{"type":"gap","sessionId":"#;

    /// A message that replaces an unreadable one.
    fn gap(session: &SessionId, seq: u64, at: Timestamp) -> Bytes {
        let session = serde_json::Value::from(session.as_str());
        let text = format!("message {seq} is damaged in the hub's database and cannot be shown");
        format!(
            r#"{{"type":"gap","sessionId":{session},"seq":{seq},"ts":"{at}","level":"error","origin":"hub","payload":{{"text":"{text}"}}}}"#
        )
        .into()
    }

    /// Returns whether this replaces an unreadable message.
    pub fn is_gap(&self) -> bool {
        self.line.starts_with(Self::GAP)
    }
}

/// Outcome of [`MessageReader::raw_line`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawLineLookup {
    /// The line, without a line end.
    Found(Bytes),
    /// The session or line does not exist.
    Missing,
    /// This backend does not have raw lines.
    NotStored,
}

/// Progress of a session. Its numbers never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionHead {
    /// Number of the last message.
    pub last: u64,
    /// Epoch of the writing runner.
    pub epoch: u32,
    /// Number of the newest connection.
    pub connection: u64,
    /// Number of the last command.
    pub last_command: u64,
    /// Whether the messages that existed at the start are all included. Messages that are derived from an agent log are
    /// announced while it is read.
    pub caught_up: bool,
}

/// A command and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredCommand {
    /// The command.
    #[serde(rename = "order")]
    #[schema(value_type = Object)]
    pub command: Order,
    /// Creation time.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Outcome, once the runner has reported it.
    #[serde(default, rename = "taken", skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CommandOutcome>,
}

/// A runner's answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandOutcome {
    /// Whether the runner carries the command out.
    pub accepted: bool,
    /// Reason of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the answer.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A session in a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// Number of the last message.
    pub last: u64,
    /// Number of the last message that the overview covers.
    pub folded: u64,
    /// State, usage and cost, derived from the messages.
    pub overview: Overview,
    /// Name and version of the runner.
    pub runner: Option<String>,
    /// Kinds of commands that the runner accepts.
    pub accepts: Vec<String>,
    /// Time of the first hello or message.
    pub created: Timestamp,
    /// Time of the last change.
    pub updated: Timestamp,
    /// Description of unreadable data.
    pub damage: Option<String>,
}

/// Criteria of a listing; a session must meet all of them.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Name of the agent.
    pub agent: Option<String>,
    /// Phase of the session.
    pub phase: Option<Phase>,
    /// Workspace of the session.
    pub workspace: Option<String>,
    /// Earliest time of the last change.
    pub since: Option<Timestamp>,
    /// Beginning of the id.
    pub prefix: Option<String>,
    /// Words and quoted phrases that one message must contain.
    pub text: Option<String>,
    /// Maximum number of sessions.
    pub limit: usize,
    /// `next` of the previous page.
    pub cursor: Option<u64>,
}

impl SessionFilter {
    /// Returns whether a session meets all criteria but `text`. `number` is its position: newer sessions have higher numbers.
    fn matches(&self, session: &SessionRecord, number: u64) -> bool {
        let overview = &session.overview;
        self.agent.as_ref().is_none_or(|agent| overview.agent.as_ref() == Some(agent))
            && self.phase.is_none_or(|phase| overview.phase == phase)
            && self.workspace.as_ref().is_none_or(|workspace| overview.workspace.as_ref() == Some(workspace))
            && self.since.is_none_or(|since| session.updated >= since)
            && self.prefix.as_ref().is_none_or(|prefix| session.id.as_str().starts_with(prefix))
            && self.cursor.is_none_or(|cursor| number < cursor)
    }
}

/// A page of a listing.
#[derive(Debug, Clone, Default)]
pub struct SessionPage {
    /// Sessions, newest first.
    pub sessions: Vec<SessionRecord>,
    /// Cursor of the next page, if there is one.
    pub next: Option<u64>,
}

/// Description of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// SHA-256 of the bytes, in hexadecimal.
    pub digest: String,
    /// Number of bytes.
    pub size: u64,
    /// File name to display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Whether the hub has all bytes.
    #[serde(default)]
    pub complete: bool,
}
