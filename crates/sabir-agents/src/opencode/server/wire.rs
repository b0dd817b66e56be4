//! The shapes that only the server's events have.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::family::opencode::wire::{Failure, Part, Todo};
use sabir_core::json::{self, Str};

/// Any event, bare or wrapped.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Wire<'a> {
    pub(super) r#type: Option<Str<'a>>,
    pub(super) properties: Option<&'a RawValue>,
    pub(super) payload: Option<Event<'a>>,
}

/// An event.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Event<'a> {
    pub(super) r#type: Option<Str<'a>>,
    pub(super) properties: Option<&'a RawValue>,
}

/// An event of which only the session counts.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Of<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
}

/// `message.part.delta`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Delta<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(rename = "messageID")]
    pub(super) message_id: Str<'a>,
    #[serde(rename = "partID")]
    pub(super) part_id: Str<'a>,
    pub(super) field: Str<'a>,
    #[serde(rename = "delta")]
    pub(super) piece: Str<'a>,
}

/// `message.part.updated`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct PartUpdated<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    pub(super) part: Part<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) time: Option<i64>,
}

/// `message.updated`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct MessageEvent<'a> {
    pub(super) info: MessageInfo<'a>,
}

/// A message without its parts.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct MessageInfo<'a> {
    pub(super) id: Str<'a>,
    pub(super) role: Str<'a>,
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(rename = "modelID")]
    pub(super) model_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) path: Option<Path<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) time: Option<MessageTime<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) summary: Option<bool>,
}

/// Where a message was written.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Path<'a> {
    pub(super) cwd: Str<'a>,
}

/// When a message was written.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct MessageTime<'a> {
    pub(super) completed: Option<&'a RawValue>,
}

/// `session.created`, `session.updated`, `session.deleted`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct SessionEvent<'a> {
    pub(super) info: SessionInfo<'a>,
}

/// A session.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct SessionInfo<'a> {
    pub(super) id: Str<'a>,
    #[serde(rename = "parentID")]
    pub(super) parent_id: Option<Str<'a>>,
    pub(super) directory: Option<Str<'a>>,
    pub(super) version: Option<Str<'a>>,
}

/// `session.status`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct StatusEvent<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    pub(super) status: Status<'a>,
}

/// What a session does.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Status<'a> {
    pub(super) r#type: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    /// When it tries again, in milliseconds since 1970.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) next: Option<i64>,
}

/// `session.error`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct SessionError<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    pub(super) error: Option<Failure<'a>>,
}

/// `todo.updated`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct TodoEvent<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    pub(super) todos: Vec<Todo<'a>>,
}

/// `message.removed`, `message.part.removed`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Removed<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session: Str<'a>,
    #[serde(rename = "messageID")]
    pub(super) message: Str<'a>,
    #[serde(rename = "partID")]
    pub(super) part: Option<Str<'a>>,
}

/// `file.watcher.updated`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct FileEvent<'a> {
    pub(super) file: Str<'a>,
    pub(super) event: Str<'a>,
}

/// Any event of `permission.*` and `question.*`, in the words of all versions.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Question<'a> {
    #[serde(rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    /// Of a question.
    pub(super) id: Option<Str<'a>>,
    /// Of an answer.
    #[serde(rename = "requestID", alias = "permissionID")]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) title: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient", alias = "type", alias = "action")]
    pub(super) permission: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient", alias = "resources")]
    pub(super) patterns: Option<Vec<Str<'a>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) questions: Option<Vec<Asking<'a>>>,
    #[serde(default, deserialize_with = "json::lenient", alias = "source")]
    pub(super) tool: Option<Caller<'a>>,
    #[serde(default, deserialize_with = "json::lenient", rename = "callID")]
    pub(super) call_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient", alias = "response")]
    pub(super) reply: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) answers: Option<Vec<Vec<Str<'a>>>>,
}

/// One thing that the agent wants to know.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Asking<'a> {
    pub(super) question: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) options: Option<Vec<Choice<'a>>>,
}

/// One answer to choose.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Choice<'a> {
    pub(super) label: Str<'a>,
}

/// The call that asks.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Caller<'a> {
    #[serde(rename = "callID")]
    pub(super) call_id: Str<'a>,
}
