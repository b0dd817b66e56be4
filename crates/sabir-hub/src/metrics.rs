//! Health check and Prometheus metrics. Metrics contain no names of sessions or tokens.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::{Code, Refusal};

use crate::error::ApiError;
use crate::extract::{Peer, Viewer};
use crate::openapi::CommonErrors;
use crate::state::{ReportError as _, SharedState, stopping};

/// Time for which the result of a health check is reused.
const HEALTH_TTL: Duration = Duration::from_secs(1);

/// A number that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a hub.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Counter,
    pub(crate) rejected: Counter,
    pub(crate) batches: Counter,
    pub(crate) messages: Counter,
    pub(crate) message_bytes: Counter,
    pub(crate) repeated_messages: Counter,
    pub(crate) gaps: Counter,
    pub(crate) refused: Counter,
    pub(crate) commands: Counter,
    pub(crate) delivered_messages: Counter,
    pub(crate) pages_read: Counter,
    pub(crate) artifact_bytes: Counter,
    pub(crate) store_errors: Counter,
}

/// Returns the metrics of the hub.
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "hub",
    responses(
        (status = 200, description = "Metrics in the Prometheus text format", body = String, content_type = "text/plain"),
        CommonErrors,
    ))]
pub(crate) async fn metrics(State(state): State<SharedState>, _: Viewer) -> Response {
    let metrics = &state.metrics;
    let (live, connected) = state.live.counts();
    let subscriptions = state.limits.subscriptions - state.subscriptions.available_permits();
    let pending = state.limits.pending_batch_bytes.saturating_sub(state.batch_memory.available_permits() << 10);
    let mut text = String::new();
    for (name, kind, help, value) in [
        ("sabir_hub_requests_total", "counter", "Requests.", metrics.requests.get()),
        ("sabir_hub_turned_away_total", "counter", "Requests rejected for their token, host or origin.", metrics.rejected.get()),
        ("sabir_hub_batches_total", "counter", "Stored batches.", metrics.batches.get()),
        ("sabir_hub_messages_total", "counter", "Stored messages.", metrics.messages.get()),
        ("sabir_hub_message_bytes_total", "counter", "Bytes of stored messages.", metrics.message_bytes.get()),
        ("sabir_hub_repeated_messages_total", "counter", "Messages that were stored before.", metrics.repeated_messages.get()),
        ("sabir_hub_gaps_total", "counter", "Batches that started after a gap.", metrics.gaps.get()),
        ("sabir_hub_refused_total", "counter", "Refused hellos and batches.", metrics.refused.get()),
        ("sabir_hub_orders_total", "counter", "Commands to runners.", metrics.commands.get()),
        ("sabir_hub_watched_messages_total", "counter", "Messages sent to subscribers.", metrics.delivered_messages.get()),
        ("sabir_hub_pages_read_total", "counter", "Reads of messages from the store.", metrics.pages_read.get()),
        ("sabir_hub_artifact_bytes_total", "counter", "Uploaded bytes of artifacts.", metrics.artifact_bytes.get()),
        ("sabir_hub_trouble_total", "counter", "Failed operations of the store.", metrics.store_errors.get()),
        ("sabir_hub_live_sessions", "gauge", "Sessions in the live cache.", live as u64),
        ("sabir_hub_connected_shells", "gauge", "Connected runners.", connected as u64),
        ("sabir_hub_watchers", "gauge", "Subscriptions.", subscriptions as u64),
        ("sabir_hub_batches_in_work_bytes", "gauge", "Bytes of batches that are being processed.", pending as u64),
    ] {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Checks that the hub works and none of its data is known to be damaged.
#[utoipa::path(get, path = "/healthz", operation_id = "getHealth", tag = "hub", security(()),
    responses(
        (status = 200, description = "The hub works", body = String, content_type = "text/plain"),
        (status = 429, description = "Too many requests"),
        (status = 503, description = "The store fails, data is damaged, or the hub is stopping; the message has the reason"),
    ))]
pub(crate) async fn health(State(state): State<SharedState>, peer: Peer) -> Result<&'static str, ApiError> {
    // A bucket of its own, so that other clients behind the same address cannot block health checks.
    state.rate_limiter.acquire(&format!("{} health", peer.address))?;
    if *state.stop.borrow() {
        return Err(stopping().into());
    }
    // Health checks need no token but write to the disk, so their results are reused.
    let mut last = state.health.lock().await;
    let health = match &*last {
        Some((checked, health)) if checked.elapsed() < HEALTH_TTL => health.clone(),
        _ => {
            let damage = state.store.sessions.health().await.report(&state);
            let health = match damage {
                Err(_) => Err("the store cannot be read or written".to_owned()),
                Ok(damage) if damage.is_empty() => Ok(()),
                Ok(damage) => Err(format!("{}; `sabir hub verify` shows where", damage.join(", "))),
            };
            last.insert((Instant::now(), health)).1.clone()
        }
    };
    health.map(|()| "ok\n").map_err(|reason| Refusal::new(Code::Unavailable, reason).into())
}
