//! Single events of a session, and raw lines of its agent.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::envelope::read::{Events, Message};
use sabir_protocol::{Code, Refusal};

use crate::error::{ApiError, NotFound, StoreError};
use crate::extract::{SeqPath, SessionPath, SessionView};
use crate::openapi::SessionErrors;
use crate::state::ReportError as _;
use crate::store::{RawLineLookup, ReadLimit};

/// Maximum size of an event that is assembled from fragments.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Size of one read.
const PAGE: ReadLimit = ReadLimit { messages: 256, bytes: 1 << 20 };

/// Returns the event in a message. For a fragmented event, any of its fragments will do.
#[utoipa::path(get, path = "/v1/sessions/{session}/events/{number}", operation_id = "getEvent", tag = "sessions",
    params(SessionPath, SeqPath),
    responses(
        (status = 200, description = "The event, see docs/events.md", body = Object), SessionErrors,
        (status = 404, description = "No such session or message, or the message has no event"),
        (status = 413, description = "The event is too large to be assembled"),
        (status = 500, description = "The message is damaged"),
    ))]
pub(crate) async fn event(SessionView { state, session, .. }: SessionView, SeqPath(seq): SeqPath) -> Result<Response, ApiError> {
    let missing = || ApiError(Refusal::new(Code::NotFound, "the message does not exist or has no event"));
    let damaged = || StoreError::Damaged(format!("message {seq} or another fragment of its event is damaged"));
    let before = seq.checked_sub(1).ok_or_else(missing)?;
    let messages = &state.store.messages;
    let page = messages.read(&session, before, ReadLimit { messages: 1, bytes: 1 }).await.report(&state)?;
    let stored = page.first().ok_or_else(missing)?;
    if stored.is_gap() {
        return Err(state.report(damaged()).into());
    }
    let message = serde_json::from_slice::<Message<'_>>(&stored.line).map_err(|_| missing())?;
    let (index, total) = message.piece().unwrap_or((0, 1));
    let mut last = u64::try_from(index).ok().and_then(|index| before.checked_sub(index)).ok_or_else(missing)?;
    let end = u64::try_from(total).ok().and_then(|total| last.checked_add(total)).ok_or_else(missing)?;
    let mut events = Events::of_at_most(MAX_EVENT_BYTES);
    let mut bytes = 0;
    while last < end && bytes <= 2 * MAX_EVENT_BYTES {
        let page = messages.read(&session, last, PAGE).await.report(&state)?;
        let Some(page_end) = page.last().map(|stored| stored.seq) else { break };
        for stored in page.iter().take_while(|stored| stored.seq <= end) {
            bytes += stored.line.len();
            if stored.is_gap() {
                return Err(state.report(damaged()).into());
            }
            let Ok(message) = serde_json::from_slice::<Message<'_>>(&stored.line) else { continue };
            let json = events.message(&message, |event| {
                let mut json = Vec::new();
                event.write_json(&mut json);
                json
            });
            if let Some(json) = json {
                return Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response());
            }
        }
        last = page_end;
    }
    if events.left_out() > 0 {
        let message = format!("the event exceeds {MAX_EVENT_BYTES} bytes; the log of the session has its fragments");
        return Err(Refusal::new(Code::TooLarge, message).into());
    }
    Err(missing())
}

/// Returns a line of the agent's output, if the hub has it.
#[utoipa::path(get, path = "/v1/sessions/{session}/lines/{number}", operation_id = "getLine", tag = "sessions",
    params(SessionPath, SeqPath),
    responses(
        (status = 200, description = "The line", body = String, content_type = "text/plain"), SessionErrors,
        (status = 404, description = "No such session or line, or it is only on the machine of the runner"),
    ))]
pub(crate) async fn line(
    SessionView { state, session, .. }: SessionView,
    SeqPath(number): SeqPath,
) -> Result<Response, ApiError> {
    state.store.sessions.session(&session).await.report(&state)?.ok_or(NotFound)?;
    let missing = |message: &str| Err(Refusal::new(Code::NotFound, message).into());
    match state.store.messages.raw_line(&session, number).await.report(&state)? {
        RawLineLookup::Found(line) => Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], line).into_response()),
        RawLineLookup::Missing => missing("no such line"),
        RawLineLookup::NotStored => {
            missing("raw lines stay with the runner; hint: on its machine, `sabir show ID --raw` prints those of a run")
        }
    }
}
