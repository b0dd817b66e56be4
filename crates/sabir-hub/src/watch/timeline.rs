//! A session as people look at it, as it changes.
//!
//! ```text
//!   Watcher ──► page of messages ──► LogTimeline ──► changes ──► one event of the stream
//! ```
//!
//! The fold begins with the first message, also for who has seen some already: what an item is now depends on all of it.
//! Only the changes after what was seen are sent.

use std::fmt::Write as _;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use sabir_core::fold::timeline::{Clipping, merged};
use sabir_core::view::envelope::timeline::LogTimeline;
use serde::Deserialize;

use super::{BEGINNING, Wanted, Watcher, event_stream, still_there};
use crate::hub::{Asker, Named, Refused, Shared};
use crate::openapi::Refusals;
use crate::store::ReadLimit;

/// So much is folded at once.
const PAGE: ReadLimit = ReadLimit { messages: 4_096, bytes: 1 << 20 };

/// So many changes are gathered before those that are out of date are let go.
const MERGE: usize = 256;

/// Where somebody is in a timeline.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Seen {
    /// Changes after this message; `Last-Event-ID` counts before it.
    after: Option<u64>,
}

impl From<Seen> for Wanted {
    fn from(Seen { after }: Seen) -> Self {
        Self { after, only: None }
    }
}

struct Onlooker {
    watcher: Watcher,
    fold: LogTimeline,
    /// Up to which message the changes are known to who looks.
    seen: u64,
    /// All that there was at the beginning has been told.
    live: bool,
}

/// A session's timeline as server-sent events: what there is, then what changes.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/timeline",
    operation_id = "watchTimeline",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "The session"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Changes after this message"),
        Seen,
    ),
    responses(
        (status = 200, description = "Each event is a list of changes, and its id the number of the last message in them; an event of the type `live` says that all that there was has been sent", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Not a number"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn timeline(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    seen: Result<Query<Seen>, QueryRejection>,
) -> Result<Response, Refused> {
    let mut watcher = Watcher::new(hub, asker, session, seen, &headers).await?;
    let seen = std::mem::take(&mut watcher.after);
    watcher.page = PAGE;
    let onlooker = Onlooker { watcher, fold: LogTimeline::default(), seen, live: false };
    let pages = stream::unfold(onlooker, async |mut onlooker| {
        let page = onlooker.next().await?;
        Some((Ok::<_, std::convert::Infallible>(page), onlooker))
    });
    let beginning = stream::once(std::future::ready(Ok(BEGINNING)));
    Ok(event_stream(Body::from_stream(beginning.chain(pages))))
}

impl Onlooker {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let last = self.watcher.after;
            if !self.live && self.watcher.replay.is_some_and(|replay| replay <= last) {
                self.live = true;
                return Some(format!("event: live\nid: {last}\ndata: {{\"last\":{last}}}\n\n").into());
            }
            let page = self.watcher.next().await.ok()?;
            let Some(last) = page.last().map(|stored| stored.seq) else { return Some(still_there()) };
            let mut changes = Vec::new();
            let mut merge_at = MERGE;
            for stored in page {
                if changes.len() >= merge_at {
                    // A small message may change a large item, so that changes are larger than what they are made of.
                    changes = merged(changes, Clipping::default());
                    merge_at = changes.len() + MERGE;
                }
                let before = changes.len();
                self.fold.message(&stored.line, &mut changes);
                if stored.seq <= self.seen {
                    changes.truncate(before);
                }
            }
            if changes.is_empty() {
                continue;
            }
            // A change is always JSON, and JSON of ours has no line end in it.
            let json = serde_json::to_string(&merged(changes, Clipping::default())).ok()?;
            let mut out = String::with_capacity(json.len() + 40);
            let _ = write!(out, "id: {last}\ndata: {json}\n\n");
            return Some(out.into());
        }
    }
}
