//! What shells send: `docs/shell-protocol.md`, the part of the hub.
//!
//! ```text
//!   frame ──► room ──► decode ──► look at numbers ──► Log::append ─ ─ ─► ack
//!             (a share of the memory                  (several on the    (after the commit)
//!              for all batches)                        way, in order)
//! ```

mod connection;
pub(crate) mod http;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderValue;
use axum::response::Response;
use sabir_core::view::envelope::read;
use sabir_protocol::batch::{self, HEAD, NotABatch};
use sabir_protocol::{Code, Hello, MAX_MESSAGE, Order, Refusal, SUBPROTOCOL, SessionId, VERSION};
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::Deed;
use crate::error::StoreError;
use crate::hub::{Asker, Hub, Named, Refused, Shared, malformed};
use crate::store::encoded_size;
use crate::store::{AppendRequest, AppendResult};

/// The WebSocket of a shell.
#[utoipa::path(
    get,
    path = "/v1/shells/{session}",
    operation_id = "shellSocket",
    tag = "shells",
    params(("session" = String, Path, description = "The session")),
    responses(
        (status = 101, description = "The WebSocket, which docs/shell-protocol.md describes"),
        (status = 400, description = "Not an upgrade"),
        (status = 401, description = "A token is needed"),
        (status = 403, description = "The token is for something else"),
        (status = 426, description = "No version that both speak"),
        (status = 429, description = "Too many requests"),
    ),
    security(("token" = []))
)]
pub(crate) async fn socket(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    let mut upgrade = upgrade.map_err(|_| malformed("this is the address of a WebSocket"))?;
    if !upgrade.requested_protocols().any(|offered| offered == SUBPROTOCOL) {
        return Err(version().into());
    }
    upgrade.set_selected_protocol(HeaderValue::from_static(SUBPROTOCOL));
    // A frame may be larger than a batch, so that what is too large is told in the words of the protocol. Who sends even
    // more is cut off.
    let largest = 2 * hub.limits.batch_bytes + HEAD;
    let upgrade = upgrade.max_message_size(largest).max_frame_size(largest).read_buffer_size(16 << 10).write_buffer_size(0);
    Ok(upgrade.on_upgrade(move |socket| connection::serve(hub, socket, session, asker)))
}

fn version() -> Refusal {
    let refusal = Refusal::new(Code::Version, "the hub speaks another version of the protocol");
    Refusal { versions: vec![VERSION], ..refusal }
}

/// What of a hello can't be.
fn check_hello(hello: &Hello, session: &SessionId) -> Result<(), Refusal> {
    let wrong = |what: &str| Err(Refusal::new(Code::Malformed, what));
    if hello.session != *session {
        return wrong("the hello is of another session than the address");
    }
    check_writer(&hello.writer)?;
    if hello.takes.len() > 32 || hello.takes.iter().any(|kind| kind.len() > 64) {
        return wrong("takes has too many kinds");
    }
    if [&hello.agent, &hello.shell].into_iter().flatten().any(|name| name.len() > 256) {
        return wrong("a name is too long");
    }
    Ok(())
}

fn check_writer(writer: &str) -> Result<(), Refusal> {
    let plain = (1..=64).contains(&writer.len()) && writer.bytes().all(|byte| byte.is_ascii_graphic());
    plain.then_some(()).ok_or_else(|| Refusal::new(Code::Malformed, "the id of a writer has 1 to 64 visible characters"))
}

/// Bytes of pending orders in one welcome. More of them wait only in sessions of earlier versions.
const WELCOME_ORDERS: usize = MAX_MESSAGE + MAX_MESSAGE / 2;

/// Leaves as many orders as fit in a welcome, and at least one.
fn fit_welcome(orders: &mut Vec<Order>) {
    let mut bytes = 0;
    let fits = |order: &&Order| {
        let is_first = bytes == 0;
        bytes += encoded_size(order);
        is_first || bytes <= WELCOME_ORDERS
    };
    let count = orders.iter().take_while(fits).count();
    orders.truncate(count);
}

/// A batch that may be applied, with its share of the room.
struct Ready {
    append: AppendRequest,
    room: OwnedSemaphorePermit,
}

/// Takes a batch apart and looks at every message of it.
async fn ready(hub: &Hub, frame: &[u8], session: &SessionId, writer: &str, epoch: u32) -> Result<Ready, Refusal> {
    let limit = hub.limits.batch_bytes;
    // The messages as they are, however small the frame is: that is what has to fit.
    let promised = frame.get(20..24).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let room = u32::try_from((promised as usize).min(limit).div_ceil(1 << 10).max(1)).unwrap_or(u32::MAX);
    let closed = |_| Refusal::new(Code::Unavailable, "the hub is about to stop");
    let room = std::sync::Arc::clone(&hub.room).acquire_many_owned(room).await.map_err(closed)?;
    let batch = batch::decode(frame, limit).map_err(|wrong| match wrong {
        NotABatch::Malformed(_) => Refusal::new(Code::Malformed, wrong.to_string()),
        NotABatch::TooLarge => Refusal::new(Code::TooLarge, format!("a batch has at most {limit} bytes")),
    })?;
    let mut messages = Vec::with_capacity(batch.count as usize);
    for (seq, line) in (batch.first..).zip(batch.messages()) {
        check(line, session, seq).map_err(|what| Refusal::new(Code::Malformed, format!("message {seq}: {what}")))?;
        messages.push(Bytes::copy_from_slice(line));
    }
    let append = AppendRequest { session: session.clone(), writer: writer.to_owned(), epoch, first: batch.first, messages };
    Ok(Ready { append, room })
}

fn check(line: &[u8], session: &SessionId, seq: u64) -> Result<(), &'static str> {
    if line.len() > MAX_MESSAGE {
        return Err("it is too long");
    }
    let number = read::check(line, session.as_str())?;
    if number == seq { Ok(()) } else { Err("it has another number") }
}

/// What is to be done once it is known what became of a batch.
fn settle(hub: &Hub, append: &AppendRequest, appended: Result<AppendResult, StoreError>) -> Result<AppendResult, Refusal> {
    let appended = appended.map_err(|trouble| hub.trouble(trouble))?;
    match &appended {
        AppendResult::Stored { new, .. } => {
            let known = append.messages.len() - new;
            hub.counts.repeated.add(known as u64);
            let lines = append.messages.get(known..).filter(|lines| !lines.is_empty());
            if let Some(lines) = lines {
                hub.counts.batches.add(1);
                hub.counts.messages.add(lines.len() as u64);
                hub.counts.message_bytes.add(lines.iter().map(|line| line.len() as u64).sum());
                hub.live.published(&append.session, append.first + known as u64, lines);
            }
        }
        AppendResult::Gap { .. } => hub.counts.gaps.add(1),
        AppendResult::Refused(_) => hub.counts.refused.add(1),
    }
    Ok(appended)
}
