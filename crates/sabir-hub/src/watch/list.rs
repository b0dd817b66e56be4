//! The list of sessions, as it changes.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use sabir_protocol::SessionId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::{QUIET, event_stream, place, still_there};
use crate::api::Shape;
use crate::auth::Deed;
use crate::hub::{Asker, Hub, Refused, Shared};
use crate::openapi::Refusals;
use crate::store::SessionFilter;

/// Changes are gathered for so long.
const GATHER: Duration = Duration::from_millis(250);
/// No further session is told at once, when there are so many bytes.
const BYTES: usize = 1 << 20;
/// So many sessions are told at the beginning.
const FIRST: usize = 200;

struct Follower {
    hub: Shared,
    asker: Asker,
    changes: Receiver<SessionId>,
    /// All of the list is to be told.
    whole: bool,
    /// Sessions that have changed and were not told yet.
    changed: BTreeSet<SessionId>,
    _place: OwnedSemaphorePermit,
}

/// The newest sessions, then each session again whenever it has changed, as server-sent events.
#[utoipa::path(
    get,
    path = "/v1/sessions/events",
    operation_id = "watchSessions",
    tag = "sessions",
    responses(
        (status = 200, description = "Events of the type `session`; `reset` says that the list begins anew", body = String, content_type = "text/event-stream"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn sessions(State(hub): State<Shared>, asker: Asker) -> Result<Response, Refused> {
    asker.may(Deed::See)?;
    let place = place(&hub)?;
    let changes = hub.store.sessions.changes();
    let follower = Follower { hub, asker, changes, whole: true, changed: BTreeSet::new(), _place: place };
    let pages = stream::unfold(follower, async |mut follower| {
        let page = follower.next().await?;
        Some((Ok::<_, std::convert::Infallible>(page), follower))
    });
    Ok(event_stream(Body::from_stream(pages)))
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.whole) {
            let page = self.hub.store.sessions.sessions(SessionFilter { limit: FIRST, ..SessionFilter::default() }).await.ok()?;
            let mut out = b"event: reset\ndata: {}\n\n".to_vec();
            page.sessions.into_iter().rev().for_each(|session| tell(&Shape::of(&self.hub, session), &mut out));
            return Some(out.into());
        }
        let hub: &Hub = &self.hub;
        let changed = &mut self.changed;
        let quiet = tokio::time::sleep(QUIET);
        tokio::pin!(quiet);
        let mut until: Option<Instant> = (!changed.is_empty()).then(Instant::now);
        loop {
            let gathered = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                one = self.changes.recv() => match one {
                    Ok(session) => {
                        changed.insert(session);
                        until.get_or_insert_with(|| Instant::now() + GATHER);
                    }
                    Err(RecvError::Lagged(_)) => {
                        // Some were missed, so all of them are told again.
                        self.whole = true;
                        return Some(still_there());
                    }
                    Err(RecvError::Closed) => return None,
                },
                () = gathered => break,
                () = &mut quiet, if until.is_none() => return Some(still_there()),
                _ = hub.stopping() => return None,
                _ = hub.gate.turned_away(&self.asker.visitor) => return None,
            }
        }
        let mut out = Vec::new();
        while let Some(session) = (out.len() < BYTES).then(|| changed.pop_first()).flatten() {
            if let Some(session) = hub.store.sessions.session(&session).await.ok()? {
                tell(&Shape::of(hub, session), &mut out);
            }
        }
        Some(out.into())
    }
}

fn tell(session: &Shape, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: session\ndata: ");
    // A shape is always JSON; what would not be is left out.
    let _ = serde_json::to_writer(&mut *out, session);
    out.extend_from_slice(b"\n\n");
}
