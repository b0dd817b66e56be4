//! Listings of sessions, and one session: its record, results and log.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use sabir_core::fold::{Overview, Phase, SessionResult};
use sabir_core::time::Timestamp;
use sabir_protocol::envelope::overview::{LogResults, Omitted};
use sabir_protocol::{Refusal, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, NotFound, StoreError, malformed};
use crate::extract::{ApiQuery, Authenticated, SessionPath, SessionView, Viewer};
use crate::openapi::{CommonErrors, SessionErrors};
use crate::state::{AppState, ReportError as _, SharedState, stopping};
use crate::store::{ReadLimit, SessionFilter, SessionRecord, StoredMessage};

/// Default and maximum number of sessions per page.
const DEFAULT_PAGE: usize = 50;
const MAX_PAGE: usize = 500;
/// Limit of the turns, tool calls and file changes in the results of a session.
const MAX_RESULT_BYTES: usize = 8 << 20;
/// Size of one read of a log.
const CHUNK: ReadLimit = ReadLimit { messages: 2_048, bytes: 512 << 10 };

/// A session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionInfo {
    /// Session id.
    #[schema(value_type = String)]
    session: SessionId,
    /// Whether its runner is connected.
    connected: bool,
    /// Number of the last message.
    last: u64,
    /// Number of the last message that `overview` covers.
    folded: u64,
    /// State, usage and cost.
    #[schema(value_type = Object)]
    overview: Overview,
    /// Name and version of the runner.
    shell: Option<String>,
    /// Kinds of commands that the runner accepts.
    takes: Vec<String>,
    /// Time of the first hello or message.
    #[schema(value_type = String, format = DateTime)]
    created: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated: Timestamp,
    /// Description of unreadable data, which `overview` does not include.
    damaged: Option<String>,
}

impl SessionInfo {
    /// A session with its live state.
    pub(crate) fn new(state: &AppState, record: SessionRecord) -> Self {
        let (record, connected) = state.live.refresh(record);
        Self { connected, ..Self::from(record) }
    }
}

impl From<SessionRecord> for SessionInfo {
    fn from(record: SessionRecord) -> Self {
        let SessionRecord { id, last, folded, overview, runner, accepts, created, updated, damage } = record;
        let gaps = overview.gaps;
        let damaged = damage.or_else(|| (gaps > 0).then(|| format!("{gaps} of its messages are damaged")));
        Self { session: id, connected: false, last, folded, overview, shell: runner, takes: accepts, created, updated, damaged }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// Sessions, newest first.
    sessions: Vec<SessionInfo>,
    /// `cursor` of the next page, if there is one.
    next: Option<String>,
}

/// Criteria of a listing.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionQuery {
    /// Name of the agent.
    agent: Option<String>,
    /// `starting`, `running`, `asking`, `success`, `error`, `cancelled`, `timeout` or `incomplete`.
    status: Option<String>,
    /// Workspace of the session.
    workspace: Option<String>,
    /// Earliest time of the last change, RFC 3339.
    since: Option<String>,
    /// Beginning of the id.
    prefix: Option<String>,
    /// Words, and phrases in double quotes, that one message must contain.
    text: Option<String>,
    /// Maximum number of sessions, at most 500.
    limit: Option<usize>,
    /// `next` of the previous page.
    cursor: Option<String>,
}

impl TryFrom<SessionQuery> for SessionFilter {
    type Error = ApiError;

    fn try_from(query: SessionQuery) -> Result<Self, ApiError> {
        let phase = |status: String| {
            let phase = Phase::ALL.into_iter().find(|phase| phase.as_str() == status);
            phase.ok_or_else(|| malformed(format_args!("invalid status `{status}`")))
        };
        let time = |text: String| {
            Timestamp::parse(&text).ok_or_else(|| malformed(format_args!("invalid time `{text}` in since: use RFC 3339")))
        };
        let cursor = |text: String| text.parse().map_err(|_| malformed("invalid cursor: use `next` of the previous page"));
        Ok(Self {
            agent: query.agent,
            phase: query.status.map(phase).transpose()?,
            workspace: query.workspace,
            since: query.since.map(time).transpose()?,
            prefix: query.prefix,
            text: query.text,
            limit: query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE),
            cursor: query.cursor.map(cursor).transpose()?,
        })
    }
}

/// Lists sessions, newest first.
#[utoipa::path(get, path = "/v1/sessions", operation_id = "listSessions", tag = "sessions",
    params(SessionQuery),
    responses(
        (status = 200, description = "A page of sessions", body = SessionList),
        (status = 400, description = "Invalid query"), CommonErrors,
    ))]
pub(crate) async fn list(
    State(state): State<SharedState>,
    _: Viewer,
    ApiQuery(query): ApiQuery<SessionQuery>,
) -> Result<Json<SessionList>, ApiError> {
    let page = state.store.sessions.sessions(query.try_into()?).await.report(&state)?;
    let sessions = page.sessions.into_iter().map(|session| SessionInfo::new(&state, session)).collect();
    Ok(Json(SessionList { sessions, next: page.next.map(|next| next.to_string()) }))
}

/// Agents with sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Agents {
    /// Names of the agents, sorted.
    agents: Vec<String>,
}

/// Lists the agents that have sessions.
#[utoipa::path(get, path = "/v1/agents", operation_id = "listAgents", tag = "sessions",
    responses((status = 200, description = "Names of the agents", body = Agents), CommonErrors))]
pub(crate) async fn agents(State(state): State<SharedState>, _: Viewer) -> Result<Json<Agents>, ApiError> {
    let agents = state.store.sessions.agents().await.report(&state)?;
    Ok(Json(Agents { agents }))
}

/// Returns one session.
#[utoipa::path(get, path = "/v1/sessions/{session}", operation_id = "getSession", tag = "sessions",
    params(SessionPath),
    responses((status = 200, description = "The session", body = SessionInfo), SessionErrors))]
pub(crate) async fn get(SessionView { state, session, .. }: SessionView) -> Result<Json<SessionInfo>, ApiError> {
    let session = state.store.sessions.session(&session).await.report(&state)?;
    Ok(Json(SessionInfo::new(&state, session.ok_or(NotFound)?)))
}

/// Results of the runs of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Results {
    /// Session id.
    #[schema(value_type = String)]
    session: SessionId,
    /// Number of the last message that the results cover.
    last: u64,
    /// A `sabir.result/1` for each run, in order.
    #[schema(value_type = Vec<Object>)]
    runs: Vec<SessionResult>,
    /// Ranges of damaged messages (first and last number), which the results do not include.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<[u64; 2]>,
    /// Number of list entries that are omitted because of their size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    omitted: Option<Omitted>,
}

/// Returns the results of a session's runs: answer, usage, cost, tool calls, files.
#[utoipa::path(get, path = "/v1/sessions/{session}/result", operation_id = "getResults", tag = "sessions",
    params(SessionPath),
    responses((status = 200, description = "The results so far", body = Results), SessionErrors))]
pub(crate) async fn results(SessionView { state, session: id, .. }: SessionView) -> Result<Json<Results>, ApiError> {
    let last = state.store.messages.last_seq(&id).await.report(&state)?.ok_or(NotFound)?;
    // Results take much memory, so few are computed at the same time.
    let _permit = state.result_permits.acquire().await.map_err(|_| stopping())?;
    let mut results = LogResults::of_at_most(MAX_RESULT_BYTES);
    let mut gaps: Vec<[u64; 2]> = Vec::new();
    let mut seq = 0;
    while seq < last {
        let page = state.store.messages.read(&id, seq, CHUNK).await.report(&state)?;
        let Some(end) = page.last().map(|message| message.seq) else { break };
        for message in &page {
            results.message(&message.line);
            match gaps.last_mut() {
                _ if !message.is_gap() => {}
                Some([_, end]) if *end + 1 == message.seq => *end = message.seq,
                _ => gaps.push([message.seq, message.seq]),
            }
        }
        seq = end;
    }
    let (runs, omitted) = results.finish();
    let omitted = Some(omitted).filter(|omitted| *omitted != Omitted::default());
    Ok(Json(Results { session: id, last: seq, runs, gaps, omitted }))
}

/// Start of a log.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// Only messages after this number.
    #[serde(default)]
    after: u64,
}

/// Returns the messages of a session, one per line.
#[utoipa::path(get, path = "/v1/sessions/{session}/log", operation_id = "getLog", tag = "sessions",
    params(SessionPath, LogQuery),
    responses(
        (status = 200, description = "The messages so far", body = String, content_type = "application/x-ndjson"),
        SessionErrors,
    ))]
pub(crate) async fn log(view: SessionView, ApiQuery(query): ApiQuery<LogQuery>) -> Result<Response, ApiError> {
    log_response(view.state, view.client, view.session, query, false).await
}

/// A response with the messages of a session. Damaged messages are replaced by gaps; with `undamaged`, the response is aborted
/// at the first one, because a runner cannot resume from a gap.
pub(crate) async fn log_response(
    state: SharedState,
    client: Authenticated,
    id: SessionId,
    LogQuery { after }: LogQuery,
    undamaged: bool,
) -> Result<Response, ApiError> {
    // The response ends here, even if messages are appended meanwhile.
    let last = state.store.messages.last_seq(&id).await.report(&state)?.ok_or(NotFound)?;
    let disposition = format!("attachment; filename=\"{}.jsonl\"", id.in_address());
    let chunks = stream::try_unfold((Arc::clone(&state), id, after), move |(state, id, seq)| async move {
        if seq >= last {
            return Ok(None);
        }
        let mut page = state.store.messages.read(&id, seq, CHUNK).await.report(&state)?;
        page.retain(|message| message.seq <= last);
        if undamaged && page.iter().any(StoredMessage::is_gap) {
            return Err(state.report(StoreError::Damaged(format!("a message of session {} is damaged", id.as_str()))));
        }
        let Some(end) = page.last().map(|message| message.seq) else { return Ok(None) };
        let bytes = page.iter().flat_map(|message| [message.line.as_ref(), b"\n"]).collect::<Vec<_>>().concat();
        Ok::<_, Refusal>(Some((Bytes::from(bytes), (state, id, end))))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, state.revocable_body(client, chunks)).into_response())
}
