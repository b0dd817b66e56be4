//! Authentication and authorization.
//!
//! The authenticator caches the tokens of the store and reads them again every second. A token that was created by another
//! process is valid at once, because an unknown id triggers a read, and revoking a token ends its connections.

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

use crate::now;
use crate::store::TokenStore;
use token::{Scope, Token};

/// Interval at which the cached tokens are read again.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The identity behind a request.
#[derive(Debug, Clone)]
pub(crate) enum Principal {
    /// Holder of a token.
    Token(Arc<Token>),
    /// A client of a hub that accepts requests without a token.
    Anonymous(IpAddr),
}

/// An action that requires a scope.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Permission<'a> {
    /// Write a session, read it back, and receive its commands.
    Write(&'a SessionId),
    /// View sessions.
    View,
    /// Send commands.
    Command,
}

impl Principal {
    /// Refuses a permission that no scope of the token includes.
    pub(crate) fn authorize(&self, permission: Permission<'_>) -> Result<(), Refusal> {
        let Self::Token(token) = self else { return Ok(()) };
        let includes = |scope: &Scope| match (scope, permission) {
            (Scope::Runner(session), Permission::Write(wanted)) => session == wanted,
            (Scope::Watch | Scope::Operate, Permission::View) | (Scope::Operate, Permission::Command) => true,
            _ => false,
        };
        let forbidden = || Refusal::new(Code::Forbidden, "the token lacks the required scope");
        token.scopes.iter().any(includes).then_some(()).ok_or_else(forbidden)
    }

    /// Name in the audit log.
    pub(crate) fn audit_name(&self) -> String {
        match self {
            Self::Token(token) => format!("token {}", token.id),
            Self::Anonymous(address) => format!("anybody at {address}"),
        }
    }

    /// Key of the rate limit.
    pub(crate) fn rate_limit_key(&self) -> String {
        match self {
            Self::Token(token) => token.id.clone(),
            Self::Anonymous(address) => address.to_string(),
        }
    }
}

fn invalid_token() -> Refusal {
    Refusal::new(Code::Unauthorized, "the token is unknown, revoked or expired")
}

/// The token in the `Authorization` header or, without one, in the session cookie of the web UI.
fn presented(parts: &Parts) -> Result<&str, Refusal> {
    let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
        let missing = || Refusal::new(Code::Unauthorized, "a token is required: Authorization: Bearer TOKEN");
        let secret = cookie::token(&parts.headers).ok_or_else(missing)?;
        if !cookie::is_same_origin(&parts.method, &parts.headers) {
            let message = "the session cookie is only accepted from the hub's own pages";
            return Err(Refusal::new(Code::Forbidden, message));
        }
        return Ok(secret);
    };
    let (scheme, secret) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(invalid_token)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(secret.trim()) } else { Err(invalid_token()) }
}

type TokenTable = Arc<HashMap<String, Arc<Token>>>;

/// Authenticates requests against a cache of the stored tokens.
#[derive(Clone)]
pub(crate) struct Authenticator {
    allow_anonymous: bool,
    store: Arc<dyn TokenStore>,
    tokens: watch::Sender<TokenTable>,
    /// Held during a refresh, so that a slow one cannot overwrite the result of a later one.
    refreshing: Arc<tokio::sync::Mutex<()>>,
}

impl Authenticator {
    pub(crate) fn new(store: Arc<dyn TokenStore>, allow_anonymous: bool) -> Self {
        Self { allow_anonymous, store, tokens: watch::channel(TokenTable::default()).0, refreshing: Arc::default() }
    }

    /// Authenticates a request without reading the store: `None` if the id of its token is not cached.
    pub(crate) fn authenticate_cached(&self, parts: &Parts, address: IpAddr) -> Result<Option<Principal>, Refusal> {
        if self.allow_anonymous {
            return Ok(Some(Principal::Anonymous(address)));
        }
        Ok(self.find(presented(parts)?)?.map(Principal::Token))
    }

    /// Authenticates a request after reading the stored tokens, since its token may be new.
    pub(crate) async fn authenticate(&self, parts: &Parts, address: IpAddr) -> Result<Principal, Refusal> {
        self.refresh().await?;
        self.authenticate_cached(parts, address)?.ok_or_else(invalid_token)
    }

    /// The token with this secret, if it is valid.
    pub(crate) async fn verify(&self, secret: &str) -> Result<Arc<Token>, Refusal> {
        if let Some(token) = self.find(secret)? {
            return Ok(token);
        }
        self.refresh().await?;
        self.find(secret)?.ok_or_else(invalid_token)
    }

    /// The token with this secret: `None` if its id is not cached, an error if it is not valid.
    fn find(&self, secret: &str) -> Result<Option<Arc<Token>>, Refusal> {
        let id = token::id(secret).ok_or_else(invalid_token)?;
        let Some(token) = self.tokens.borrow().get(id).cloned() else { return Ok(None) };
        if token.has_secret(secret) && token.is_valid(now()) { Ok(Some(token)) } else { Err(invalid_token()) }
    }

    /// Reads the stored tokens into the cache.
    pub(crate) async fn refresh(&self) -> Result<(), Refusal> {
        let _guard = self.refreshing.lock().await;
        let tokens = self.store.tokens().await?;
        let table: HashMap<String, Arc<Token>> = tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect();
        self.tokens.send_if_modified(|cached| {
            let changed = **cached != table;
            if changed {
                *cached = Arc::new(table);
            }
            changed
        });
        Ok(())
    }

    /// Waits until the principal's token is revoked, expires, or is deleted.
    pub(crate) async fn until_revoked(&self, principal: &Principal) -> Refusal {
        let Principal::Token(token) = principal else { return std::future::pending().await };
        let mut changes = self.tokens.subscribe();
        loop {
            let current = changes.borrow_and_update().get(&token.id).cloned();
            let time = now();
            if current.is_none_or(|current| !current.is_valid(time)) {
                return Refusal::new(Code::Unauthorized, "the token was revoked or has expired");
            }
            let expired = async {
                match token.expires {
                    Some(expires) => tokio::time::sleep(until(time, expires)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return std::future::pending().await },
                () = expired => {}
            }
        }
    }
}

/// Time from `now` to `then`, at most a minute, because clocks are adjusted and machines suspended.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::from_millis(then.millis_since(now).unwrap_or(0).max(1)).min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sabir_core::time::Timestamp;
    use tokio::sync::watch;

    use super::Authenticator;
    use super::token::{Scope, Token};
    use crate::now;
    use crate::store::memory::MemoryStore;
    use crate::store::{StoreFuture, TokenStore};

    /// A store whose reads complete once the gate is open.
    struct GatedStore {
        inner: MemoryStore,
        gate: watch::Sender<bool>,
    }

    impl TokenStore for GatedStore {
        fn add_token(&self, token: Token) -> StoreFuture<()> {
            self.inner.add_token(token)
        }
        fn tokens(&self) -> StoreFuture<Vec<Token>> {
            let (tokens, mut gate) = (self.inner.tokens(), self.gate.subscribe());
            Box::pin(async move {
                gate.wait_for(|is_open| *is_open).await.expect("a gate");
                tokens.await
            })
        }
        fn revoke_token(&self, id: &str, at: Timestamp) -> StoreFuture<bool> {
            self.inner.revoke_token(id, at)
        }
    }

    #[tokio::test]
    async fn slow_refresh_does_not_restore_a_revoked_token() {
        let store = Arc::new(GatedStore { inner: MemoryStore::default(), gate: watch::Sender::new(false) });
        let (token, secret) = Token::new(vec![Scope::Watch], None, now(), None).expect("randomness");
        let id = token.id.clone();
        store.add_token(token).await.expect("stored");
        let authenticator = Authenticator::new(Arc::clone(&store) as _, false);
        // The first refresh reads the tokens before the revocation, and completes after the second one has started.
        let second = async {
            store.revoke_token(&id, now()).await.expect("revoked");
            let gate = async { store.gate.send_replace(true) };
            tokio::join!(authenticator.refresh(), gate).0
        };
        let (first, second) = tokio::join!(authenticator.refresh(), second);
        assert_eq!((first, second), (Ok(()), Ok(())));
        assert!(authenticator.find(&secret).is_err());
    }
}
