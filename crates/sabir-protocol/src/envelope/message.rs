//! The message that the shell protocol sends, and its pieces when it is too long.

use std::borrow::Cow;

use serde::Serialize;

use sabir_core::cut;
use sabir_core::event::{Change, ChangeSource, Outcome, ToolStatus};
use sabir_core::json::RawJson;
use sabir_core::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Info,
    Warn,
    Error,
}

/// Who sends it. What people and backends send comes to a runner, so only the prompt that began the run is theirs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    Runner,
    Backend,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    pub(super) id: String,
    pub(super) session_id: &'a str,
    pub(super) ts: Timestamp,
    pub(super) r#type: &'static str,
    pub(super) level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<String>,
    pub(super) origin: Origin,
    pub(super) seq: u64,
    pub(super) payload: &'a Payload<'a>,
}

type Text<'a> = Cow<'a, str>;

/// A field that its type always has: `null` when the value is not known.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(super) struct Known<T>(pub(super) Option<T>);

/// The fields of all types; each type fills its own.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload<'a> {
    // init
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) adapter: Option<Text<'a>>,
    // event, tool_event
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Text<'a>>,
    // git_event, pr_event, tool_event
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repo: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Details<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<Known<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<Known<Text<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<Text<'a>>,
    // status
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<u8>,
    // command_start, command_output, command_end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cmd: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chunk: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<Known<i32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<Known<u64>>,
    // file_change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<Text<'a>>,
    // tool_event
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Text<'a>>,
    // result
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifacts: Option<Vec<Artifact<'a>>>,
    // error
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Text<'a>>,
    // log, prompt, event
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) json: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Meta<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partial: Option<Partial>,
}

/// A file that the run leaves.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Artifact<'a> {
    pub(super) path: Text<'a>,
    pub(super) sha256: Text<'a>,
    pub(super) bytes: u64,
}

/// What a git command did, beyond repository and branch.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Details<'a> {
    pub(super) command: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<Text<'a>>,
}

/// What the protocol has no field for.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    /// Who speaks in a log: `assistant`, `thinking` or `activity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_id: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_tool_call_id: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<ToolStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) removed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<ChangeSource>,
    /// The chunk is all of the output, not the next piece of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fatal: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workspace: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_version: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_session_id: Option<Text<'a>>,
    /// The number of the order that the message is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<u64>,
    /// Whether the order is carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) accepted: Option<bool>,
    /// Who gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<Text<'a>>,
    /// The field whose text is in fragments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partial_field: Option<&'static str>,
}

/// Which fragment of a text this is; `index` counts from 0.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Partial {
    pub(super) id: String,
    pub(super) index: usize,
    pub(super) total: usize,
}

/// A field that may be long.
#[derive(Debug, Clone, Copy)]
enum Field {
    Text,
    Chunk,
    Diff,
    Cmd,
    Result,
    Summary,
    Message,
    Args,
    Json,
}

impl Field {
    const ALL: &[Self] =
        &[Self::Text, Self::Chunk, Self::Diff, Self::Cmd, Self::Result, Self::Summary, Self::Message, Self::Args, Self::Json];

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Chunk => "chunk",
            Self::Diff => "diff",
            Self::Cmd => "cmd",
            Self::Result => "result",
            Self::Summary => "summary",
            Self::Message => "message",
            Self::Args => "args",
            Self::Json => "json",
        }
    }
}

impl<'a> Payload<'a> {
    fn get(&self, field: Field) -> Option<&str> {
        match field {
            Field::Text => self.text.as_deref(),
            Field::Chunk => self.chunk.as_deref(),
            Field::Diff => self.diff.as_deref(),
            Field::Cmd => self.cmd.as_deref(),
            Field::Result => self.result.as_deref(),
            Field::Summary => self.summary.as_deref(),
            Field::Message => self.message.as_deref(),
            Field::Args => self.args.as_ref().map(RawJson::get),
            Field::Json => self.json.as_ref().map(RawJson::get),
        }
    }

    fn set(&mut self, field: Field, piece: &str) {
        let text = || Some(Cow::Owned(piece.to_owned()));
        // A piece of an object is none, so the pieces of its JSON text are sent as strings.
        let json = || Some(RawJson::of(&piece));
        match field {
            Field::Text => self.text = text(),
            Field::Chunk => self.chunk = text(),
            Field::Diff => self.diff = text(),
            Field::Cmd => self.cmd = text(),
            Field::Result => self.result = text(),
            Field::Summary => self.summary = text(),
            Field::Message => self.message = text(),
            Field::Args => self.args = json(),
            Field::Json => self.json = json(),
        }
    }

    /// The payload in fragments whose long field joins to the same bytes; `None` when nothing in it is longer than
    /// `limit`. Every fragment has all the other fields.
    pub(super) fn fragments(&self, limit: usize, id: impl FnOnce() -> String) -> Option<Vec<Payload<'a>>> {
        let (field, text) = Field::ALL
            .iter()
            .filter_map(|field| Some((*field, self.get(*field)?)))
            .filter(|(_, text)| text.len() > limit)
            .max_by_key(|(_, text)| text.len())?;
        let pieces = pieces(text, limit);
        let mut rest = self.clone();
        rest.set(field, "");
        rest.meta.get_or_insert_default().partial_field = Some(field.name());
        let (id, total) = (id(), pieces.len());
        let fragment = |(index, piece): (usize, &&str)| {
            let mut fragment = rest.clone();
            fragment.set(field, piece);
            fragment.partial = Some(Partial { id: id.clone(), index, total });
            fragment
        };
        Some(pieces.iter().enumerate().map(fragment).collect())
    }
}

/// A text in pieces of at most `limit` bytes, cut between characters.
fn pieces(text: &str, limit: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = cut::before(rest, limit);
        if end == 0 {
            // No room for a single character: one at a time is as small as it gets.
            end = rest.chars().next().map_or(rest.len(), char::len_utf8);
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_join_to_the_same_bytes() {
        let text = "aé😀z".repeat(50);
        for limit in [0, 1, 2, 3, 7, 64, 1_000] {
            let pieces = pieces(&text, limit);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| piece.len() <= limit.max(4) && !piece.is_empty()));
        }
    }
}
