//! Extractors for the client, the path, the query and the body of a request.
//!
//! They run in the order of a handler's arguments. Authentication goes first, so that a client without access learns nothing
//! else, and the body last, so that it is not read in vain.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use sabir_protocol::{Code, Refusal, SessionId};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use utoipa::IntoParams;

use crate::auth::{Permission, Principal};
use crate::error::{ApiError, malformed};
use crate::state::{AppState, SharedState};
use crate::store::WriteStore;

/// The connection of a request.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether the hub terminates TLS for this connection.
    pub(crate) tls: bool,
    /// The connection's share of the limit, held as long as any of its requests.
    pub(crate) permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Peer {
    /// The peer in the extensions of a request, which [`serve`](crate::serve()) sets.
    pub(crate) fn of(extensions: &axum::http::Extensions) -> Self {
        let unknown = || Self { address: IpAddr::from([0, 0, 0, 0]), tls: false, permit: None };
        extensions.get().cloned().unwrap_or_else(unknown)
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

/// Name of a client in the audit log; set once the request is authenticated.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientName(pub(crate) Arc<OnceLock<String>>);

/// A client without a token, within its rate limit.
pub(crate) struct Unauthenticated {
    pub(crate) address: String,
    pub(crate) tls: bool,
}

impl FromRequestParts<SharedState> for Unauthenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        let Peer { address, tls, .. } = Peer::of(&parts.extensions);
        let address = address.to_string();
        state.rate_limiter.acquire(&address)?;
        Ok(Self { address, tls })
    }
}

/// An authenticated client, within its rate limit.
#[derive(Debug, Clone)]
pub(crate) struct Authenticated {
    pub(crate) principal: Principal,
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Authenticated {
    async fn with_permission(parts: &mut Parts, state: &SharedState, permission: Permission<'_>) -> Result<Self, ApiError> {
        let client = Self::from_request_parts(parts, state).await?;
        client.principal.authorize(permission)?;
        Ok(client)
    }
}

impl FromRequestParts<SharedState> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        let peer = Peer::of(&parts.extensions);
        let principal = match state.authenticator.authenticate_cached(parts, peer.address) {
            Ok(Some(principal)) => principal,
            other => {
                // Limit unknown tokens by address before the store is read, so that guessing is slow.
                state.rate_limiter.acquire(&peer.address.to_string())?;
                let principal = match other {
                    Err(refusal) => Err(refusal),
                    Ok(_) => state.authenticator.authenticate(parts, peer.address).await,
                };
                principal.inspect_err(|_| state.metrics.rejected.add(1))?
            }
        };
        if let Some(ClientName(name)) = parts.extensions.get() {
            let _ = name.set(principal.audit_name());
        }
        let mut key = principal.rate_limit_key();
        let path = parts.uri.path();
        if path.starts_with("/v1/runners/") || path.starts_with("/v1/shells/") {
            // On a hub without tokens, other clients of a machine must not use up the rate limit of its runners.
            key.push_str(" runners");
        }
        state.rate_limiter.acquire(&key)?;
        Ok(Self { principal, _permit: peer.permit })
    }
}

/// A client that may view sessions.
pub(crate) struct Viewer(pub(crate) Authenticated);

impl FromRequestParts<SharedState> for Viewer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        Authenticated::with_permission(parts, state, Permission::View).await.map(Self)
    }
}

/// A client that may send commands.
pub(crate) struct Operator(pub(crate) Authenticated);

impl FromRequestParts<SharedState> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        Authenticated::with_permission(parts, state, Permission::Command).await.map(Self)
    }
}

/// A request to view the session in the path.
pub(crate) struct SessionView {
    pub(crate) state: SharedState,
    pub(crate) client: Authenticated,
    pub(crate) session: SessionId,
}

impl FromRequestParts<SharedState> for SessionView {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        let Viewer(client) = Viewer::from_request_parts(parts, state).await?;
        let SessionPath(session) = SessionPath::from_request_parts(parts, state).await?;
        Ok(Self { state: Arc::clone(state), client, session })
    }
}

/// A request of the runner of the session in the path, and the store that it writes to.
pub(crate) struct Runner {
    pub(crate) state: SharedState,
    pub(crate) client: Authenticated,
    pub(crate) session: SessionId,
    pub(crate) store: Arc<WriteStore>,
}

impl FromRequestParts<SharedState> for Runner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, ApiError> {
        let client = Authenticated::from_request_parts(parts, state).await?;
        let SessionPath(session) = SessionPath::from_request_parts(parts, state).await?;
        client.principal.authorize(Permission::Write(&session))?;
        Ok(Self { state: Arc::clone(state), client, session, store: Arc::clone(state.write_store()?) })
    }
}

/// The session in the path.
#[derive(Debug, Clone, IntoParams)]
#[into_params(names("session"), parameter_in = Path)]
pub(crate) struct SessionPath(
    /// Session id
    #[param(value_type = String)]
    pub(crate) SessionId,
);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        path_parameter(parts, state, "session").await?.parse().map(Self).map_err(malformed)
    }
}

/// The message or line number in the path.
#[derive(Debug, Clone, Copy, IntoParams)]
#[into_params(names("number"), parameter_in = Path)]
pub(crate) struct SeqPath(
    /// Number of the message or line, from 1
    pub(crate) u64,
);

impl<S: Send + Sync> FromRequestParts<S> for SeqPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        path_parameter(parts, state, "number").await?.parse().map(Self).map_err(malformed)
    }
}

/// The artifact in the path.
#[derive(Debug, Clone, IntoParams)]
#[into_params(names("digest"), parameter_in = Path)]
pub(crate) struct DigestPath(
    /// SHA-256 of the bytes, in hexadecimal
    pub(crate) String,
);

impl<S: Send + Sync> FromRequestParts<S> for DigestPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let digest = path_parameter(parts, state, "digest").await?;
        check_digest(&digest)?;
        Ok(Self(digest))
    }
}

/// Checks the form of a digest, which is also a file name.
pub(crate) fn check_digest(digest: &str) -> Result<(), ApiError> {
    let is_valid = digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_valid.then_some(()).ok_or_else(|| malformed("a digest is a SHA-256 in 64 lower-case hexadecimal digits"))
}

async fn path_parameter<S: Send + Sync>(parts: &mut Parts, state: &S, wanted: &str) -> Result<String, ApiError> {
    let parameters = RawPathParams::from_request_parts(parts, state).await.map_err(|error| malformed(error.body_text()))?;
    Ok(parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).unwrap_or_default())
}

/// The query string.
pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|error| malformed(error.body_text()))
    }
}

/// A JSON body of at most `LIMIT` bytes.
pub(crate) struct ApiJson<T, const LIMIT: usize>(pub(crate) T);

impl<T: DeserializeOwned, const LIMIT: usize> FromRequest<SharedState> for ApiJson<T, LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &SharedState) -> Result<Self, ApiError> {
        let body = read_body(state, request.into_body(), LIMIT).await?;
        serde_json::from_slice(&body).map(Self).map_err(malformed)
    }
}

/// Reads a body of at most `limit` bytes, within the time limit.
pub(crate) async fn read_body(state: &AppState, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match timeout(3 * state.limits.request_timeout, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Refusal::new(Code::TooLarge, format!("the body is incomplete or exceeds {limit} bytes")).into()),
        Err(_) => Err(Refusal::new(Code::Unavailable, "timed out reading the body").into()),
    }
}
