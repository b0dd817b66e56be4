//! Tokens: what they look like, what they are for, and what is kept of them.
//!
//! ```text
//!   sabir_3f9c2a7d51b0_kV0c…            what somebody has: an id, and 32 random bytes
//!          └─ id ─────┘                 what is kept: the id, and the SHA-256 of the whole
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

/// What a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// To write the log of this session, and to get its orders.
    Runner(SessionId),
    /// To see all sessions.
    Watch,
    /// To give orders, and to see all sessions.
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

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name in lists.
    pub id: String,
    /// The SHA-256 of what somebody has, in hexadecimal digits.
    pub digest: String,
    /// What it is for.
    pub scopes: Vec<Scope>,
    /// Who has it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

impl Token {
    /// A new token: what is kept of it, and what somebody has, which is told this once. `None` when the system has no
    /// randomness.
    pub fn new(
        scopes: Vec<Scope>,
        note: Option<String>,
        created: Timestamp,
        expires: Option<Timestamp>,
    ) -> Option<(Self, String)> {
        let mut bytes = [0_u8; 38];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let (id, secret) = bytes.split_at(6);
        let id = hexadecimal(id);
        let whole = format!("{PREFIX}{id}_{}", hexadecimal(secret));
        let digest = hashed(&whole);
        Some((Self { id, digest, scopes, note, created, expires, revoked: None }, whole))
    }

    /// Whether this is what is kept of what somebody has. It takes the same time wherever the two differ.
    pub fn is_of(&self, whole: &str) -> bool {
        same(&self.digest, &hashed(whole))
    }

    /// Whether it may be used at that time.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}

/// The id in what somebody has.
pub(super) fn id(whole: &str) -> Option<&str> {
    let (id, secret) = whole.strip_prefix(PREFIX)?.split_once('_')?;
    (id.len() == 12 && secret.len() == 64).then_some(id)
}

/// The digest of what somebody has.
pub(crate) fn hashed(whole: &str) -> String {
    hexadecimal(digest(&SHA256, whole.as_bytes()).as_ref())
}

/// Whether two digests are the same. It takes the same time wherever they differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Bytes as people write them.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
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
    fn what_is_kept_knows_what_somebody_has_and_does_not_tell_it() {
        let expires = Timestamp::from_millis(1_000);
        let (token, whole) = Token::new(vec![Scope::Watch], None, Timestamp::EPOCH, expires).expect("randomness");
        let (_, other) = Token::new(vec![Scope::Watch], None, Timestamp::EPOCH, None).expect("randomness");
        assert!(token.is_of(&whole) && !token.is_of(&other) && !token.is_of(""));
        assert_eq!(id(&whole), Some(token.id.as_str()));
        assert!([&whole[1..], &whole[..20], "", "sabir_"].iter().all(|part| id(part).is_none()));
        let kept = serde_json::to_string(&token).expect("JSON");
        assert!(!kept.contains(&whole[20..]), "{kept}");
        assert_eq!(serde_json::from_str::<Token>(&kept).expect("a token"), token);
        assert!(token.is_good(Timestamp::EPOCH) && !token.is_good(Timestamp::from_millis(1_000).expect("a time")));
    }

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for text in ["watch", "operate", "runner:a b/c"] {
            assert_eq!(text.parse::<Scope>().expect("a scope").to_string(), text);
        }
        assert!(["", "runner", "runner:", "runner:..", "admin", "Watch"].iter().all(|text| text.parse::<Scope>().is_err()));
    }
}
