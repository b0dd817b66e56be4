//! One event of a session, and one line that its agent printed.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use sabir_core::view::envelope::read::{Events, Message};
use sabir_protocol::{Code, Refusal};

use crate::auth::Deed;
use crate::error::StoreError;
use crate::hub::{Asker, Named, Numbered, Refused, Shared};
use crate::openapi::Refusals;
use crate::store::{RawLineLookup, ReadLimit};

/// No longer event is put together.
const LONGEST: usize = 16 << 20;
/// So much is read at once.
const PAGE: ReadLimit = ReadLimit { messages: 256, bytes: 1 << 20 };

/// The event in a message, whole: of a long one any fragment will do.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/events/{number}",
    operation_id = "getEvent",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "The session"),
        ("number" = u64, Path, description = "The number of the message"),
    ),
    responses(
        (status = 200, description = "The event, as docs/events.md has it", body = Object),
        (status = 400, description = "Not a number"),
        (status = 404, description = "There is no such message, or there is no event in it"),
        (status = 413, description = "The event is too long to be put together"),
        (status = 500, description = "The message is damaged"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn event(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    Numbered(number): Numbered,
) -> Result<Response, Refused> {
    asker.may(Deed::See)?;
    let none = || Refused(Refusal::new(Code::NotFound, "there is no event in this message"));
    let before = number.checked_sub(1).ok_or_else(none)?;
    let trouble = |trouble| hub.trouble(trouble);
    let one = hub.store.messages.read(&session, before, ReadLimit { messages: 1, bytes: 1 }).await.map_err(trouble)?;
    let line = one.first().ok_or_else(none)?;
    let damaged = || Refused(hub.trouble(StoreError::Damaged(format!("message {number} or a part of its event is damaged"))));
    if line.is_gap() {
        return Err(damaged());
    }
    let message = serde_json::from_slice::<Message<'_>>(&line.line).map_err(|_| none())?;
    let (index, total) = message.piece().unwrap_or((0, 1));
    let mut at = u64::try_from(index).ok().and_then(|index| before.checked_sub(index)).ok_or_else(none)?;
    let end = u64::try_from(total).ok().and_then(|total| at.checked_add(total)).ok_or_else(none)?;
    let mut events = Events::of_at_most(LONGEST);
    let mut read = 0;
    while at < end && read <= 2 * LONGEST {
        let page = hub.store.messages.read(&session, at, PAGE).await.map_err(trouble)?;
        let Some(last) = page.last().map(|stored| stored.seq) else { break };
        for stored in page.iter().take_while(|stored| stored.seq <= end) {
            read += stored.line.len();
            if stored.is_gap() {
                return Err(damaged());
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
        at = last;
    }
    if events.left_out() > 0 {
        let what = format!("the event is longer than {LONGEST} bytes; the log of the session has its pieces");
        return Err(Refusal::new(Code::TooLarge, what).into());
    }
    Err(none())
}

/// A line that the agent printed, as it did, where that is at hand.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/lines/{number}",
    operation_id = "getLine",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "The session"),
        ("number" = u64, Path, description = "The number of the line, from 1"),
    ),
    responses(
        (status = 200, description = "The line", body = String, content_type = "text/plain"),
        (status = 400, description = "Not a number"),
        (status = 404, description = "There is no such session or line, or it stayed where the agent ran"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn line(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    Numbered(number): Numbered,
) -> Result<Response, Refused> {
    asker.may(Deed::See)?;
    let known = hub.store.sessions.session(&session).await.map_err(|trouble| hub.trouble(trouble))?;
    known.ok_or(Code::NotFound)?;
    let found = hub.store.messages.raw_line(&session, number).await.map_err(|trouble| hub.trouble(trouble))?;
    let missing = |what: &str| Err(Refused(Refusal::new(Code::NotFound, what)));
    match found {
        RawLineLookup::Found(line) => Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], line).into_response()),
        RawLineLookup::Missing => missing("there is no such line"),
        RawLineLookup::NotStored => {
            missing("raw lines stay with the shell; hint: on that machine, `sabir show ID --raw` prints those of a run")
        }
    }
}
