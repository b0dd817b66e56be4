//! Access tokens.
//!
//! ```text
//!   sabir_3f9c2a7d51b0_kV0c…            the secret that a client presents: an id, and 32 random bytes
//!          └─ id ─────┘                 the store has the id, and the SHA-256 of the secret
//! ```

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use sabir_core::time::Timestamp;
use sabir_protocol::SessionId;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

const PREFIX: &str = "sabir_";

/// Permission that a token grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Write this session and receive its commands.
    Runner(SessionId),
    /// View all sessions.
    Watch,
    /// View all sessions and send commands.
    Operate,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runner(session) => write!(f, "runner:{session}"),
            Self::Watch => f.write_str("watch"),
            Self::Operate => f.write_str("operate"),
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "watch" => Ok(Self::Watch),
            "operate" => Ok(Self::Operate),
            _ => match text.strip_prefix("runner:").map(str::parse) {
                Some(Ok(session)) => Ok(Self::Runner(session)),
                Some(Err(error)) => Err(format!("{error}")),
                None => Err("a scope is runner:SESSION, watch or operate".to_owned()),
            },
        }
    }
}

impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

/// A token as it is stored: without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Public id.
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub digest: String,
    /// Granted permissions.
    pub scopes: Vec<Scope>,
    /// Description for humans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Creation time.
    pub created: Timestamp,
    /// Expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Revocation time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

impl Token {
    /// Creates a token and its secret, which is not stored. `None` if the system random number generator fails.
    pub fn new(
        scopes: Vec<Scope>,
        note: Option<String>,
        created: Timestamp,
        expires: Option<Timestamp>,
    ) -> Option<(Self, String)> {
        let mut bytes = [0_u8; 38];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let (id, secret) = bytes.split_at(6);
        let id = hex(id);
        let secret = format!("{PREFIX}{id}_{}", hex(secret));
        let digest = sha256_hex(secret.as_bytes());
        Some((Self { id, digest, scopes, note, created, expires, revoked: None }, secret))
    }

    /// Returns whether this is the token with that secret, compared in constant time.
    pub fn has_secret(&self, secret: &str) -> bool {
        constant_time_eq(&self.digest, &sha256_hex(secret.as_bytes()))
    }

    /// Returns whether the token is neither revoked nor expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}

/// The id in a secret.
pub(super) fn id(secret: &str) -> Option<&str> {
    let (id, random) = secret.strip_prefix(PREFIX)?.split_once('_')?;
    (id.len() == 12 && random.len() == 64).then_some(id)
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Compares two digests in constant time.
pub(crate) fn constant_time_eq(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use sabir_core::time::Timestamp;

    use super::{Scope, Token, id};

    #[test]
    fn stored_token_recognizes_its_secret_without_containing_it() {
        let expires = Timestamp::from_millis(1_000);
        let (token, secret) = Token::new(vec![Scope::Watch], None, Timestamp::EPOCH, expires).expect("randomness");
        let (_, other) = Token::new(vec![Scope::Watch], None, Timestamp::EPOCH, None).expect("randomness");
        assert!(token.has_secret(&secret) && !token.has_secret(&other) && !token.has_secret(""));
        assert_eq!(id(&secret), Some(token.id.as_str()));
        assert!([&secret[1..], &secret[..20], "", "sabir_"].iter().all(|part| id(part).is_none()));
        let stored = serde_json::to_string(&token).expect("JSON");
        assert!(!stored.contains(&secret[20..]), "{stored}");
        assert_eq!(serde_json::from_str::<Token>(&stored).expect("a token"), token);
        assert!(token.is_valid(Timestamp::EPOCH) && !token.is_valid(Timestamp::from_millis(1_000).expect("a time")));
    }

    #[test]
    fn scope_parses_what_it_displays() {
        for text in ["watch", "operate", "runner:a b/c"] {
            assert_eq!(text.parse::<Scope>().expect("a scope").to_string(), text);
        }
        assert!(["", "runner", "runner:", "runner:..", "admin", "Watch"].iter().all(|text| text.parse::<Scope>().is_err()));
    }
}
