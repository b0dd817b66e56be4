//! Who somebody is, and how a page gets a token without anybody typing it.
//!
//! ```text
//!   http://127.0.0.1:PORT/#token=ONCE ──► page ── POST /v1/enter {"token":"ONCE"} ──► {"token":"sabir_…"}
//! ```
//!
//! What stands after `#` is never sent with a request, and it is good once: an address that stays in the history of a
//! browser, or that somebody looks at later, opens nothing.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use ring::rand::{SecureRandom as _, SystemRandom};
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Refusal};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::audit::Entry;
use crate::auth::token::{Scope, Token, hashed, hexadecimal, same};
use crate::auth::{Deed, Visitor};
use crate::clock::now;
use crate::control::noted;
use crate::hub::{Asker, Peer, Refused, Shared, malformed};
use crate::ingest::http::body;
use crate::lock::locked;
use crate::openapi::Refusals;

/// What is sent to enter is not longer than this.
const LONGEST: usize = 4 << 10;
/// A token that was got by entering lasts so many milliseconds: a day.
const LASTS: i64 = 24 * 60 * 60 * 1_000;
/// So many one-time tokens wait at most; the oldest goes.
const MOST: usize = 64;

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
    let unknown = || Refusal::new(Code::Unauthorized, "the address was used already, or is not of this hub");
    let entrance = hub.entrance.as_ref().filter(|entrance| entrance.enter(&token)).ok_or_else(|| {
        hub.counts.turned_away.add(1);
        unknown()
    })?;
    let created = now();
    let expires = Timestamp::from_millis(created.as_millis() + LASTS);
    let made = Token::new(vec![entrance.0.scope.clone()], Some("a page".to_owned()), created, expires);
    let (kept, token) = made.ok_or_else(|| Refusal::new(Code::Unavailable, "the system has no randomness"))?;
    hub.log.add_token(kept.clone()).await.map_err(|trouble| hub.trouble(trouble))?;
    noted(&hub, hub.audit.note(&Entry::of_token(&address, "login", &kept)).await);
    Ok(Json(Pass { token }))
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
pub(crate) async fn me(State(hub): State<Shared>, asker: Asker) -> Json<Me> {
    let Asker { visitor, .. } = &asker;
    let may = |deed| visitor.may(deed).is_ok();
    let scope = match visitor {
        Visitor::Anybody(_) => "operate",
        Visitor::Holder(_) if may(Deed::Order) => "operate",
        Visitor::Holder(_) if may(Deed::See) => "watch",
        Visitor::Holder(_) => "runner",
    };
    let read_only = hub.local || !may(Deed::Order);
    Json(Me { read_only, scope, version: env!("CARGO_PKG_VERSION"), local: hub.local })
}
