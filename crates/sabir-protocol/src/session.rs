//! The id of a session: given by others, so it is looked at before it is used.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// 1 to 128 bytes without a control character, and neither `.` nor `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// A text that can't be the id of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotASession;

impl fmt::Display for NotASession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session id has 1 to 128 bytes without control characters, and is not . or ..")
    }
}

impl std::error::Error for NotASession {}

impl SessionId {
    /// The id as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as a part of an address: everything but letters, digits, `-`, `_` and `.` as `%XX`.
    pub fn in_address(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let part = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
        self.0.bytes().map(part).collect()
    }
}

impl TryFrom<String> for SessionId {
    type Error = NotASession;

    fn try_from(text: String) -> Result<Self, NotASession> {
        let fits = (1..=128).contains(&text.len()) && text != "." && text != "..";
        if fits && !text.chars().any(char::is_control) { Ok(Self(text)) } else { Err(NotASession) }
    }
}

impl FromStr for SessionId {
    type Err = NotASession;

    fn from_str(text: &str) -> Result<Self, NotASession> {
        text.to_owned().try_into()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SessionId;

    #[test]
    fn an_id_leads_nowhere_else() {
        for bad in ["", ".", "..", "a\nb", "\u{0}", "\u{85}", &"x".repeat(129)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad:?}");
        }
        let id: SessionId = "../etc/ü %2e".parse().expect("an odd id is an id");
        assert_eq!(id.in_address(), "..%2Fetc%2F%C3%BC%20%252e");
    }
}
