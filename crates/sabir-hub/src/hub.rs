//! What all requests share.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, TryStreamExt as _, stream};
use sabir_protocol::{Code, FromHub, Refusal, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::artifact::Folder;
use crate::audit::Audit;
use crate::auth::{Deed, Gate, Visitor};
use crate::control::noted;
use crate::door::Door;
use crate::entrance::Entrance;
use crate::error::StoreError;
use crate::live::Live;
use crate::metrics::Counts;
use crate::pace::Pace;
use crate::store::{Store, WriteStore};

/// The results of so many sessions are made at the same time.
const RESULTS: usize = 2;

/// How much of everything.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at the same time.
    pub connections: usize,
    /// Watchers at the same time.
    pub watchers: usize,
    /// Requests in a second, of one token or address.
    pub requests_per_second: u32,
    /// Bytes of a batch, before and after expansion.
    pub batch_bytes: usize,
    /// Bytes of all batches that are being dealt with.
    pub batches_bytes: usize,
    /// Bytes of an artifact.
    pub artifact_bytes: u64,
    /// How long a side of a connection may say nothing.
    pub heartbeat: Duration,
    /// How long the head of a request, its body, or a hello may take.
    pub patience: Duration,
    /// How often refusals are written to the audit log.
    pub audit: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            watchers: 5_000,
            requests_per_second: 200,
            batch_bytes: 2 << 20,
            batches_bytes: 64 << 20,
            artifact_bytes: 1 << 30,
            heartbeat: Duration::from_secs(15),
            patience: Duration::from_secs(10),
            audit: Duration::from_secs(60),
        }
    }
}

/// How a hub is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where artifacts and audit lines are kept.
    pub folder: PathBuf,
    /// Nobody needs a token.
    pub open: bool,
    /// Names by which the hub is called, beside `localhost` and addresses in numbers.
    pub hosts: Vec<String>,
    /// Origins of pages that may use the hub, beside its own.
    pub origins: Vec<String>,
    /// How much of everything.
    pub limits: Limits,
    /// How pages come in without a typed token.
    pub entrance: Option<Entrance>,
    /// Who hears of trouble.
    pub notes: mpsc::Sender<String>,
}

/// What all requests share.
pub(crate) struct Hub {
    pub(crate) store: Store,
    pub(crate) gate: Gate,
    pub(crate) live: Arc<Live>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) audit: Audit,
    pub(crate) artifacts: Folder,
    pub(crate) door: Door,
    pub(crate) pace: Pace,
    pub(crate) limits: Limits,
    pub(crate) entrance: Option<Entrance>,
    /// Room for batches, in KiB.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) watchers: Arc<Semaphore>,
    /// Turns of those who want the results of a session.
    pub(crate) results: Semaphore,
    /// Whether the store was all right, when it was last looked at.
    pub(crate) health: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    /// Becomes true when the hub is about to stop.
    pub(crate) stop: watch::Receiver<bool>,
    notes: mpsc::Sender<String>,
}

pub(crate) type Shared = Arc<Hub>;

impl Hub {
    pub(crate) fn new(store: Store, settings: Settings, stop: watch::Receiver<bool>) -> std::io::Result<Self> {
        let Settings { folder, open, hosts, origins, limits, entrance, notes } = settings;
        let counts = Arc::new(Counts::default());
        let quota = store.write.as_ref().map(|write| Arc::clone(&write.quota)).unwrap_or_default();
        Ok(Self {
            gate: Gate::new(Arc::clone(&store.tokens), open),
            live: Arc::new(Live::new(store.clone(), Arc::clone(&counts))),
            store,
            counts,
            audit: Audit::open(&folder, Arc::clone(&quota))?,
            artifacts: Folder::open(&folder, quota)?,
            door: Door::new(hosts, origins),
            pace: Pace::new(limits.requests_per_second),
            room: Arc::new(Semaphore::new(limits.batches_bytes.max(limits.batch_bytes).div_ceil(1 << 10))),
            watchers: Arc::new(Semaphore::new(limits.watchers)),
            results: Semaphore::new(RESULTS),
            health: tokio::sync::Mutex::default(),
            limits,
            entrance,
            stop,
            notes,
        })
    }

    /// Tells those outside, and the operator what it was.
    pub(crate) fn trouble(&self, trouble: StoreError) -> Refusal {
        self.counts.trouble.add(1);
        // With nobody who listens, or too much to say, the count is what remains.
        let _ = self.notes.try_send(trouble.to_string());
        trouble.into()
    }

    /// The topics of a writable store. Routes that need them are only there on a writable hub.
    pub(crate) fn write(&self) -> Result<&Arc<WriteStore>, Refusal> {
        self.store.write.as_ref().ok_or_else(|| Refusal::new(Code::NotFound, "this hub is read-only"))
    }

    /// Tells the operator.
    pub(crate) fn note(&self, text: String) {
        let _ = self.notes.try_send(text);
    }

    /// Writes the refusals of each interval to the audit log.
    pub(crate) async fn keep_auditing(self: Arc<Self>) {
        let mut every = tokio::time::interval(self.limits.audit);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            noted(&self, self.audit.flush().await);
        }
    }

    /// A body that breaks off when the token of who reads it is revoked or runs out.
    pub(crate) fn body<E>(self: &Arc<Self>, asker: Asker, chunks: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Body
    where
        E: Into<axum::BoxError> + Send + 'static,
    {
        let hub = Arc::clone(self);
        let turned_away = Box::pin(async move { hub.gate.turned_away(&asker.visitor).await });
        let guarded = stream::try_unfold((Box::pin(chunks), turned_away), async |(mut chunks, mut turned_away)| {
            tokio::select! {
                biased;
                refusal = &mut turned_away => Err(refusal.into()),
                chunk = chunks.try_next() => Ok::<_, axum::BoxError>(chunk.map_err(Into::into)?.map(|chunk| (chunk, (chunks, turned_away)))),
            }
        });
        Body::from_stream(guarded)
    }

    /// Waits until the hub is about to stop.
    pub(crate) async fn stopping(&self) -> Refusal {
        let mut stop = self.stop.clone();
        // A hub that is gone has stopped.
        let _ = stop.wait_for(|stop| *stop).await;
        Refusal::new(Code::Unavailable, "the hub is about to stop")
    }
}

/// A refusal as an answer.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Self(Refusal::new(code, "there is nothing of that name"))
    }
}

/// A refusal of what can't be read.
pub(crate) fn malformed(what: impl std::fmt::Display) -> Refused {
    Refused(Refusal::new(Code::Malformed, what.to_string()))
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let wait = self.0.retry_after_seconds;
        let mut response = (status, Json(FromHub::Error(self.0))).into_response();
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Where a request comes from, and its place among the connections, which is kept as long as anything of it is.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The hub itself ends the TLS of the connection.
    pub(crate) tls: bool,
    pub(crate) place: Option<Arc<OwnedSemaphorePermit>>,
}

/// The name of a client in the audit log, for who answers the request: filled in once its token is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client(pub(crate) Arc<OnceLock<String>>);

/// Who asks: somebody whom the hub knows, and who does not ask too often.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) visitor: Visitor,
    _place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Asker {
    pub(crate) fn may(&self, deed: Deed<'_>) -> Result<(), Refused> {
        self.visitor.may(deed).map_err(Refused)
    }
}

impl FromRequestParts<Shared> for Asker {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, hub: &Shared) -> Result<Self, Refused> {
        let nowhere = || Peer { address: IpAddr::from([0, 0, 0, 0]), tls: false, place: None };
        let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_else(nowhere);
        let visitor = match hub.gate.known(parts, peer.address) {
            Ok(Some(visitor)) => visitor,
            other => {
                // Who has no token that is known is counted by its address before the log is asked, so that guessing is slow.
                hub.pace.step(&peer.address.to_string())?;
                let found = match other {
                    Err(refusal) => Err(refusal),
                    Ok(_) => hub.gate.look_up(parts, peer.address).await,
                };
                found.inspect_err(|_| hub.counts.turned_away.add(1))?
            }
        };
        if let Some(Client(name)) = parts.extensions.get() {
            let _ = name.set(visitor.name());
        }
        let mut key = visitor.key();
        if parts.uri.path().starts_with("/v1/shells/") {
            // Where nobody needs a token, people who ask often must not keep the shells of their machine from the hub.
            key.push_str(" shells");
        }
        hub.pace.step(&key)?;
        Ok(Self { visitor, _place: peer.place })
    }
}

/// The session that an address names.
#[derive(Debug, Clone)]
pub(crate) struct Named(pub(crate) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        parameter(parts, state, "session").await?.parse().map(Self).map_err(malformed)
    }
}

/// The number that an address names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbered(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for Numbered {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        parameter(parts, state, "number").await?.parse().map(Self).map_err(malformed)
    }
}

/// What stands in an address in the place of that name.
async fn parameter<S: Send + Sync>(parts: &mut Parts, state: &S, wanted: &str) -> Result<String, Refused> {
    let parameters = RawPathParams::from_request_parts(parts, state).await.map_err(|error| malformed(error.body_text()))?;
    Ok(parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).unwrap_or_default())
}
