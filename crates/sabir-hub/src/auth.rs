//! Who may do what.
//!
//! The hub has a table of the tokens that it knows, which is looked at again every second: a token that was made beside it
//! is good at once (an id that is not known is looked up), and one that was revoked ends its connections.

pub(crate) mod cookie;
pub mod token;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header;
use axum::http::request::Parts;
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Refusal, SessionId};
use tokio::sync::watch;

use crate::clock::now;
use crate::store::TokenStore;
use token::{Scope, Token};

/// How often it is looked whether tokens have changed.
const LOOK: Duration = Duration::from_secs(1);

/// Somebody who asks, and what it may do.
#[derive(Debug, Clone)]
pub(crate) enum Visitor {
    /// Somebody with a token.
    Holder(Arc<Token>),
    /// Anybody, where the hub was told to take anybody.
    Anybody(IpAddr),
}

/// What somebody wants to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed<'a> {
    /// Write the log of a session and read it back, and get its orders.
    Write(&'a SessionId),
    /// See sessions.
    See,
    /// Give orders.
    Order,
}

impl Visitor {
    /// Whether it may.
    pub(crate) fn may(&self, deed: Deed<'_>) -> Result<(), Refusal> {
        let Self::Holder(token) = self else { return Ok(()) };
        let covers = |scope: &Scope| match (scope, deed) {
            (Scope::Runner(session), Deed::Write(wanted)) => session == wanted,
            (Scope::Watch | Scope::Operate, Deed::See) | (Scope::Operate, Deed::Order) => true,
            _ => false,
        };
        let forbidden = || Refusal::new(Code::Forbidden, "the token is for something else");
        token.scopes.iter().any(covers).then_some(()).ok_or_else(forbidden)
    }

    /// Its name in audit lines.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Holder(token) => format!("token {}", token.id),
            Self::Anybody(address) => format!("anybody at {address}"),
        }
    }

    /// Whose requests are counted together.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Holder(token) => token.id.clone(),
            Self::Anybody(address) => address.to_string(),
        }
    }
}

fn unknown() -> Refusal {
    Refusal::new(Code::Unauthorized, "the token is not known, is revoked, or has run out")
}

/// The token in the `Authorization` header or, without one, in the session cookie of the web UI.
fn presented(parts: &Parts) -> Result<&str, Refusal> {
    let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
        let missing = || Refusal::new(Code::Unauthorized, "a token is needed: Authorization: Bearer TOKEN");
        let whole = cookie::token(&parts.headers).ok_or_else(missing)?;
        if !cookie::is_same_origin(&parts.method, &parts.headers) {
            let what = "the session cookie is only accepted from the hub's own pages";
            return Err(Refusal::new(Code::Forbidden, what));
        }
        return Ok(whole);
    };
    let (scheme, whole) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(unknown)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(whole.trim()) } else { Err(unknown()) }
}

type Table = Arc<HashMap<String, Arc<Token>>>;

/// The tokens that are known.
#[derive(Clone)]
pub(crate) struct Gate {
    /// Nobody needs a token.
    open: bool,
    tokens: Arc<dyn TokenStore>,
    table: watch::Sender<Table>,
}

impl Gate {
    pub(crate) fn new(tokens: Arc<dyn TokenStore>, open: bool) -> Self {
        Self { open, tokens, table: watch::channel(Table::default()).0 }
    }

    /// Authenticates a request without asking the log: `None` for the id of a token that is not in the table.
    pub(crate) fn known(&self, parts: &Parts, from: IpAddr) -> Result<Option<Visitor>, Refusal> {
        if self.open {
            return Ok(Some(Visitor::Anybody(from)));
        }
        Ok(self.find(presented(parts)?)?.map(Visitor::Holder))
    }

    /// Authenticates a request. Reads the tokens again, since the token may have been created a moment ago.
    pub(crate) async fn look_up(&self, parts: &Parts, from: IpAddr) -> Result<Visitor, Refusal> {
        self.look().await?;
        self.known(parts, from)?.ok_or_else(unknown)
    }

    /// The token with this text, if it may be used now.
    pub(crate) async fn holder(&self, whole: &str) -> Result<Arc<Token>, Refusal> {
        if let Some(token) = self.find(whole)? {
            return Ok(token);
        }
        self.look().await?;
        self.find(whole)?.ok_or_else(unknown)
    }

    /// The token with this text: `None` if its id is not in the table, an error if it may not be used.
    fn find(&self, whole: &str) -> Result<Option<Arc<Token>>, Refusal> {
        let id = token::id(whole).ok_or_else(unknown)?;
        let Some(token) = self.table.borrow().get(id).cloned() else { return Ok(None) };
        if token.is_of(whole) && token.is_good(now()) { Ok(Some(token)) } else { Err(unknown()) }
    }

    /// Reads the tokens again.
    pub(crate) async fn look(&self) -> Result<(), Refusal> {
        let tokens = self.tokens.tokens().await?;
        let table: HashMap<String, Arc<Token>> = tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect();
        self.table.send_if_modified(|known| {
            let changed = **known != table;
            if changed {
                *known = Arc::new(table);
            }
            changed
        });
        Ok(())
    }

    /// Looks again and again, for as long as the hub runs.
    pub(crate) async fn keep_looking(self) {
        let mut every = tokio::time::interval(LOOK);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            // What can't be read now stays as it was known.
            let _ = self.look().await;
        }
    }

    /// Waits until a visitor may not stay any longer.
    pub(crate) async fn turned_away(&self, visitor: &Visitor) -> Refusal {
        let Visitor::Holder(token) = visitor else { return std::future::pending().await };
        let mut changes = self.table.subscribe();
        loop {
            let known = changes.borrow_and_update().get(&token.id).cloned();
            let moment = now();
            // A token that is not in the table was removed with all that is known of it.
            let good = known.as_ref().is_some_and(|known| known.is_good(moment));
            if !good {
                return Refusal::new(Code::Unauthorized, "the token is revoked or has run out");
            }
            let end = async {
                match token.expires {
                    Some(expires) => tokio::time::sleep(until(moment, expires)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return std::future::pending().await },
                () = end => {}
            }
        }
    }
}

/// How long until a time; at most a minute, since clocks are set and machines sleep.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::from_millis(then.millis_since(now).unwrap_or(0).max(1)).min(Duration::from_secs(60))
}
