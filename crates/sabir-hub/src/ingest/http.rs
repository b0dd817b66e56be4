//! Runner protocol over HTTP, for runners that cannot open a WebSocket.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sabir_protocol::batch::HEAD;
use sabir_protocol::{BATCH_TYPE, EPOCH_HEADER, FromHub, FromShell, Order, Refusal, VERSION, VERSION_HEADER, WRITER_HEADER};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{check_batch, check_writer, finish_append, open, resolve_command, unsupported_version};
use crate::error::{ApiError, malformed};
use crate::extract::{ApiJson, ApiQuery, Runner, SessionPath, read_body};
use crate::openapi::RunnerErrors;
use crate::sessions::{LogQuery, log_response};
use crate::state::{ReportError as _, SharedState};
use crate::store::AppendResult;

/// Maximum time in seconds that a request waits for commands.
const MAX_WAIT_SECONDS: u64 = 55;
/// Maximum size of a JSON body.
const MAX_BODY: usize = 256 << 10;

/// A runner that supports this version of the protocol.
#[derive(IntoParams)]
#[into_params(names("Sabir-Protocol"), parameter_in = Header)]
pub(crate) struct HttpRunner(
    /// Protocol versions that the runner supports: 1
    #[param(value_type = u32)]
    Runner,
);

impl FromRequestParts<SharedState> for HttpRunner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        let runner = Runner::from_request_parts(parts, state).await?;
        let versions = parts.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        let is_supported = versions.is_some_and(|versions| versions.split(',').any(|version| version.trim() == "1"));
        if is_supported { Ok(Self(runner)) } else { Err(unsupported_version().into()) }
    }
}

fn response(status: StatusCode, value: &impl Serialize) -> Response {
    (status, [(VERSION_HEADER, VERSION.to_string())], Json(value)).into_response()
}

/// Opens a session for writing.
#[utoipa::path(post, path = "/v1/runners/{session}/hello", operation_id = "runnerHello", tag = "runners",
    params(SessionPath, HttpRunner),
    request_body(content = Object, description = "A hello, see docs/shell-protocol.md"),
    responses(
        (status = 200, description = "A welcome", body = Object),
        (status = 409, description = "Another runner writes this session"),
        (status = 413, description = "The body is too large"), RunnerErrors,
    ))]
pub(crate) async fn hello(
    HttpRunner(runner): HttpRunner,
    ApiJson(frame): ApiJson<FromShell, MAX_BODY>,
) -> Result<Response, ApiError> {
    let FromShell::Hello(hello) = frame else { return Err(malformed("the body must be a hello")) };
    let welcome = open(&runner, hello, false).await?.welcome;
    Ok(response(StatusCode::OK, &FromHub::Welcome(welcome)))
}

/// Appends a batch of messages.
#[utoipa::path(post, path = "/v1/runners/{session}/batches", operation_id = "runnerBatch", tag = "runners",
    params(
        SessionPath, HttpRunner,
        ("Sabir-Writer" = String, Header, description = "Id of the writing runner"),
        ("Sabir-Epoch" = u32, Header, description = "Epoch of the writing runner"),
    ),
    request_body(content = Vec<u8>, description = "A batch, see docs/shell-protocol.md", content_type = "application/x-sabir-batch"),
    responses(
        (status = 200, description = "An ack: the messages are durable", body = Object),
        (status = 409, description = "Messages are missing, or another runner writes this session", body = Object),
        (status = 413, description = "The batch is too large"), RunnerErrors,
    ))]
pub(crate) async fn batches(HttpRunner(runner): HttpRunner, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::CONTENT_TYPE.as_str()).is_none_or(|kind| kind.split(';').next().map(str::trim) != Some(BATCH_TYPE)) {
        return Err(malformed(format_args!("the content type of a batch is {BATCH_TYPE}")));
    }
    let writer = text(WRITER_HEADER).ok_or_else(|| malformed("missing Sabir-Writer"))?;
    check_writer(writer)?;
    let epoch = text(EPOCH_HEADER).and_then(|epoch| epoch.parse().ok()).filter(|epoch| *epoch > 0);
    let epoch = epoch.ok_or_else(|| malformed("Sabir-Epoch must be a number from 1"))?;
    let frame = read_body(&runner.state, body, runner.state.limits.batch_bytes + HEAD).await?;
    let batch = check_batch(&runner, &frame, writer, epoch).await?;
    let result = runner.store.messages.append(batch.request.clone()).await;
    drop(batch.memory);
    match finish_append(&runner.state, &batch.request, result)? {
        AppendResult::Stored { last, .. } => Ok(response(StatusCode::OK, &FromHub::Ack { last })),
        AppendResult::Gap { expected } => Ok(response(StatusCode::CONFLICT, &FromHub::Gap { expected })),
        AppendResult::Refused(refusal) => Err(refusal.into()),
    }
}

/// Commands that a runner has not received.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PendingQuery {
    /// Only commands after this number.
    #[serde(default)]
    after: u64,
    /// Time in seconds to wait for a command.
    #[serde(default)]
    wait: u64,
}

#[derive(Debug, Serialize)]
struct PendingCommands {
    #[serde(rename = "orders")]
    commands: Vec<Order>,
}

/// Returns the pending commands of a session, and waits for one if requested.
#[utoipa::path(get, path = "/v1/runners/{session}/commands", operation_id = "runnerCommands", tag = "runners",
    params(SessionPath, HttpRunner, PendingQuery),
    responses((status = 200, description = "The commands; none after a timeout", body = Object), RunnerErrors))]
pub(crate) async fn commands(
    HttpRunner(Runner { state, client, session, store }): HttpRunner,
    ApiQuery(PendingQuery { after, wait }): ApiQuery<PendingQuery>,
) -> Result<Response, ApiError> {
    let head = state.store.messages.watch(&session).await.report(&state)?;
    let pending = async {
        // An unknown session has no commands, and cannot get any.
        let Some(mut head) = head else {
            return if wait == 0 { Ok(Vec::new()) } else { std::future::pending().await };
        };
        loop {
            // Read the head first, so that a command that is added in between is not missed.
            let last_command = head.borrow_and_update().last_command;
            let stored = store.commands.commands(&session, after).await.report(&state)?;
            let commands: Vec<Order> =
                stored.into_iter().filter(|stored| stored.outcome.is_none()).map(|stored| stored.command).collect();
            if !commands.is_empty() || wait == 0 {
                return Ok(commands);
            }
            if head.wait_for(|head| head.last_command > last_command).await.is_err() {
                return Ok(commands);
            }
        }
    };
    let commands: Result<Vec<Order>, Refusal> = tokio::select! {
        commands = pending => commands,
        refusal = state.stopping() => Err(refusal),
        refusal = state.authenticator.until_revoked(&client.principal) => Err(refusal),
        () = tokio::time::sleep(Duration::from_secs(wait.clamp(1, MAX_WAIT_SECONDS))) => Ok(Vec::new()),
    };
    Ok(response(StatusCode::OK, &PendingCommands { commands: commands? }))
}

/// Returns the messages of a session, for a runner that resumes it on another machine.
#[utoipa::path(get, path = "/v1/runners/{session}/log", operation_id = "runnerLog", tag = "runners",
    params(SessionPath, HttpRunner, LogQuery),
    responses(
        (status = 200, description = "The messages so far", body = String, content_type = "application/x-ndjson"),
        (status = 404, description = "No such session"), RunnerErrors,
    ))]
pub(crate) async fn log(
    HttpRunner(Runner { state, client, session, .. }): HttpRunner,
    ApiQuery(query): ApiQuery<LogQuery>,
) -> Result<Response, ApiError> {
    log_response(state, client, session, query, true).await
}

/// Stores the outcome of a command.
#[utoipa::path(post, path = "/v1/runners/{session}/taken", operation_id = "runnerTaken", tag = "runners",
    params(SessionPath, HttpRunner),
    request_body(content = Object, description = "A taken, see docs/shell-protocol.md"),
    responses(
        (status = 200, description = "The outcome is stored", body = Object),
        (status = 413, description = "The body is too large"), RunnerErrors,
    ))]
pub(crate) async fn taken(
    HttpRunner(runner): HttpRunner,
    ApiJson(frame): ApiJson<FromShell, MAX_BODY>,
) -> Result<Response, ApiError> {
    let FromShell::Taken(taken) = frame else { return Err(malformed("the body must be a taken")) };
    let number = taken.order;
    resolve_command(&runner, taken).await?;
    Ok(response(StatusCode::OK, &serde_json::json!({ "order": number })))
}
