//! The text frames of the WebSocket, which are the bodies of HTTP as well.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::session::SessionId;

/// What a shell says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromShell {
    /// Who writes, and how far it is.
    Hello(Hello),
    /// What became of an order.
    Taken(Taken),
    /// Still there.
    Heartbeat {},
    /// Something that a later version says.
    #[serde(other)]
    Unknown,
}

/// What a hub says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromHub {
    /// The answer to a hello.
    Welcome(Welcome),
    /// Everything up to that message is durable.
    Ack {
        /// Its number.
        last: u64,
    },
    /// A batch began too late and was dropped.
    Gap {
        /// The number that it should have begun with.
        expected: u64,
    },
    /// Somebody wants something of the session.
    Order(Order),
    /// Still there.
    Heartbeat {},
    /// The hub does not go on.
    Error(Refusal),
    /// Something that a later version says.
    #[serde(other)]
    Unknown,
}

/// The first frame of a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The session.
    pub session: SessionId,
    /// The id of this log.
    pub writer: String,
    /// Which opening of the log this is; 0 asks for a place.
    pub epoch: u32,
    /// The number of the last message of the log.
    pub last: u64,
    /// The number of the last order that was dealt with.
    #[serde(default)]
    pub orders: u64,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The shell's name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The kinds of orders that can be dealt with, by their names.
    #[serde(default)]
    pub takes: Vec<String>,
}

/// The answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    /// The epoch of the writer.
    pub epoch: u32,
    /// The number of the last message that is durable.
    pub last: u64,
    /// How long a side may say nothing.
    pub heartbeat_seconds: u32,
    /// No batch may be larger, before and after expansion.
    pub max_batch_bytes: u32,
    /// The orders that are not dealt with yet.
    #[serde(default)]
    pub orders: Vec<Order>,
}

/// What somebody wants of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number, from 1.
    pub order: u64,
    /// What is wanted.
    pub kind: OrderKind,
    /// A prompt's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why something is to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The question that is answered.
    #[serde(default, rename = "requestId", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The answer: `allow` or `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Who wants it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What can be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// A further prompt.
    Prompt,
    /// Stop what is running.
    Cancel,
    /// The answer to an open question.
    Permission,
    /// Something that a later version wants.
    #[serde(other)]
    Unknown,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its number.
    pub order: u64,
    /// Whether it is carried out.
    pub accepted: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why a hub does not go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
    /// The versions that the hub speaks, where it is about that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<u32>,
    /// How long to wait at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

impl Refusal {
    /// A refusal with nothing but its reason.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), versions: Vec::new(), retry_after_seconds: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// The kinds of refusals. One that is not known is read as [`Code::Internal`], after which one tries again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The token is not known, is revoked, or has run out.
    Unauthorized,
    /// The token is for something else.
    Forbidden,
    /// There is nothing at this address.
    NotFound,
    /// Somebody else writes this session.
    Fenced,
    /// The hub has another log of this session.
    Conflict,
    /// The two ends do not agree on what a frame looks like.
    Malformed,
    /// Too many bytes.
    TooLarge,
    /// No version that both speak.
    Version,
    /// Too much at once.
    SlowDown,
    /// Not now.
    Unavailable,
    /// A mistake of the hub.
    #[serde(other)]
    Internal,
}

impl Code {
    /// The status of an HTTP answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Fenced | Self::Conflict => 409,
            Self::Malformed => 400,
            Self::TooLarge => 413,
            Self::Version => 426,
            Self::SlowDown => 429,
            Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }

    /// The code of the WebSocket's close frame.
    pub fn close(self) -> u16 {
        match self {
            Self::Conflict => 4410,
            other => 4000 + other.status(),
        }
    }

    /// The code that a close frame with that code stands for.
    pub fn of_close(close: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.close() == close)
    }

    /// The code that a status alone stands for; of the two with 409, `conflict`.
    pub fn of_status(status: u16) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|code| code.status() == status)
    }

    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Fenced,
        Self::Conflict,
        Self::Malformed,
        Self::TooLarge,
        Self::Version,
        Self::SlowDown,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Whether trying again can't help.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::TooLarge | Self::SlowDown | Self::Unavailable | Self::Internal | Self::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, FromHub, FromShell, OrderKind};

    #[test]
    fn codes_come_back_from_close_frames_and_statuses() {
        for code in Code::ALL {
            assert_eq!(Code::of_close(code.close()), Some(code));
            assert_eq!(Code::of_status(code.status()).map(Code::status), Some(code.status()));
        }
        assert_eq!((Code::of_close(1000), Code::of_status(200)), (None, None));
    }

    #[test]
    fn what_a_later_version_says_is_no_error() {
        let frame: FromHub = serde_json::from_str(r#"{"type":"weather","sun":true}"#).expect("a frame");
        assert_eq!(frame, FromHub::Unknown);
        let frame: FromShell = serde_json::from_str(r#"{"type":"heartbeat","at":1}"#).expect("a frame");
        assert_eq!(frame, FromShell::Heartbeat {});
        let FromHub::Order(order) = serde_json::from_str(r#"{"type":"order","order":3,"kind":"dance"}"#).expect("a frame") else {
            panic!("an order");
        };
        assert_eq!((order.order, order.kind), (3, OrderKind::Unknown));
        let FromHub::Error(refusal) =
            serde_json::from_str(r#"{"type":"error","code":"eclipse","message":"dark"}"#).expect("a frame")
        else {
            panic!("an error");
        };
        assert_eq!(refusal.code, Code::Internal);
    }
}
