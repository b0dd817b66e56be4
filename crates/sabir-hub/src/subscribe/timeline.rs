//! Subscriptions to the timeline of a session.
//!
//! ```text
//!   Subscription ──► page of messages ──► LogTimeline ──► changes ──► one event of the stream
//! ```
//!
//! The timeline is built from the first message even if the client resumes, because an item depends on all messages before it.
//! Only changes after the client's last message are sent.

use std::fmt::Write as _;

use axum::body::Bytes;
use axum::response::Response;
use sabir_core::fold::timeline::{Clipping, merged};
use sabir_protocol::envelope::timeline::LogTimeline;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{EventSource, KEEP_ALIVE, RETRY, Subscriber, Subscription, SubscriptionQuery, event_stream};
use crate::error::ApiError;
use crate::extract::{ApiQuery, SessionPath};
use crate::openapi::SessionErrors;
use crate::store::ReadLimit;

/// Size of one page.
const PAGE: ReadLimit = ReadLimit { messages: 4_096, bytes: 1 << 20 };
/// Number of changes at which superseded ones are dropped.
const MERGE_INTERVAL: usize = 256;

/// Position in a timeline.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TimelineQuery {
    /// Only changes after this message; `Last-Event-ID` takes precedence.
    after: Option<u64>,
}

struct TimelineSubscription {
    messages: Subscription,
    timeline: LogTimeline,
    /// Number of the last message whose changes the client has received.
    received: u64,
    /// Whether the end of the backlog was announced.
    live: bool,
}

/// Streams the timeline of a session as server-sent events: the existing items, then changes.
#[utoipa::path(get, path = "/v1/sessions/{session}/timeline", operation_id = "watchTimeline", tag = "sessions",
    params(SessionPath, ("Last-Event-ID" = Option<u64>, Header, description = "Only changes after this message"), TimelineQuery),
    responses(
        (status = 200, description = "Each event is a list of changes, and its id the number of their last message; an event of type `live` follows the existing items", body = String, content_type = "text/event-stream"),
        SessionErrors,
    ))]
pub(crate) async fn timeline(
    subscriber: Subscriber,
    ApiQuery(TimelineQuery { after }): ApiQuery<TimelineQuery>,
) -> Result<Response, ApiError> {
    let mut messages = Subscription::new(subscriber, SubscriptionQuery { after, only: None }).await?;
    let received = std::mem::take(&mut messages.after);
    messages.page = PAGE;
    let subscription = TimelineSubscription { messages, timeline: LogTimeline::default(), received, live: false };
    Ok(event_stream(Some(RETRY), subscription))
}

impl EventSource for TimelineSubscription {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            let last = self.messages.after;
            if !self.live && self.messages.backlog_end.is_some_and(|end| end <= last) {
                self.live = true;
                return Some(format!("event: live\nid: {last}\ndata: {{\"last\":{last}}}\n\n").into());
            }
            let page = self.messages.next().await.ok()?;
            let Some(last) = page.last().map(|message| message.seq) else { return Some(KEEP_ALIVE) };
            let mut changes = Vec::new();
            let mut merge_at = MERGE_INTERVAL;
            for message in page {
                if changes.len() >= merge_at {
                    // A small message may change a large item, so changes can be larger than the messages.
                    changes = merged(changes, Clipping::default());
                    merge_at = changes.len() + MERGE_INTERVAL;
                }
                let before = changes.len();
                self.timeline.message(&message.line, &mut changes);
                if message.seq <= self.received {
                    changes.truncate(before);
                }
            }
            if changes.is_empty() {
                continue;
            }
            let json = serde_json::to_string(&merged(changes, Clipping::default())).ok()?;
            let mut out = String::with_capacity(json.len() + 40);
            let _ = write!(out, "id: {last}\ndata: {json}\n\n");
            return Some(out.into());
        }
    }
}
