//! Lists of sessions, and one of them: in short, its results, its log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use futures_util::stream;
use sabir_core::fold::{Overview, Phase, SessionResult};
use sabir_core::time::Timestamp;
use sabir_core::view::envelope::overview::{LogResults, Omitted};
use sabir_protocol::{Code, Refusal, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Deed;
use crate::error::StoreError;
use crate::hub::{Asker, Hub, Named, Peer, Refused, Shared, malformed};
use crate::openapi::Refusals;
use crate::store::{ReadLimit, SessionFilter, SessionRecord, StoredMessage};

/// So many sessions are on a page when nobody says how many.
const PAGE: usize = 50;
const LONGEST_PAGE: usize = 500;
/// So many bytes of turns, tool calls and file changes are in the results of a session.
const RESULTS: usize = 8 << 20;
/// Whether the hub can do its work is looked at no more often.
const HEALTH: Duration = Duration::from_secs(1);
/// So much of a log is read at once.
const CHUNK: ReadLimit = ReadLimit { messages: 2_048, bytes: 512 << 10 };

/// A session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shape {
    /// Its id.
    #[schema(value_type = String)]
    session: SessionId,
    /// Whether its shell is connected now.
    connected: bool,
    /// The number of the last message.
    last: u64,
    /// Up to which message `overview` goes.
    folded: u64,
    /// What it does, used and cost.
    #[schema(value_type = Object)]
    overview: Overview,
    /// The name of the shell.
    shell: Option<String>,
    /// The kinds of orders that the shell can deal with.
    takes: Vec<String>,
    /// When it was first heard of.
    #[schema(value_type = String, format = DateTime)]
    created: Timestamp,
    /// When something last came.
    #[schema(value_type = String, format = DateTime)]
    updated: Timestamp,
    /// What of it can't be read any more; figures in `overview` are then of the rest.
    damaged: Option<String>,
}

impl Shape {
    pub(crate) fn of(hub: &Hub, session: SessionRecord) -> Self {
        let (session, connected) = hub.live.freshen(session);
        Self { connected, ..Self::alone(session) }
    }

    /// A session that no hub has.
    pub(crate) fn alone(session: SessionRecord) -> Self {
        let SessionRecord { id: session, last, folded, overview, runner: shell, accepts: takes, created, updated, damage } =
            session;
        let gaps = overview.gaps;
        let damaged = damage.or_else(|| (gaps > 0).then(|| format!("{gaps} of its messages are damaged")));
        Self { session, connected: false, last, folded, overview, shell, takes, created, updated, damaged }
    }
}

/// Some sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sessions {
    /// The newest first.
    sessions: Vec<Shape>,
    /// The `cursor` of the next page, if there is one.
    next: Option<String>,
}

/// Which sessions are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Choice {
    /// Of this agent.
    agent: Option<String>,
    /// `starting`, `running`, `asking`, `success`, `error`, `cancelled`, `timeout` or `incomplete`.
    status: Option<String>,
    /// Of this workspace.
    workspace: Option<String>,
    /// Something came since this time, RFC 3339.
    since: Option<String>,
    /// Whose id starts so.
    prefix: Option<String>,
    /// A message has all of these words, and phrases between double quotes.
    text: Option<String>,
    /// How many; at most 500.
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

impl Choice {
    fn filter(self) -> Result<SessionFilter, Refused> {
        let phase = |word: String| {
            let found = Phase::ALL.into_iter().find(|phase| phase.as_str() == word);
            found.ok_or_else(|| malformed("there is no such status"))
        };
        let time = |text: String| Timestamp::parse(&text).ok_or_else(|| malformed("since is a time as in RFC 3339"));
        let cursor = |text: String| text.parse().map_err(|_| malformed("cursor is what the page before gave"));
        Ok(SessionFilter {
            agent: self.agent,
            phase: self.status.map(phase).transpose()?,
            workspace: self.workspace,
            since: self.since.map(time).transpose()?,
            prefix: self.prefix,
            text: self.text,
            limit: self.limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE),
            cursor: self.cursor.map(cursor).transpose()?,
        })
    }
}

/// Sessions, the newest first.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    operation_id = "listSessions",
    tag = "sessions",
    params(Choice),
    responses(
        (status = 200, description = "Some sessions", body = Sessions),
        (status = 400, description = "A value can't be read"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn sessions(
    State(hub): State<Shared>,
    asker: Asker,
    choice: Result<Query<Choice>, QueryRejection>,
) -> Result<Json<Sessions>, Refused> {
    asker.may(Deed::See)?;
    let Query(choice) = choice.map_err(|error| malformed(error.body_text()))?;
    let page = hub.store.sessions.sessions(choice.filter()?).await.map_err(|trouble| hub.trouble(trouble))?;
    let sessions = page.sessions.into_iter().map(|session| Shape::of(&hub, session)).collect();
    Ok(Json(Sessions { sessions, next: page.next.map(|next| next.to_string()) }))
}

/// The agents that there are sessions of.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Agents {
    /// Their names, in order.
    agents: Vec<String>,
}

/// The agents that there are sessions of.
#[utoipa::path(
    get,
    path = "/v1/agents",
    operation_id = "listAgents",
    tag = "sessions",
    responses((status = 200, description = "Their names", body = Agents), Refusals),
    security(("token" = []))
)]
pub(crate) async fn agents(State(hub): State<Shared>, asker: Asker) -> Result<Json<Agents>, Refused> {
    asker.may(Deed::See)?;
    let agents = hub.store.sessions.agents().await.map_err(|trouble| hub.trouble(trouble))?;
    Ok(Json(Agents { agents }))
}

/// One session.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}",
    operation_id = "getSession",
    tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "The session", body = Shape),
        (status = 400, description = "Not an id"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn session(State(hub): State<Shared>, asker: Asker, Named(id): Named) -> Result<Json<Shape>, Refused> {
    asker.may(Deed::See)?;
    let session = hub.store.sessions.session(&id).await.map_err(|trouble| hub.trouble(trouble))?;
    Ok(Json(Shape::of(&hub, session.ok_or(Code::NotFound)?)))
}

/// What the runs of a session came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Results {
    /// The session.
    #[schema(value_type = String)]
    session: SessionId,
    /// Up to which message.
    last: u64,
    /// One `sabir.result/1` for each run, the last run last.
    #[schema(value_type = Vec<Object>)]
    runs: Vec<SessionResult>,
    /// The numbers of the first and the last of messages that are damaged: what they said is missing in the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<[u64; 2]>,
    /// How many entries of the lists in the results are left out, where those would be too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    omitted: Option<Omitted>,
}

/// What the runs of a session came to: answer, tokens, cost, tool calls, files.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/result",
    operation_id = "getResults",
    tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "The results so far", body = Results),
        (status = 400, description = "Not an id"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn result(State(hub): State<Shared>, asker: Asker, Named(id): Named) -> Result<Json<Results>, Refused> {
    asker.may(Deed::See)?;
    let length = hub.store.messages.last_seq(&id).await.map_err(|trouble| hub.trouble(trouble))?.ok_or(Code::NotFound)?;
    // A result takes some memory, so few are made at the same time.
    let _turn = hub.results.acquire().await.map_err(|_| Refusal::new(Code::Unavailable, "the hub is about to stop"))?;
    let mut results = LogResults::of_at_most(RESULTS);
    let mut gaps: Vec<[u64; 2]> = Vec::new();
    let mut at = 0;
    while at < length {
        let page = hub.store.messages.read(&id, at, CHUNK).await.map_err(|trouble| hub.trouble(trouble))?;
        let Some(last) = page.last().map(|stored| stored.seq) else { break };
        for stored in &page {
            results.message(&stored.line);
            match gaps.last_mut() {
                _ if !stored.is_gap() => {}
                Some([_, end]) if *end + 1 == stored.seq => *end = stored.seq,
                _ => gaps.push([stored.seq, stored.seq]),
            }
        }
        at = last;
    }
    let (runs, omitted) = results.finish();
    let omitted = Some(omitted).filter(|omitted| *omitted != Omitted::default());
    Ok(Json(Results { session: id, last: at, runs, gaps, omitted }))
}

/// From where on.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Messages after this number
    #[serde(default)]
    after: u64,
}

/// The log of a session: its messages, one on each line.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/log",
    operation_id = "getLog",
    tag = "sessions",
    params(("session" = String, Path, description = "The session"), After),
    responses(
        (status = 200, description = "The messages that there are", body = String, content_type = "application/x-ndjson"),
        (status = 400, description = "Not an id, or not a number"),
        (status = 404, description = "There is no such session"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn log(
    State(hub): State<Shared>,
    asker: Asker,
    Named(id): Named,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Response, Refused> {
    asker.may(Deed::See)?;
    log_after(hub, asker, id, after, false).await
}

/// The answer that is the log of a session. For who is to go on with it, it breaks off at a message that is damaged; else
/// there is a gap in its place.
pub(crate) async fn log_after(
    hub: Shared,
    asker: Asker,
    id: SessionId,
    after: Result<Query<After>, QueryRejection>,
    undamaged: bool,
) -> Result<Response, Refused> {
    let Query(After { after }) = after.map_err(|error| malformed(error.body_text()))?;
    let length = hub.store.messages.last_seq(&id).await.map_err(|trouble| hub.trouble(trouble))?.ok_or(Code::NotFound)?;
    let disposition = format!("attachment; filename=\"{}.jsonl\"", id.in_address());
    // It ends where the log ended when it was asked for, also when more comes meanwhile.
    let pages = stream::try_unfold((Arc::clone(&hub), id, after), move |(hub, id, at)| async move {
        if at >= length {
            return Ok(None);
        }
        let mut page = hub.store.messages.read(&id, at, CHUNK).await.map_err(|trouble| hub.trouble(trouble))?;
        page.retain(|stored| stored.seq <= length);
        if undamaged && page.iter().any(StoredMessage::is_gap) {
            return Err(hub.trouble(StoreError::Damaged(format!("a message of session {} is damaged", id.as_str()))));
        }
        let Some(last) = page.last().map(|stored| stored.seq) else { return Ok(None) };
        let bytes = page.iter().flat_map(|stored| [stored.line.as_ref(), b"\n"]).collect::<Vec<_>>().concat();
        Ok::<_, sabir_protocol::Refusal>(Some((Bytes::from(bytes), (hub, id, last))))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, hub.body(asker, pages)).into_response())
}

/// Whether the hub can do its work, and nothing that it keeps is damaged.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "getHealth",
    tag = "hub",
    responses(
        (status = 200, description = "It can", body = String, content_type = "text/plain"),
        (status = 429, description = "Too many requests"),
        (status = 503, description = "It can't, something is damaged, or it is about to stop; the answer says which"),
    )
)]
pub(crate) async fn health(State(hub): State<Shared>, peer: Option<Extension<Peer>>) -> Result<&'static str, Refused> {
    let address = peer.map(|Extension(peer)| peer.address.to_string()).unwrap_or_default();
    // Who checks the health of the hub is not kept from it by others who guess tokens from the same address.
    hub.pace.step(&format!("{address} health"))?;
    if *hub.stop.borrow() {
        return Err(hub.stopping().await.into());
    }
    // Anybody may ask, and each look writes to the disk.
    let mut known = hub.health.lock().await;
    let health = match &*known {
        Some((at, health)) if at.elapsed() < HEALTH => health.clone(),
        _ => {
            let health = hub.store.sessions.health().await.map_err(|trouble| {
                let _ = hub.trouble(trouble);
                "the store can't be read or written".to_owned()
            });
            let health = health.and_then(|damage| {
                if damage.is_empty() { Ok(()) } else { Err(format!("{}; `sabir hub verify` says where", damage.join(", "))) }
            });
            known.insert((Instant::now(), health)).1.clone()
        }
    };
    health.map(|()| "ok\n").map_err(|reason| Refusal::new(Code::Unavailable, reason).into())
}
