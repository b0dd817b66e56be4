//! Subscriptions to the list of sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use sabir_protocol::SessionId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::{EventSource, KEEP_ALIVE, KEEP_ALIVE_INTERVAL, event_stream, permit};
use crate::error::ApiError;
use crate::extract::{Authenticated, Viewer};
use crate::openapi::CommonErrors;
use crate::sessions::SessionInfo;
use crate::state::SharedState;
use crate::store::SessionFilter;

/// Time for which changes are collected.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// A chunk is full at this size.
const CHUNK_BYTES: usize = 1 << 20;
/// Number of sessions at the start of the stream.
const INITIAL_SESSIONS: usize = 200;

struct ListSubscription {
    state: SharedState,
    client: Authenticated,
    changes: Receiver<SessionId>,
    /// Whether the list must be sent from the start.
    reset: bool,
    /// Changed sessions that were not sent yet.
    changed: BTreeSet<SessionId>,
    _permit: OwnedSemaphorePermit,
}

/// Streams the newest sessions as server-sent events, and then each session whenever it changes.
#[utoipa::path(get, path = "/v1/sessions/events", operation_id = "watchSessions", tag = "sessions",
    responses(
        (status = 200, description = "Events of type `session`; `reset` starts the list again", body = String, content_type = "text/event-stream"),
        CommonErrors,
    ))]
pub(crate) async fn sessions(State(state): State<SharedState>, Viewer(client): Viewer) -> Result<Response, ApiError> {
    let permit = permit(&state)?;
    let changes = state.store.sessions.changes();
    let subscription = ListSubscription { state, client, changes, reset: true, changed: BTreeSet::new(), _permit: permit };
    Ok(event_stream(None, subscription))
}

impl EventSource for ListSubscription {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        let state = &self.state;
        if std::mem::take(&mut self.reset) {
            let filter = SessionFilter { limit: INITIAL_SESSIONS, ..SessionFilter::default() };
            let page = state.store.sessions.sessions(filter).await.ok()?;
            let mut out = b"event: reset\ndata: {}\n\n".to_vec();
            page.sessions.into_iter().rev().for_each(|session| encode(&SessionInfo::new(state, session), &mut out));
            return Some(out.into());
        }
        let changed = &mut self.changed;
        let timeout = tokio::time::sleep(KEEP_ALIVE_INTERVAL);
        tokio::pin!(timeout);
        let mut deadline: Option<Instant> = (!changed.is_empty()).then(Instant::now);
        loop {
            let collected = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(session) => {
                        changed.insert(session);
                        deadline.get_or_insert_with(|| Instant::now() + DEBOUNCE);
                    }
                    Err(RecvError::Lagged(_)) => {
                        // Changes were missed, so the list is sent again.
                        self.reset = true;
                        return Some(KEEP_ALIVE);
                    }
                    Err(RecvError::Closed) => return None,
                },
                () = collected => break,
                () = &mut timeout, if deadline.is_none() => return Some(KEEP_ALIVE),
                _ = state.stopping() => return None,
                _ = state.authenticator.until_revoked(&self.client.principal) => return None,
            }
        }
        let mut out = Vec::new();
        while let Some(session) = (out.len() < CHUNK_BYTES).then(|| changed.pop_first()).flatten() {
            if let Some(session) = state.store.sessions.session(&session).await.ok()? {
                encode(&SessionInfo::new(state, session), &mut out);
            }
        }
        Some(out.into())
    }
}

fn encode(session: &SessionInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: session\ndata: ");
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *out, session);
    out.extend_from_slice(b"\n\n");
}
