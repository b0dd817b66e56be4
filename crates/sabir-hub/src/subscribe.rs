//! Subscriptions: the stored messages of a session and then new ones, in one stream.
//!
//! ```text
//!   after N ──► page ──► send ──► page ──► … ──► up to date: wait for the session's head ──► page ──► …
//! ```
//!
//! A subscription reads pages by message number at its client's pace. So there are neither gaps nor duplicates, and a slow client
//! costs no memory but its current page.

pub(crate) mod list;
pub(crate) mod timeline;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, StreamExt as _, stream};
use sabir_protocol::{Code, Refusal, SessionId};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, NotFound, malformed};
use crate::extract::{ApiQuery, Authenticated, SessionPath, SessionView};
use crate::openapi::SessionErrors;
use crate::state::{AppState, ReportError as _, SharedState, stopping};
use crate::store::{ReadLimit, SessionHead, StoredMessage};

/// Size of one page.
const PAGE: ReadLimit = ReadLimit { messages: 256, bytes: 128 << 10 };
/// Reconnection time of clients, in milliseconds.
const RETRY: Bytes = Bytes::from_static(b"retry: 2000\n\n");
/// A comment, by which client and hub notice a broken connection.
const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");
/// Interval of keep-alives.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Messages of a subscription.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubscriptionQuery {
    /// Only messages after this number; `Last-Event-ID` takes precedence.
    after: Option<u64>,
    /// `event`: only events; `core`: everything except events.
    #[param(inline)]
    only: Option<MessageKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageKind {
    /// Events.
    Event,
    /// Messages that repeat the content of events in another form.
    Core,
}

impl MessageKind {
    fn includes(self, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Header<'a> {
            #[serde(borrow)]
            r#type: std::borrow::Cow<'a, str>,
        }
        let is_event = serde_json::from_slice::<Header<'_>>(line).is_ok_and(|header| header.r#type == "event");
        is_event == (self == Self::Event)
    }
}

/// A client that subscribes to the session in the path.
pub(crate) struct Subscriber {
    view: SessionView,
    /// Number of the last message that the client has received, from `Last-Event-ID`.
    last_event_id: Option<u64>,
}

impl FromRequestParts<SharedState> for Subscriber {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        let view = SessionView::from_request_parts(parts, state).await?;
        let last_event_id = match parts.headers.get("last-event-id") {
            Some(value) => {
                let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
                Some(number.ok_or_else(|| malformed("Last-Event-ID must be a number"))?)
            }
            None => None,
        };
        Ok(Self { view, last_event_id })
    }
}

/// Takes a place among the subscriptions.
fn permit(state: &AppState) -> Result<OwnedSemaphorePermit, ApiError> {
    let full = |_| {
        let refusal = Refusal::new(Code::SlowDown, "too many subscriptions");
        ApiError(Refusal { retry_after_seconds: Some(5), ..refusal })
    };
    Arc::clone(&state.subscriptions).try_acquire_owned().map_err(full)
}

/// A subscription to the messages of a session.
struct Subscription {
    state: SharedState,
    client: Authenticated,
    session: SessionId,
    head: watch::Receiver<SessionHead>,
    /// Number of the last delivered message.
    after: u64,
    only: Option<MessageKind>,
    page: ReadLimit,
    /// Last message of those that existed at the start, once that is known.
    backlog_end: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Subscription {
    async fn new(subscriber: Subscriber, query: SubscriptionQuery) -> Result<Self, ApiError> {
        let Subscriber { view: SessionView { state, client, session }, last_event_id } = subscriber;
        let permit = permit(&state)?;
        let head = state.store.messages.watch(&session).await.report(&state)?.ok_or(NotFound)?;
        let after = last_event_id.or(query.after).unwrap_or(0);
        let (only, page, backlog_end) = (query.only, PAGE, None);
        let mut subscription = Self { state, client, session, head, after, only, page, backlog_end, _permit: permit };
        subscription.update_head();
        Ok(subscription)
    }

    /// Number of the session's last message.
    fn update_head(&mut self) -> u64 {
        let SessionHead { last, caught_up, .. } = *self.head.borrow_and_update();
        if caught_up {
            self.backlog_end.get_or_insert(last);
        }
        last
    }

    /// The next messages. None after a keep-alive interval, or when the end of the backlog has become known. An error ends the
    /// subscription.
    async fn next(&mut self) -> Result<Vec<StoredMessage>, Refusal> {
        loop {
            if *self.state.stop.borrow() {
                return Err(stopping());
            }
            let knew_backlog = self.backlog_end.is_some();
            if self.update_head() > self.after {
                let page = self.state.live.read(&self.session, self.after, self.page).await;
                let mut page = page.report(&self.state)?;
                let shorter = || Refusal::new(Code::Internal, "internal error: the log is shorter than its recorded length");
                self.after = page.last().ok_or_else(shorter)?.seq;
                page.retain(|message| message.is_gap() || self.only.is_none_or(|only| only.includes(&message.line)));
                if !page.is_empty() {
                    self.state.metrics.delivered_messages.add(page.len() as u64);
                    return Ok(page);
                }
                continue;
            }
            if !knew_backlog && self.backlog_end.is_some() {
                return Ok(Vec::new());
            }
            tokio::select! {
                changed = self.head.changed() => {
                    changed.map_err(|_| Refusal::new(Code::Unavailable, "the store is closed"))?;
                }
                refusal = self.state.stopping() => return Err(refusal),
                refusal = self.state.authenticator.until_revoked(&self.client.principal) => return Err(refusal),
                () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => return Ok(Vec::new()),
            }
        }
    }
}

/// Streams the messages of a session as server-sent events: the stored ones, then new ones.
#[utoipa::path(get, path = "/v1/sessions/{session}/events", operation_id = "watchSession", tag = "sessions",
    params(SessionPath, ("Last-Event-ID" = Option<u64>, Header, description = "Only messages after this number"), SubscriptionQuery),
    responses(
        (status = 200, description = "Messages; the id of an event is the message number", body = String, content_type = "text/event-stream"),
        SessionErrors,
    ))]
pub(crate) async fn events(subscriber: Subscriber, ApiQuery(query): ApiQuery<SubscriptionQuery>) -> Result<Response, ApiError> {
    Ok(event_stream(Some(RETRY), Subscription::new(subscriber, query).await?))
}

/// Source of the events of a stream.
trait EventSource: Send + 'static {
    /// The next chunk of the stream; `None` at its end.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

impl EventSource for Subscription {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        let page = self.next().await.ok()?;
        Some(if page.is_empty() { KEEP_ALIVE } else { encode(&page) })
    }
}

/// A response with server-sent events.
fn event_stream(preamble: Option<Bytes>, source: impl EventSource) -> Response {
    let chunks = stream::unfold(source, async |mut source| {
        let chunk = source.next_chunk().await?;
        Some((Ok::<_, Infallible>(chunk), source))
    });
    let body = Body::from_stream(stream::iter(preamble.map(Ok)).chain(chunks));
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

/// Encodes messages as server-sent events.
fn encode(page: &[StoredMessage]) -> Bytes {
    let mut out = Vec::with_capacity(page.iter().map(|message| message.line.len() + 32).sum());
    for message in page {
        out.extend_from_slice(format!("id: {}\ndata: ", message.seq).as_bytes());
        // A raw carriage return would end the line. In JSON it can only be white space.
        out.extend(message.line.iter().map(|byte| if *byte == b'\r' { b' ' } else { *byte }));
        out.extend_from_slice(b"\n\n");
    }
    out.into()
}

/// Streams the messages of a session over a WebSocket, one per text frame: the stored ones, then new ones.
#[utoipa::path(get, path = "/v1/sessions/{session}/watch", operation_id = "watchSessionSocket", tag = "sessions",
    params(SessionPath, SubscriptionQuery),
    responses((status = 101, description = "Switch to the WebSocket protocol"), SessionErrors))]
pub(crate) async fn websocket(
    subscriber: Subscriber,
    ApiQuery(query): ApiQuery<SubscriptionQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let subscription = Subscription::new(subscriber, query).await?;
    let upgrade = upgrade.map_err(|_| malformed("not a WebSocket request"))?;
    let upgrade = upgrade.max_message_size(4 << 10).read_buffer_size(4 << 10).write_buffer_size(16 << 10);
    Ok(upgrade.on_upgrade(move |socket| deliver(subscription, socket)))
}

async fn deliver(mut subscription: Subscription, socket: WebSocket) {
    let (mut sender, mut receiver) = socket.split();
    let (state, key) = (Arc::clone(&subscription.state), subscription.client.principal.rate_limit_key());
    let send = async {
        let refusal = loop {
            let page = match subscription.next().await {
                Ok(page) => page,
                Err(refusal) => break refusal,
            };
            if page.is_empty() {
                sender.send(Message::Ping(Bytes::new())).await?;
            }
            for message in page {
                // Messages were checked to be UTF-8 when they were received.
                let Ok(text) = message.line.try_into() else { continue };
                sender.feed(Message::Text(text)).await?;
            }
            sender.flush().await?;
        };
        sender.send(Message::Close(Some(CloseFrame { code: refusal.code.close(), reason: refusal.message.into() }))).await
    };
    // Frames of the client are ignored until it closes; they are read at the rate limit.
    let closed = async {
        while receiver.next().await.is_some_and(|frame| !matches!(frame, Ok(Message::Close(_)) | Err(_))) {
            tokio::time::sleep(state.rate_limiter.charge(&key, 1.0)).await;
        }
    };
    tokio::select! {
        _ = send => {}
        () = closed => {}
    }
}
