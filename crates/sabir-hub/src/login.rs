//! Identity of a client, and signing in to the web UI.
//!
//! ```text
//!   http://127.0.0.1:PORT/#token=ONCE ──► web UI ── POST /v1/login {"token":"ONCE"} ──► session cookie
//!   API client                                   ── POST /v1/enter {"token":"ONCE"} ──► {"token":"sabir_…"}
//! ```
//!
//! Browsers do not send the fragment of an address, and a one-time token is valid once, so an address that stays in the browser's
//! history or on a screen gives no access.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ring::rand::{SecureRandom as _, SystemRandom};
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Refusal};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::audit::AuditEntry;
use crate::auth::token::{Scope, Token, constant_time_eq, hex, sha256_hex};
use crate::auth::{Permission, Principal, cookie};
use crate::error::ApiError;
use crate::extract::{ApiJson, Authenticated, Unauthenticated};
use crate::openapi::CommonErrors;
use crate::state::{AppState, ReportError as _, SharedState};
use crate::{lock, now};

/// Maximum size of a login request.
const MAX_BODY: usize = 4 << 10;
/// Lifetime of a token that was exchanged for a one-time token: a day, in milliseconds.
const LIFETIME_MILLIS: i64 = 24 * 60 * 60 * 1_000;
/// Maximum number of unused one-time tokens; beyond it the oldest is dropped.
const MAX_UNUSED: usize = 64;
/// Note of tokens that were exchanged for one-time tokens.
const NOTE: &str = "web UI login";

/// One-time tokens that sign in with a given scope. Clones share the tokens.
#[derive(Debug, Clone)]
pub struct OneTimeTokens(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scope: Scope,
    /// Digests of the unused tokens.
    unused: Mutex<Vec<String>>,
    /// Number of redeemed tokens.
    redeemed: watch::Sender<u64>,
}

impl OneTimeTokens {
    /// An empty set of tokens.
    pub fn new(scope: Scope) -> Self {
        Self(Arc::new(Inner { scope, unused: Mutex::default(), redeemed: watch::Sender::new(0) }))
    }

    /// Issues a token; `None` if the system random number generator fails.
    pub fn issue(&self) -> Option<String> {
        let mut bytes = [0_u8; 24];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token = hex(&bytes);
        let mut unused = lock(&self.0.unused);
        if unused.len() >= MAX_UNUSED {
            unused.remove(0);
        }
        unused.push(sha256_hex(token.as_bytes()));
        Some(token)
    }

    /// Number of redeemed tokens, now and in the future.
    pub fn redeemed(&self) -> watch::Receiver<u64> {
        self.0.redeemed.subscribe()
    }

    /// Uses up a token; `false` if it is unknown or was used before.
    fn redeem(&self, token: &str) -> bool {
        let digest = sha256_hex(token.as_bytes());
        let mut unused = lock(&self.0.unused);
        let before = unused.len();
        unused.retain(|known| !constant_time_eq(known, &digest));
        let redeemed = unused.len() < before;
        drop(unused);
        if redeemed {
            self.0.redeemed.send_modify(|count| *count += 1);
        }
        redeemed
    }
}

/// A token, or a one-time token to exchange for one.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TokenExchange {
    token: String,
}

/// Exchanges a one-time token for a token.
#[utoipa::path(post, path = "/v1/enter", operation_id = "enter", tag = "hub", security(()),
    request_body = TokenExchange,
    responses(
        (status = 200, description = "A token for `Authorization: Bearer`", body = TokenExchange),
        (status = 400, description = "Malformed request"), CommonErrors,
    ))]
pub(crate) async fn enter(
    State(state): State<SharedState>,
    Unauthenticated { address, .. }: Unauthenticated,
    ApiJson(TokenExchange { token }): ApiJson<TokenExchange, MAX_BODY>,
) -> Result<Json<TokenExchange>, ApiError> {
    let Some(token) = exchange(&state, &token, &address).await? else {
        state.metrics.rejected.add(1);
        return Err(Refusal::new(Code::Unauthorized, "the one-time token is unknown or was used before").into());
    };
    Ok(Json(TokenExchange { token }))
}

/// Exchanges a one-time token for a token; `None` if it is unknown or was used before.
async fn exchange(state: &AppState, one_time_token: &str, address: &str) -> Result<Option<String>, ApiError> {
    let Some(tokens) = state.one_time_tokens.as_ref().filter(|tokens| tokens.redeem(one_time_token)) else { return Ok(None) };
    let created = now();
    let expires = Timestamp::from_millis(created.as_millis() + LIFETIME_MILLIS);
    let created = Token::new(vec![tokens.0.scope.clone()], Some(NOTE.to_owned()), created, expires);
    let no_randomness = || Refusal::new(Code::Unavailable, "the system random number generator failed");
    let (token, secret) = created.ok_or_else(no_randomness)?;
    state.store.tokens.add_token(token.clone()).await.report(state)?;
    state.check_audit(state.audit.append(&AuditEntry::for_token(address, "login", &token)).await);
    Ok(Some(secret))
}

/// Returns whether a token came from [`exchange`], and so ends with its login.
fn is_of_login(token: &Token) -> bool {
    let lifetime = token.expires.and_then(|expires| expires.millis_since(token.created));
    token.note.as_deref() == Some(NOTE) && lifetime == u64::try_from(LIFETIME_MILLIS).ok()
}

/// Sign-in method of the web UI.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoginMethod {
    /// `address`: with the address that the command prints; `token`: with a token of the hub.
    method: &'static str,
}

/// Returns the sign-in method of the web UI.
#[utoipa::path(get, path = "/v1/login", operation_id = "getLoginMethod", tag = "hub", security(()),
    responses((status = 200, description = "The method", body = LoginMethod)))]
pub(crate) async fn login_method(State(state): State<SharedState>) -> Json<LoginMethod> {
    Json(LoginMethod { method: if state.one_time_tokens.is_some() { "address" } else { "token" } })
}

/// Signs in to the web UI: stores a token, or the one that a one-time token is exchanged for, in the session cookie.
#[utoipa::path(post, path = "/v1/login", operation_id = "login", tag = "hub", security(()),
    request_body = TokenExchange,
    responses(
        (status = 204, description = "The session cookie is set"),
        (status = 400, description = "Malformed request"), CommonErrors,
    ))]
pub(crate) async fn login(
    State(state): State<SharedState>,
    Unauthenticated { address, tls }: Unauthenticated,
    headers: HeaderMap,
    ApiJson(TokenExchange { token: secret }): ApiJson<TokenExchange, MAX_BODY>,
) -> Result<Response, ApiError> {
    let secret = match exchange(&state, &secret, &address).await? {
        Some(secret) => secret,
        None => {
            let token = state.authenticator.verify(&secret).await.inspect_err(|_| state.metrics.rejected.add(1))?;
            if Principal::Token(Arc::clone(&token)).authorize(Permission::View).is_err() {
                let message = "the token is for a runner; the web UI needs the scope watch or operate";
                return Err(Refusal::new(Code::Forbidden, message).into());
            }
            state.check_audit(state.audit.append(&AuditEntry::for_token(&address, "login", &token)).await);
            secret
        }
    };
    Ok(with_cookie(&headers, Some(&secret), tls))
}

/// Signs out of the web UI: deletes the session cookie, and revokes its token if signing in created it.
#[utoipa::path(post, path = "/v1/logout", operation_id = "logout", tag = "hub", security(()),
    responses((status = 204, description = "The session cookie is deleted"), CommonErrors))]
pub(crate) async fn logout(
    State(state): State<SharedState>,
    Unauthenticated { address, tls }: Unauthenticated,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !cookie::is_same_origin(&method, &headers) {
        return Err(Refusal::new(Code::Forbidden, "only the hub's own pages can sign out").into());
    }
    if let Some(secret) = cookie::token(&headers)
        && let Ok(token) = state.authenticator.verify(secret).await
        && is_of_login(&token)
    {
        state.store.tokens.revoke_token(&token.id, now()).await.report(&state)?;
        state.authenticator.refresh().await?;
        state.check_audit(state.audit.append(&AuditEntry::for_token(&address, "token_revoked", &token)).await);
    }
    Ok(with_cookie(&headers, None, tls))
}

/// An empty response that sets the session cookie, or deletes it.
fn with_cookie(headers: &HeaderMap, secret: Option<&str>, tls: bool) -> Response {
    let set = cookie::set(headers, secret, tls).map(|value| (header::SET_COOKIE, value));
    (StatusCode::NO_CONTENT, set.into_iter().collect::<HeaderMap>()).into_response()
}

/// The client and the hub.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    /// The client cannot send commands.
    read_only: bool,
    /// Scope of the token: `watch`, `operate` or `runner`.
    scope: &'static str,
    /// Version of the hub.
    version: &'static str,
    /// The hub shows the sessions of the machine that it runs on, and has no runners.
    local: bool,
    /// The session cookie of the web UI authenticated the request.
    cookie: bool,
}

/// Returns the permissions of the client.
#[utoipa::path(get, path = "/v1/me", operation_id = "getMe", tag = "hub",
    responses((status = 200, description = "The permissions", body = Me), CommonErrors))]
pub(crate) async fn me(State(state): State<SharedState>, client: Authenticated, headers: HeaderMap) -> Json<Me> {
    let principal = &client.principal;
    let can = |permission| principal.authorize(permission).is_ok();
    let scope = match principal {
        Principal::Anonymous(_) => "operate",
        Principal::Token(_) if can(Permission::Command) => "operate",
        Principal::Token(_) if can(Permission::View) => "watch",
        Principal::Token(_) => "runner",
    };
    let local = state.store.write.is_none();
    let read_only = local || !can(Permission::Command);
    let cookie = matches!(principal, Principal::Token(_)) && !headers.contains_key(header::AUTHORIZATION);
    Json(Me { read_only, scope, version: env!("CARGO_PKG_VERSION"), local, cookie })
}
