//! Figures about the hub, as Prometheus reads them. No name of a session or a token is in them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use crate::auth::Deed;
use crate::hub::{Asker, Refused, Shared};

/// A figure that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: Count,
    pub(crate) turned_away: Count,
    pub(crate) batches: Count,
    pub(crate) messages: Count,
    pub(crate) message_bytes: Count,
    pub(crate) repeated: Count,
    pub(crate) gaps: Count,
    pub(crate) refused: Count,
    pub(crate) orders: Count,
    pub(crate) watched: Count,
    pub(crate) pages_read: Count,
    pub(crate) artifact_bytes: Count,
    pub(crate) trouble: Count,
}

/// Figures about the hub.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "hub",
    responses(
        (status = 200, description = "Figures in the text format of Prometheus", body = String, content_type = "text/plain"),
        (status = 401, description = "A token is needed"),
        (status = 403, description = "The token is for something else"),
        (status = 429, description = "Too many requests"),
    ),
    security(("token" = []))
)]
pub(crate) async fn show(State(hub): State<Shared>, asker: Asker) -> Result<Response, Refused> {
    asker.may(Deed::See)?;
    let counts = &hub.counts;
    let (live, connected) = hub.live.counted();
    let watchers = hub.limits.watchers - hub.watchers.available_permits();
    let room = hub.limits.batches_bytes.saturating_sub(hub.room.available_permits() << 10);
    let mut text = String::new();
    for (name, kind, help, value) in [
        ("sabir_hub_requests_total", "counter", "Requests.", counts.requests.get()),
        ("sabir_hub_turned_away_total", "counter", "Requests without a good token, name or origin.", counts.turned_away.get()),
        ("sabir_hub_batches_total", "counter", "Batches that were kept.", counts.batches.get()),
        ("sabir_hub_messages_total", "counter", "Messages that were kept.", counts.messages.get()),
        ("sabir_hub_message_bytes_total", "counter", "Bytes of messages that were kept.", counts.message_bytes.get()),
        ("sabir_hub_repeated_messages_total", "counter", "Messages that came again.", counts.repeated.get()),
        ("sabir_hub_gaps_total", "counter", "Batches that began too late.", counts.gaps.get()),
        ("sabir_hub_refused_total", "counter", "Hellos and batches that were refused.", counts.refused.get()),
        ("sabir_hub_orders_total", "counter", "Orders.", counts.orders.get()),
        ("sabir_hub_watched_messages_total", "counter", "Messages that were given to watchers.", counts.watched.get()),
        ("sabir_hub_pages_read_total", "counter", "Times that messages were read from the log.", counts.pages_read.get()),
        ("sabir_hub_artifact_bytes_total", "counter", "Bytes of artifacts that came.", counts.artifact_bytes.get()),
        ("sabir_hub_trouble_total", "counter", "Times that the log could not do something.", counts.trouble.get()),
        ("sabir_hub_live_sessions", "gauge", "Sessions that something happens in.", live as u64),
        ("sabir_hub_connected_shells", "gauge", "Shells that are connected.", connected as u64),
        ("sabir_hub_watchers", "gauge", "Watchers.", watchers as u64),
        ("sabir_hub_batches_in_work_bytes", "gauge", "Bytes of batches that are being dealt with.", room as u64),
    ] {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
