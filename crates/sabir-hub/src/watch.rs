//! Who watches: first what is in the log, then what comes, in one stream.
//!
//! ```text
//!   after N ──► page ──► send ──► page ──► … ──► nothing left: wait until the session is further ──► page ──► …
//! ```
//!
//! A watcher reads at its own pace, by the numbers of messages, so there is no gap and no duplicate, and nothing waits for
//! it in memory but the page that it is being sent.

mod list;
mod timeline;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, StreamExt as _, stream};
use sabir_protocol::{Code, Refusal, SessionId};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::auth::Deed;
use crate::hub::{Asker, Hub, Named, Refused, Shared, malformed};
use crate::openapi::Refusals;
use crate::store::{ReadLimit, SessionHead, StoredMessage};

pub(crate) use list::{__path_sessions, sessions};
pub(crate) use timeline::{__path_timeline, timeline};

/// So much is sent at once.
const PAGE: ReadLimit = ReadLimit { messages: 256, bytes: 128 << 10 };
/// Who is cut off comes back after this many milliseconds.
const BEGINNING: Bytes = Bytes::from_static(b"retry: 2000\n\n");
/// Something is sent at least so often, so that who has gone is noticed.
const QUIET: Duration = Duration::from_secs(15);

/// What a watcher wants.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Messages after this number; `Last-Event-ID` counts before it.
    after: Option<u64>,
    /// `event`: only the events; `core`: all but the events.
    #[param(inline)]
    only: Option<Only>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Only {
    /// The events.
    Event,
    /// What says the same in other words.
    Core,
}

impl Only {
    fn has(self, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(borrow)]
            r#type: std::borrow::Cow<'a, str>,
        }
        let is_event = serde_json::from_slice::<Typed<'_>>(line).is_ok_and(|typed| typed.r#type == "event");
        is_event == (self == Self::Event)
    }
}

/// Room for one more watcher.
fn place(hub: &Hub) -> Result<OwnedSemaphorePermit, Refused> {
    let full = |_| {
        let refusal = Refusal::new(Code::SlowDown, "too many watch already");
        Refused(Refusal { retry_after_seconds: Some(5), ..refusal })
    };
    Arc::clone(&hub.watchers).try_acquire_owned().map_err(full)
}

struct Watcher {
    hub: Shared,
    session: SessionId,
    asker: Asker,
    head: watch::Receiver<SessionHead>,
    after: u64,
    only: Option<Only>,
    /// So much is read at once.
    page: ReadLimit,
    /// The last message of what there was at the beginning, once that is known.
    replay: Option<u64>,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    async fn new<W: Into<Wanted>>(
        hub: Shared,
        asker: Asker,
        session: SessionId,
        wanted: Result<Query<W>, QueryRejection>,
        headers: &HeaderMap,
    ) -> Result<Self, Refused> {
        asker.may(Deed::See)?;
        let Query(wanted) = wanted.map_err(|error| malformed(error.body_text()))?;
        let wanted: Wanted = wanted.into();
        let seen = headers.get("last-event-id").map(|value| value.to_str().ok().and_then(|text| text.trim().parse().ok()));
        let seen = match seen {
            Some(None) => return Err(malformed("Last-Event-ID is a number")),
            Some(seen) => seen,
            None => None,
        };
        let place = place(&hub)?;
        let head = hub.store.messages.watch(&session).await.map_err(|trouble| hub.trouble(trouble))?.ok_or(Code::NotFound)?;
        let after = seen.or(wanted.after).unwrap_or(0);
        let mut watcher = Self { hub, session, asker, head, after, only: wanted.only, page: PAGE, replay: None, _place: place };
        watcher.look();
        Ok(watcher)
    }

    /// How far the session is.
    fn look(&mut self) -> u64 {
        let SessionHead { last, caught_up, .. } = *self.head.borrow_and_update();
        if caught_up {
            self.replay.get_or_insert(last);
        }
        last
    }

    /// The next messages; none when nothing came for a while, or when it has become known that nothing is left of what
    /// there was at the beginning. An end is a refusal.
    async fn next(&mut self) -> Result<Vec<StoredMessage>, Refusal> {
        loop {
            if *self.hub.stop.borrow() {
                return Err(Refusal::new(Code::Unavailable, "the hub is about to stop"));
            }
            let known = self.replay.is_some();
            if self.look() > self.after {
                let page = self.hub.live.page(&self.session, self.after, self.page).await;
                let mut page = page.map_err(|trouble| self.hub.trouble(trouble))?;
                // What the head says is in the log, so there is a next message.
                let last = page.last().ok_or_else(|| Refusal::new(Code::Internal, "the log ends before its end"))?;
                self.after = last.seq;
                page.retain(|stored| stored.is_gap() || self.only.is_none_or(|only| only.has(&stored.line)));
                if !page.is_empty() {
                    self.hub.counts.watched.add(page.len() as u64);
                    return Ok(page);
                }
                continue;
            }
            if !known && self.replay.is_some() {
                return Ok(Vec::new());
            }
            tokio::select! {
                changed = self.head.changed() => {
                    changed.map_err(|_| Refusal::new(Code::Unavailable, "the log is closed"))?;
                }
                refusal = self.hub.stopping() => return Err(refusal),
                refusal = self.hub.gate.turned_away(&self.asker.visitor) => return Err(refusal),
                () = tokio::time::sleep(QUIET) => return Ok(Vec::new()),
            }
        }
    }
}

/// A session's messages as server-sent events: those that there are, then those that come.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/events",
    operation_id = "watchSession",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "The session"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Messages after this number"),
        Wanted,
    ),
    responses(
        (status = 200, description = "The number of a message is the id of its event", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Not a number"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn events(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Refused> {
    let watcher = Watcher::new(hub, asker, session, wanted, &headers).await?;
    let pages = stream::unfold(watcher, async |mut watcher| {
        let page = watcher.next().await.ok()?;
        Some((Ok::<_, std::convert::Infallible>(sent(&page)), watcher))
    });
    let beginning = stream::once(std::future::ready(Ok(BEGINNING)));
    Ok(event_stream(Body::from_stream(beginning.chain(pages))))
}

fn event_stream(body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

/// A comment, which says only that the stream goes on.
fn still_there() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// Messages as server-sent events.
fn sent(page: &[StoredMessage]) -> Bytes {
    if page.is_empty() {
        return still_there();
    }
    let mut out = Vec::with_capacity(page.iter().map(|stored| stored.line.len() + 32).sum());
    for stored in page {
        out.extend_from_slice(format!("id: {}\ndata: ", stored.seq).as_bytes());
        // A raw carriage return ends a line of the stream. In JSON it can only be a space between values.
        out.extend(stored.line.iter().map(|byte| if *byte == b'\r' { b' ' } else { *byte }));
        out.extend_from_slice(b"\n\n");
    }
    out.into()
}

/// A session's messages over a WebSocket, each a text frame: those that there are, then those that come.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/watch",
    operation_id = "watchSessionSocket",
    tag = "sessions",
    params(("session" = String, Path, description = "The session"), Wanted),
    responses(
        (status = 101, description = "The WebSocket"),
        (status = 400, description = "Not an upgrade, or not a number"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn socket(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let watcher = Watcher::new(hub, asker, session, wanted, &headers).await?;
    let upgrade = upgrade.map_err(|_| malformed("this is the address of a WebSocket"))?;
    let upgrade = upgrade.max_message_size(4 << 10).read_buffer_size(4 << 10).write_buffer_size(16 << 10);
    Ok(upgrade.on_upgrade(move |socket| show(watcher, socket)))
}

async fn show(mut watcher: Watcher, socket: WebSocket) {
    let (mut to, mut from) = socket.split();
    let (hub, key) = (Arc::clone(&watcher.hub), watcher.asker.visitor.key());
    let all = async {
        let refusal = loop {
            let page = match watcher.next().await {
                Ok(page) => page,
                Err(refusal) => break refusal,
            };
            if page.is_empty() {
                to.send(Message::Ping(Bytes::new())).await?;
            }
            for stored in page {
                // A message was text when it was taken.
                let Ok(text) = stored.line.try_into() else { continue };
                to.feed(Message::Text(text)).await?;
            }
            to.flush().await?;
        };
        let frame = axum::extract::ws::CloseFrame { code: refusal.code.close(), reason: refusal.message.into() };
        to.send(Message::Close(Some(frame))).await
    };
    // What a watcher sends is not read for what it says, only for its end; many frames are read slowly.
    let gone = async {
        while from.next().await.is_some_and(|frame| !matches!(frame, Ok(Message::Close(_)) | Err(_))) {
            tokio::time::sleep(hub.pace.spend(&key, 1.0)).await;
        }
    };
    tokio::select! {
        _ = all => {}
        () = gone => {}
    }
}
