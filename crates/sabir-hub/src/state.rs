//! Settings of a hub, and the state that its requests share.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures_util::{Stream, TryStreamExt as _, stream};
use sabir_protocol::{Code, Refusal};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::artifacts::ArtifactFiles;
use crate::audit::AuditLog;
use crate::auth::Authenticator;
use crate::error::{NotFound, StoreError};
use crate::extract::Authenticated;
use crate::live_cache::LiveCache;
use crate::login::OneTimeTokens;
use crate::metrics::Metrics;
use crate::origin_check::HostPolicy;
use crate::rate_limit::RateLimiter;
use crate::store::{Store, WriteStore};

/// Maximum number of session results that are computed at the same time.
const MAX_CONCURRENT_RESULTS: usize = 2;

/// Resource limits.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of subscriptions.
    pub subscriptions: usize,
    /// Requests per second, for each token or client address.
    pub requests_per_second: u32,
    /// Maximum size of a batch in bytes, compressed and uncompressed.
    pub batch_bytes: usize,
    /// Maximum size in bytes of all batches that are being processed.
    pub pending_batch_bytes: usize,
    /// Maximum size of an artifact in bytes.
    pub artifact_bytes: u64,
    /// Interval of heartbeats on a WebSocket.
    pub heartbeat: Duration,
    /// Time to receive the head of a request, or a hello. A body may take three times as long.
    pub request_timeout: Duration,
    /// Interval at which refused requests are written to the audit log.
    pub audit_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            subscriptions: 5_000,
            requests_per_second: 200,
            batch_bytes: 2 << 20,
            pending_batch_bytes: 64 << 20,
            artifact_bytes: 1 << 30,
            heartbeat: Duration::from_secs(15),
            request_timeout: Duration::from_secs(10),
            audit_interval: Duration::from_secs(60),
        }
    }
}

/// Settings of a hub.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of the artifacts and the audit log.
    pub folder: PathBuf,
    /// Accept requests without a token.
    pub allow_anonymous: bool,
    /// Host names of the hub, in addition to `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the API, in addition to the hub's own.
    pub origins: Vec<String>,
    /// Resource limits.
    pub limits: Limits,
    /// One-time tokens that sign in to the web UI.
    pub one_time_tokens: Option<OneTimeTokens>,
    /// Receives errors that concern the operator.
    pub diagnostics: mpsc::Sender<String>,
}

/// State that all requests share.
pub(crate) struct AppState {
    pub(crate) store: Store,
    pub(crate) authenticator: Authenticator,
    pub(crate) live: Arc<LiveCache>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) audit: AuditLog,
    pub(crate) artifacts: ArtifactFiles,
    pub(crate) host_policy: HostPolicy,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) limits: Limits,
    pub(crate) one_time_tokens: Option<OneTimeTokens>,
    /// Memory for batches that are being processed, in KiB.
    pub(crate) batch_memory: Arc<Semaphore>,
    pub(crate) subscriptions: Arc<Semaphore>,
    pub(crate) result_permits: Semaphore,
    /// Result of the last health check.
    pub(crate) health: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    /// Becomes true when the hub stops.
    pub(crate) stop: watch::Receiver<bool>,
    diagnostics: mpsc::Sender<String>,
}

pub(crate) type SharedState = Arc<AppState>;

impl AppState {
    pub(crate) fn new(store: Store, settings: Settings, stop: watch::Receiver<bool>) -> io::Result<Self> {
        let Settings { folder, allow_anonymous, hosts, origins, limits, one_time_tokens, diagnostics } = settings;
        let metrics = Arc::new(Metrics::default());
        let quota = store.write.as_ref().map(|write| Arc::clone(&write.quota)).unwrap_or_default();
        Ok(Self {
            authenticator: Authenticator::new(Arc::clone(&store.tokens), allow_anonymous),
            live: Arc::new(LiveCache::new(store.clone(), Arc::clone(&metrics))),
            store,
            metrics,
            audit: AuditLog::open(&folder, Arc::clone(&quota))?,
            artifacts: ArtifactFiles::open(&folder, quota)?,
            host_policy: HostPolicy::new(hosts, origins),
            rate_limiter: RateLimiter::new(limits.requests_per_second),
            batch_memory: Arc::new(Semaphore::new(limits.pending_batch_bytes.max(limits.batch_bytes).div_ceil(1 << 10))),
            subscriptions: Arc::new(Semaphore::new(limits.subscriptions)),
            result_permits: Semaphore::new(MAX_CONCURRENT_RESULTS),
            health: tokio::sync::Mutex::default(),
            limits,
            one_time_tokens,
            stop,
            diagnostics,
        })
    }

    /// The writable topics of the store. A read-only hub has no routes that need them.
    pub(crate) fn write_store(&self) -> Result<&Arc<WriteStore>, NotFound> {
        self.store.write.as_ref().ok_or(NotFound)
    }

    /// Counts an error, reports its details to the operator, and returns the refusal for the client.
    pub(crate) fn report(&self, error: StoreError) -> Refusal {
        self.metrics.store_errors.add(1);
        self.diagnose(error.to_string());
        error.into()
    }

    /// Reports a problem to the operator. It is dropped if the operator has not read the earlier ones.
    pub(crate) fn diagnose(&self, problem: String) {
        let _ = self.diagnostics.try_send(problem);
    }

    /// Reports an audit line that could not be written. The audited action is not undone.
    pub(crate) fn check_audit(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.report(StoreError::Unavailable(format!("an audit line could not be written: {error}")));
        }
    }

    /// A response body that is aborted when the client's token is revoked or expires.
    pub(crate) fn revocable_body<E>(
        self: &Arc<Self>,
        client: Authenticated,
        chunks: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Body
    where
        E: Into<axum::BoxError> + Send + 'static,
    {
        let state = Arc::clone(self);
        let revoked = Box::pin(async move { state.authenticator.until_revoked(&client.principal).await });
        let guarded = stream::try_unfold((Box::pin(chunks), revoked), async |(mut chunks, mut revoked)| {
            tokio::select! {
                biased;
                refusal = &mut revoked => Err(refusal.into()),
                chunk = chunks.try_next() => {
                    let chunk = chunk.map_err(Into::into)?;
                    Ok::<_, axum::BoxError>(chunk.map(|chunk| (chunk, (chunks, revoked))))
                }
            }
        });
        Body::from_stream(guarded)
    }

    /// Waits until the hub stops.
    pub(crate) async fn stopping(&self) -> Refusal {
        let mut stop = self.stop.clone();
        // Fails if the sender is gone, which means the same.
        let _ = stop.wait_for(|stop| *stop).await;
        stopping()
    }
}

/// Refusal of requests while the hub stops.
pub(crate) fn stopping() -> Refusal {
    Refusal::new(Code::Unavailable, "the hub is stopping")
}

/// Reports store errors to the operator.
pub(crate) trait ReportError<T> {
    /// Replaces a [`StoreError`] by its [report](AppState::report).
    fn report(self, state: &AppState) -> Result<T, Refusal>;
}

impl<T> ReportError<T> for Result<T, StoreError> {
    fn report(self, state: &AppState) -> Result<T, Refusal> {
        self.map_err(|error| state.report(error))
    }
}
