//! The same by HTTP.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::batch::HEAD;
use sabir_protocol::{
    BATCH_TYPE, Code, EPOCH_HEADER, FromHub, FromShell, Hello, Order, Refusal, SessionId, Taken, VERSION, VERSION_HEADER,
    WRITER_HEADER, Welcome,
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{check_hello, check_writer, fit_welcome, ready, settle, version};
use crate::api::{After, log_after};
use crate::audit::Entry;
use crate::auth::Deed;
use crate::clock::now;
use crate::hub::{Asker, Hub, Named, Refused, Shared, malformed};
use crate::openapi::Refusals;
use crate::store::{AppendResult, OpenResult};

/// Nobody waits longer for an order.
const LONGEST_WAIT: u64 = 55;
/// Text frames are small.
const TEXT: usize = 256 << 10;

fn check_version(headers: &HeaderMap) -> Result<(), Refused> {
    let spoken = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    let known = spoken.is_some_and(|spoken| spoken.split(',').any(|one| one.trim() == "1"));
    if known { Ok(()) } else { Err(version().into()) }
}

fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    (status, [(VERSION_HEADER, VERSION.to_string())], Json(value)).into_response()
}

/// The body of a request, if it comes in time and is not too large.
pub(crate) async fn body(hub: &Hub, body: Body, limit: usize) -> Result<Bytes, Refused> {
    let read = timeout(3 * hub.limits.patience, to_bytes(body, limit)).await;
    match read {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Refusal::new(Code::TooLarge, format!("a body has at most {limit} bytes, and comes whole")).into()),
        Err(_) => Err(Refusal::new(Code::Unavailable, "the body did not come in time").into()),
    }
}

/// Says who writes, and asks what is known.
#[utoipa::path(
    post,
    path = "/v1/shells/{session}/hello",
    operation_id = "shellHello",
    tag = "shells",
    params(("session" = String, Path, description = "The session"), ("Sabir-Protocol" = u32, Header, description = "1")),
    request_body(content = Object, description = "A hello of docs/shell-protocol.md"),
    responses(
        (status = 200, description = "A welcome", body = Object),
        (status = 400, description = "Not a hello"),
        (status = 409, description = "Somebody else writes this session"),
        (status = 413, description = "Too large"),
        (status = 426, description = "No version that both speak"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn hello(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    request: Body,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    check_version(&headers)?;
    let text = body(&hub, request, TEXT).await?;
    let hello: Hello = match serde_json::from_slice(&text) {
        Ok(FromShell::Hello(hello)) => hello,
        _ => return Err(malformed("the body is not a hello")),
    };
    check_hello(&hello, &session)?;
    match hub.write()?.messages.open_session(hello, false).await.map_err(|trouble| hub.trouble(trouble))? {
        OpenResult::Welcome { epoch, last, commands: mut orders, .. } => {
            fit_welcome(&mut orders);
            let heartbeat_seconds = u32::try_from(hub.limits.heartbeat.as_secs().max(1)).unwrap_or(u32::MAX);
            let max_batch_bytes = u32::try_from(hub.limits.batch_bytes).unwrap_or(u32::MAX);
            let welcome = Welcome { epoch, last, heartbeat_seconds, max_batch_bytes, orders };
            Ok(answer(StatusCode::OK, &FromHub::Welcome(welcome)))
        }
        OpenResult::Refused(refusal) => {
            hub.counts.refused.add(1);
            Err(refusal.into())
        }
    }
}

/// Takes one batch.
#[utoipa::path(
    post,
    path = "/v1/shells/{session}/batches",
    operation_id = "shellBatch",
    tag = "shells",
    params(
        ("session" = String, Path, description = "The session"),
        ("Sabir-Protocol" = u32, Header, description = "1"),
        ("Sabir-Writer" = String, Header, description = "Who writes"),
        ("Sabir-Epoch" = u32, Header, description = "In which epoch"),
    ),
    request_body(content = Vec<u8>, description = "A batch of docs/shell-protocol.md", content_type = "application/x-sabir-batch"),
    responses(
        (status = 200, description = "An ack: it is durable", body = Object),
        (status = 400, description = "Not a batch"),
        (status = 409, description = "A gap, or somebody else writes this session", body = Object),
        (status = 413, description = "Too large"),
        (status = 426, description = "No version that both speak"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn batches(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    request: Body,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    check_version(&headers)?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::CONTENT_TYPE.as_str()).is_none_or(|kind| kind.split(';').next().map(str::trim) != Some(BATCH_TYPE)) {
        return Err(malformed(format_args!("the content type of a batch is {BATCH_TYPE}")));
    }
    let writer = text(WRITER_HEADER).ok_or_else(|| malformed("there is no Sabir-Writer"))?.to_owned();
    check_writer(&writer)?;
    let epoch = text(EPOCH_HEADER).and_then(|epoch| epoch.parse().ok()).filter(|epoch| *epoch > 0);
    let epoch = epoch.ok_or_else(|| malformed("Sabir-Epoch is a number from 1"))?;
    let frame = body(&hub, request, hub.limits.batch_bytes + HEAD).await?;
    let batch = ready(&hub, &frame, &session, &writer, epoch).await?;
    let appended = hub.write()?.messages.append(batch.append.clone()).await;
    drop(batch.room);
    match settle(&hub, &batch.append, appended)? {
        AppendResult::Stored { last, .. } => Ok(answer(StatusCode::OK, &FromHub::Ack { last })),
        AppendResult::Gap { expected } => Ok(answer(StatusCode::CONFLICT, &FromHub::Gap { expected })),
        AppendResult::Refused(refusal) => Err(refusal.into()),
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Waiting {
    /// Orders after this number.
    #[serde(default)]
    after: u64,
    /// How many seconds to wait for one.
    #[serde(default)]
    wait: u64,
}

#[derive(Debug, Serialize)]
struct Orders {
    orders: Vec<Order>,
}

/// Orders for a shell, that are not dealt with yet.
#[utoipa::path(
    get,
    path = "/v1/shells/{session}/orders",
    operation_id = "shellOrders",
    tag = "shells",
    params(
        ("session" = String, Path, description = "The session"),
        ("Sabir-Protocol" = u32, Header, description = "1"),
        Waiting,
    ),
    responses(
        (status = 200, description = "The orders, none when none came in time", body = Object),
        (status = 400, description = "Not a number"),
        (status = 426, description = "No version that both speak"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn orders(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    query: Result<Query<Waiting>, QueryRejection>,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    check_version(&headers)?;
    let Query(Waiting { after, wait }) = query.map_err(|error| malformed(error.body_text()))?;
    let head = hub.store.messages.watch(&session).await.map_err(|trouble| hub.trouble(trouble))?;
    let look = async {
        // Nobody can have put an order to a session that is not known.
        let Some(mut head) = head else {
            return if wait == 0 { Ok(Vec::new()) } else { std::future::pending().await };
        };
        loop {
            // First how far orders go, then the orders: one that comes in between is not waited for.
            let known = head.borrow_and_update().last_command;
            let placed = hub.write()?.commands.commands(&session, after).await.map_err(|trouble| hub.trouble(trouble))?;
            let orders: Vec<Order> =
                placed.into_iter().filter(|placed| placed.outcome.is_none()).map(|placed| placed.command).collect();
            if !orders.is_empty() || wait == 0 {
                return Ok(orders);
            }
            if head.wait_for(|head| head.last_command > known).await.is_err() {
                return Ok(orders);
            }
        }
    };
    let orders: Result<Vec<Order>, Refusal> = tokio::select! {
        orders = look => orders,
        refusal = hub.stopping() => Err(refusal),
        refusal = hub.gate.turned_away(&asker.visitor) => Err(refusal),
        () = tokio::time::sleep(Duration::from_secs(wait.clamp(1, LONGEST_WAIT))) => Ok(Vec::new()),
    };
    Ok(answer(StatusCode::OK, &Orders { orders: orders? }))
}

/// The log as the hub has it, for a shell that goes on where another one wrote.
#[utoipa::path(
    get,
    path = "/v1/shells/{session}/log",
    operation_id = "shellLog",
    tag = "shells",
    params(
        ("session" = String, Path, description = "The session"),
        ("Sabir-Protocol" = u32, Header, description = "1"),
        After,
    ),
    responses(
        (status = 200, description = "The messages that there are", body = String, content_type = "application/x-ndjson"),
        (status = 400, description = "Not an id, or not a number"),
        (status = 404, description = "There is no such session"),
        (status = 426, description = "No version that both speak"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn log(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    check_version(&headers)?;
    log_after(hub, asker, session, after, true).await
}

/// Hears what became of an order.
#[utoipa::path(
    post,
    path = "/v1/shells/{session}/taken",
    operation_id = "shellTaken",
    tag = "shells",
    params(("session" = String, Path, description = "The session"), ("Sabir-Protocol" = u32, Header, description = "1")),
    request_body(content = Object, description = "A taken of docs/shell-protocol.md"),
    responses(
        (status = 200, description = "It is noted", body = Object),
        (status = 400, description = "Not a taken"),
        (status = 413, description = "Too large"),
        (status = 426, description = "No version that both speak"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn taken(
    State(hub): State<Shared>,
    asker: Asker,
    Named(session): Named,
    headers: HeaderMap,
    request: Body,
) -> Result<Response, Refused> {
    asker.may(Deed::Write(&session))?;
    check_version(&headers)?;
    let text = body(&hub, request, TEXT).await?;
    let Ok(FromShell::Taken(taken)) = serde_json::from_slice(&text) else { return Err(malformed("the body is not a taken")) };
    let number = taken.order;
    take(&hub, &session, taken).await?;
    Ok(answer(StatusCode::OK, &serde_json::json!({ "order": number })))
}

/// Notes what became of an order.
pub(super) async fn take(hub: &Hub, session: &SessionId, mut taken: Taken) -> Result<(), Refusal> {
    if let Some(reason) = taken.reason.take() {
        taken.reason = Some(reason.chars().take(2_000).collect());
    }
    let (order, accepted) = (taken.order, taken.accepted);
    // An order that is not known is nobody's, and one that was dealt with stays as it is: neither is a reason to stop a shell.
    if hub.write()?.commands.resolve_command(session, taken, now()).await.map_err(|trouble| hub.trouble(trouble))? {
        let session = Some(session.as_str());
        let entry =
            Entry { who: "shell", what: "taken", session, order: Some(order), accepted: Some(accepted), ..Entry::default() };
        crate::control::noted(hub, hub.audit.note(&entry).await);
    }
    Ok(())
}
