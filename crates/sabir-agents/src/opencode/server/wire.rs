//! The shapes that only the server's events have.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::family::opencode::wire::{Failure, Part, Todo};
use sabir_core::json::{self, Str};

/// Any event, bare or wrapped.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) properties: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) payload: Option<Event<'a>>,
}

/// An event.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) properties: Option<&'a RawValue>,
}

/// An event of which only the session counts.
#[derive(Deserialize)]
pub(super) struct Of<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Str<'a>,
}

/// `message.part.delta`.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(borrow, rename = "messageID")]
    pub(super) message_id: Str<'a>,
    #[serde(borrow, rename = "partID")]
    pub(super) part_id: Str<'a>,
    #[serde(borrow)]
    pub(super) field: Str<'a>,
    #[serde(borrow, rename = "delta")]
    pub(super) piece: Str<'a>,
}

/// `message.part.updated`.
#[derive(Deserialize)]
pub(super) struct PartUpdated<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) part: Part<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) time: Option<i64>,
}

/// `message.updated`.
#[derive(Deserialize)]
pub(super) struct MessageEvent<'a> {
    #[serde(borrow)]
    pub(super) info: MessageInfo<'a>,
}

/// A message without its parts.
#[derive(Deserialize)]
pub(super) struct MessageInfo<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    #[serde(borrow)]
    pub(super) role: Str<'a>,
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(borrow, rename = "modelID")]
    pub(super) model_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) path: Option<Path<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) time: Option<MessageTime<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) summary: Option<bool>,
}

/// Where a message was written.
#[derive(Deserialize)]
pub(super) struct Path<'a> {
    #[serde(borrow)]
    pub(super) cwd: Str<'a>,
}

/// When a message was written.
#[derive(Deserialize)]
pub(super) struct MessageTime<'a> {
    #[serde(borrow)]
    pub(super) completed: Option<&'a RawValue>,
}

/// `session.created`, `session.updated`, `session.deleted`.
#[derive(Deserialize)]
pub(super) struct SessionEvent<'a> {
    #[serde(borrow)]
    pub(super) info: SessionInfo<'a>,
}

/// A session.
#[derive(Deserialize)]
pub(super) struct SessionInfo<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    #[serde(borrow, rename = "parentID")]
    pub(super) parent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) directory: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
}

/// `session.status`.
#[derive(Deserialize)]
pub(super) struct StatusEvent<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(borrow)]
    pub(super) status: Status<'a>,
}

/// What a session does.
#[derive(Deserialize)]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) message: Option<Str<'a>>,
    /// When it tries again, in milliseconds since 1970.
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) next: Option<i64>,
}

/// `session.error`.
#[derive(Deserialize)]
pub(super) struct SessionError<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
}

/// `todo.updated`.
#[derive(Deserialize)]
pub(super) struct TodoEvent<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(borrow)]
    pub(super) todos: Vec<Todo<'a>>,
}

/// `message.removed`, `message.part.removed`.
#[derive(Deserialize)]
pub(super) struct Removed<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session: Str<'a>,
    #[serde(borrow, rename = "messageID")]
    pub(super) message: Str<'a>,
    #[serde(borrow, rename = "partID")]
    pub(super) part: Option<Str<'a>>,
}

/// `file.watcher.updated`.
#[derive(Deserialize)]
pub(super) struct FileEvent<'a> {
    #[serde(borrow)]
    pub(super) file: Str<'a>,
    #[serde(borrow)]
    pub(super) event: Str<'a>,
}

/// Any event of `permission.*` and `question.*`, in the words of all versions.
#[derive(Deserialize)]
pub(super) struct Question<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    /// Of a question.
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    /// Of an answer.
    #[serde(borrow, rename = "requestID", alias = "permissionID")]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", alias = "type", alias = "action")]
    pub(super) permission: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", alias = "resources")]
    pub(super) patterns: Option<Vec<Str<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) questions: Option<Vec<Asking<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", alias = "source")]
    pub(super) tool: Option<Caller<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", rename = "callID")]
    pub(super) call_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient", alias = "response")]
    pub(super) reply: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) answers: Option<Vec<Vec<Str<'a>>>>,
}

/// One thing that the agent wants to know.
#[derive(Deserialize)]
pub(super) struct Asking<'a> {
    #[serde(borrow)]
    pub(super) question: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) options: Option<Vec<Choice<'a>>>,
}

/// One answer to choose.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) label: Str<'a>,
}

/// The call that asks.
#[derive(Deserialize)]
pub(super) struct Caller<'a> {
    #[serde(borrow, rename = "callID")]
    pub(super) call_id: Str<'a>,
}
