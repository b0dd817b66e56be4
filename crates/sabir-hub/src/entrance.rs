//! Who somebody is, and how the web UI signs in.
//!
//! ```text
//!   http://127.0.0.1:PORT/#token=ONCE ──► web UI ── POST /v1/login {"token":"ONCE"} ──► session cookie
//!   API client                                   ── POST /v1/enter {"token":"ONCE"} ──► {"token":"sabir_…"}
//! ```
//!
//! What stands after `#` is never sent with a request, and it is good once: an address that stays in the history of a
//! browser, or that somebody looks at later, opens nothing.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use ring::rand::{SecureRandom as _, SystemRandom};
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Refusal};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::audit::Entry;
use crate::auth::token::{Scope, Token, hashed, hexadecimal, same};
use crate::auth::{Deed, Visitor, cookie};
use crate::clock::now;
use crate::control::noted;
use crate::hub::{Asker, Hub, Peer, Refused, Shared, malformed};
use crate::ingest::http::body;
use crate::lock::locked;
use crate::openapi::Refusals;

/// What is sent to enter is not longer than this.
const LONGEST: usize = 4 << 10;
/// A token that was got by entering lasts so many milliseconds: a day.
const LASTS: i64 = 24 * 60 * 60 * 1_000;
/// So many one-time tokens wait at most; the oldest goes.
const MOST: usize = 64;
/// The note of tokens that were exchanged for one-time tokens.
const NOTE: &str = "web UI login";

/// One-time tokens, and what those may do who come in by one. Clones are the same entrance.
#[derive(Debug, Clone)]
pub struct Entrance(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scope: Scope,
    /// The digests of those that were not used yet.
    waiting: Mutex<Vec<String>>,
    /// How many were used.
    used: watch::Sender<u64>,
}

impl Entrance {
    /// An entrance with no one-time token yet.
    pub fn new(scope: Scope) -> Self {
        Self(Arc::new(Inner { scope, waiting: Mutex::default(), used: watch::Sender::new(0) }))
    }

    /// A one-time token; `None` when the system has no randomness.
    pub fn token(&self) -> Option<String> {
        let mut bytes = [0_u8; 24];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token = hexadecimal(&bytes);
        let mut waiting = locked(&self.0.waiting);
        if waiting.len() >= MOST {
            waiting.remove(0);
        }
        waiting.push(hashed(&token));
        Some(token)
    }

    /// Hears how many one-time tokens were used.
    pub fn used(&self) -> watch::Receiver<u64> {
        self.0.used.subscribe()
    }

    /// Uses a one-time token up.
    fn enter(&self, token: &str) -> bool {
        let digest = hashed(token);
        let mut waiting = locked(&self.0.waiting);
        let before = waiting.len();
        waiting.retain(|known| !same(known, &digest));
        let found = waiting.len() < before;
        drop(waiting);
        if found {
            self.0.used.send_modify(|used| *used += 1);
        }
        found
    }
}

/// A one-time token, or the one that is got for it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Pass {
    token: String,
}

/// Gives a token for a one-time token, which is good no more then.
#[utoipa::path(
    post,
    path = "/v1/enter",
    operation_id = "enter",
    tag = "hub",
    request_body = Pass,
    responses(
        (status = 200, description = "What to send as `Authorization: Bearer`", body = Pass),
        (status = 400, description = "Not a token"),
        (status = 401, description = "It is not known, or was used"),
        (status = 429, description = "Too many requests"),
        (status = 503, description = "Not now"),
    )
)]
pub(crate) async fn enter(
    State(hub): State<Shared>,
    peer: Option<Extension<Peer>>,
    request: Body,
) -> Result<Json<Pass>, Refused> {
    let address = peer.map(|Extension(peer)| peer.address.to_string()).unwrap_or_default();
    hub.pace.step(&address)?;
    let text = body(&hub, request, LONGEST).await?;
    let Pass { token } = serde_json::from_slice(&text).map_err(malformed)?;
    match exchange(&hub, &token, &address).await? {
        Some(token) => Ok(Json(Pass { token })),
        None => {
            hub.counts.turned_away.add(1);
            Err(Refusal::new(Code::Unauthorized, "the address was used already, or is not of this hub").into())
        }
    }
}

/// Exchanges a one-time token for a token; `None` where it is not one, or was used.
async fn exchange(hub: &Hub, once: &str, address: &str) -> Result<Option<String>, Refused> {
    let Some(entrance) = hub.entrance.as_ref().filter(|entrance| entrance.enter(once)) else { return Ok(None) };
    let created = now();
    let expires = Timestamp::from_millis(created.as_millis() + LASTS);
    let made = Token::new(vec![entrance.0.scope.clone()], Some(NOTE.to_owned()), created, expires);
    let (kept, token) = made.ok_or_else(|| Refusal::new(Code::Unavailable, "the system has no randomness"))?;
    hub.store.tokens.add_token(kept.clone()).await.map_err(|trouble| hub.trouble(trouble))?;
    noted(hub, hub.audit.note(&Entry::of_token(address, "login", &kept)).await);
    Ok(Some(token))
}

/// Whether a token came from [`exchange`], and so ends with its login.
fn is_of_login(token: &Token) -> bool {
    let lasts = token.expires.and_then(|expires| expires.millis_since(token.created));
    token.note.as_deref() == Some(NOTE) && lasts == u64::try_from(LASTS).ok()
}

/// How one signs in to the web UI.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoginMethod {
    /// `address`: with the address that the command prints; `token`: with a token of the hub.
    method: &'static str,
}

/// How one signs in to the web UI. It needs no token.
#[utoipa::path(
    get,
    path = "/v1/login",
    operation_id = "getLoginMethod",
    tag = "hub",
    responses((status = 200, description = "The method", body = LoginMethod))
)]
pub(crate) async fn login_method(State(hub): State<Shared>) -> Json<LoginMethod> {
    Json(LoginMethod { method: if hub.entrance.is_some() { "address" } else { "token" } })
}

/// Signs the web UI in: stores a token, or what a one-time token is exchanged for, in the session cookie.
#[utoipa::path(
    post,
    path = "/v1/login",
    operation_id = "login",
    tag = "hub",
    request_body = Pass,
    responses(
        (status = 204, description = "The session cookie is set"),
        (status = 400, description = "Not a token"),
        (status = 401, description = "The token is not known, was revoked, used or has run out"),
        (status = 403, description = "The token is of a runner"),
        (status = 429, description = "Too many requests"),
        (status = 503, description = "Not now"),
    )
)]
pub(crate) async fn login(
    State(hub): State<Shared>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    request: Body,
) -> Result<Response, Refused> {
    let (address, tls) = peer.map(|Extension(peer)| (peer.address.to_string(), peer.tls)).unwrap_or_default();
    hub.pace.step(&address)?;
    let text = body(&hub, request, LONGEST).await?;
    let Pass { token } = serde_json::from_slice(&text).map_err(malformed)?;
    let token = match exchange(&hub, &token, &address).await? {
        Some(token) => token,
        None => {
            let holder = hub.gate.holder(&token).await.inspect_err(|_| hub.counts.turned_away.add(1))?;
            if Visitor::Holder(Arc::clone(&holder)).may(Deed::See).is_err() {
                let what = "the token is of a runner; the web UI needs one with the scope watch or operate";
                return Err(Refusal::new(Code::Forbidden, what).into());
            }
            noted(&hub, hub.audit.note(&Entry::of_token(&address, "login", &holder)).await);
            token
        }
    };
    Ok(with_cookie(&headers, Some(&token), tls))
}

/// Signs the web UI out: deletes the session cookie, and revokes its token where that was made by signing in.
#[utoipa::path(
    post,
    path = "/v1/logout",
    operation_id = "logout",
    tag = "hub",
    responses(
        (status = 204, description = "The session cookie is deleted"),
        (status = 403, description = "The request is not from a page of the hub"),
        (status = 429, description = "Too many requests"),
        (status = 503, description = "Not now"),
    )
)]
pub(crate) async fn logout(
    State(hub): State<Shared>,
    peer: Option<Extension<Peer>>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let (address, tls) = peer.map(|Extension(peer)| (peer.address.to_string(), peer.tls)).unwrap_or_default();
    hub.pace.step(&address)?;
    if !cookie::is_same_origin(&method, &headers) {
        return Err(Refusal::new(Code::Forbidden, "only the hub's own pages sign out").into());
    }
    if let Some(token) = cookie::token(&headers)
        && let Ok(token) = hub.gate.holder(token).await
        && is_of_login(&token)
    {
        hub.store.tokens.revoke_token(&token.id, now()).await.map_err(|trouble| hub.trouble(trouble))?;
        hub.gate.look().await?;
        noted(&hub, hub.audit.note(&Entry::of_token(&address, "token_revoked", &token)).await);
    }
    Ok(with_cookie(&headers, None, tls))
}

/// An answer without a body that sets the session cookie, or deletes it.
fn with_cookie(headers: &HeaderMap, token: Option<&str>, tls: bool) -> Response {
    let set = cookie::set(headers, token, tls).map(|value| (header::SET_COOKIE, value));
    (StatusCode::NO_CONTENT, set.into_iter().collect::<HeaderMap>()).into_response()
}

/// Who asks, and what the hub is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    /// No order of this visitor is taken.
    read_only: bool,
    /// What the token is for: `watch`, `operate` or `runner`.
    scope: &'static str,
    /// The version of the hub.
    version: &'static str,
    /// The sessions are those of the machine that the hub runs on, from what agents and Sabir keep there.
    local: bool,
    /// The request was authenticated by the session cookie of the web UI.
    cookie: bool,
}

/// Who asks, and what it may do here.
#[utoipa::path(
    get,
    path = "/v1/me",
    operation_id = "getMe",
    tag = "hub",
    responses((status = 200, description = "What one may do", body = Me), Refusals),
    security(("token" = []))
)]
pub(crate) async fn me(State(hub): State<Shared>, asker: Asker, headers: HeaderMap) -> Json<Me> {
    let Asker { visitor, .. } = &asker;
    let may = |deed| visitor.may(deed).is_ok();
    let scope = match visitor {
        Visitor::Anybody(_) => "operate",
        Visitor::Holder(_) if may(Deed::Order) => "operate",
        Visitor::Holder(_) if may(Deed::See) => "watch",
        Visitor::Holder(_) => "runner",
    };
    let read_only = hub.store.write.is_none() || !may(Deed::Order);
    let cookie = matches!(visitor, Visitor::Holder(_)) && !headers.contains_key(header::AUTHORIZATION);
    Json(Me { read_only, scope, version: env!("CARGO_PKG_VERSION"), local: hub.store.write.is_none(), cookie })
}
