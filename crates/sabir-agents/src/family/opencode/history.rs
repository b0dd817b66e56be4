//! The session database as JSON lines: one per row, written by the reader of the database.
//!
//! ```text
//! {"table":"session","id":…,"parent":…,"directory":…,"title":…,"version":…,"created":…,"updated":…}
//! {"table":"message","session":…,"id":…,"created":…,"data":{…}}
//! {"table":"part","session":…,"message":…,"id":…,"created":…,"data":{…}}
//! ```
//!
//! A session comes first, then its messages in order, each followed by its parts, then the sessions of its sub-agents.
//! `data` is the verbatim column of that name. For a scan ([`note`]), rows may be cut after the fields that it reads.
//!
//! Pitfalls:
//! - A message has the usage of its last step but the cost of all steps, so the steps are counted instead.
//! - A forked session has copies of messages under new ids, with the same timestamps.

mod decode;
mod note;

use serde::Deserialize;

use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::json::{self, Str, Unread};

pub(crate) use note::{enough, note};

/// The dialect of the rows.
pub(crate) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "rows of the database of sessions, one JSON object each", detect, decode::Rows::default)
}

fn detect(line: &str) -> Confidence {
    let Some(row) = json::parse::<Row<'_>>(line) else { return Confidence::None };
    match &*row.table {
        "session" => Confidence::certain_if(row.id.starts_with("ses_")),
        "message" | "part" => Confidence::certain_if(row.session.is_some_and(|id| id.starts_with("ses_")) && row.data.is_some()),
        _ => Confidence::None,
    }
}

/// A row of any table.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Row<'a> {
    table: Str<'a>,
    id: Str<'a>,
    session: Option<Str<'a>>,
    message: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    created: Option<i64>,
    data: Option<Unread<'a>>,
    // session
    directory: Option<Str<'a>>,
    title: Option<Str<'a>>,
    version: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    updated: Option<i64>,
}

/// The data of a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Message<'a> {
    role: Str<'a>,
    #[serde(default, rename = "modelID", deserialize_with = "json::lenient")]
    model_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    time: Option<Times>,
    #[serde(default, deserialize_with = "json::lenient")]
    tokens: Option<super::wire::Tokens>,
    #[serde(default, deserialize_with = "json::lenient")]
    cost: Option<f64>,
    #[serde(default, deserialize_with = "json::lenient")]
    finish: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    error: Option<super::wire::Failure<'a>>,
    /// An object in messages of the user, which is ignored.
    #[serde(default, deserialize_with = "json::lenient")]
    summary: Option<bool>,
}

#[derive(Deserialize, Clone, Copy)]
struct Times {
    created: Option<i64>,
    completed: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::{Confidence, detect};

    #[test]
    fn detects_rows() {
        assert_eq!(detect(r#"{"table":"session","id":"ses_1","directory":"/home/user"}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"table":"part","session":"ses_1","id":"prt_1","data":{"type":"text"}}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"table":"part","session":"ses_1","id":"prt_1"}"#), Confidence::None);
        assert_eq!(detect(r#"{"table":"users","id":"ses_1"}"#), Confidence::None);
        assert_eq!(detect("text"), Confidence::None);
    }
}
