//! The event vocabulary, the same for every agent.
//!
//! One [`Event`] is one JSON object: the tag `kind`, the head that every event has (`runId`, `seq`, `at`, `line`,
//! `parentToolCallId`), and the fields of its [`EventKind`]. Keys are camelCase and absent fields are left out. Kinds and
//! fields are declared in one table, in `kind.rs`; the writer, the reader, the JSON Schema and the TypeScript types follow
//! from it.

mod enums;
mod into_field;
mod kind;
mod read;
#[cfg(feature = "schema")]
mod schema;
mod text;
mod types;
pub(crate) mod write;

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::time::Timestamp;

pub use enums::{Cause, Change, ChangeSource, Detection, Outcome, PlanStatus, Timeout, ToolKind, ToolStatus, UsageScope};
pub use into_field::IntoField;
pub use kind::{
    Activity, ErrorEvent, EventKind, Exited, FileChange, Final, Permission, Plan, Prompt, Retry, Session, Started,
    SuggestedEdits, TextDelta, ThinkingDelta, ToolEnd, ToolStart, ToolUpdate, TurnEnd, TurnStart, Unrecognized, Usage,
};
pub use text::Text;
pub use types::{Accounting, ByteRange, CostParts, PermissionOption, PlanItem, SuggestedEdit};

/// Identifier of a run; cheap to clone, since every event carries it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

impl RunId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for RunId {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One normalized record of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<'a> {
    /// The run it belongs to.
    pub run_id: RunId,
    /// Sequence number in the run: dense, from 1.
    pub seq: u64,
    /// The agent's own timestamp, else the time at which the line was read, else `None`.
    pub at: Option<Timestamp>,
    /// 1-based number of the raw line that caused it.
    pub line: Option<u64>,
    /// The tool call that started the sub-agent in which this happened.
    pub parent_tool_call_id: Option<Cow<'a, str>>,
    /// Kind and fields.
    pub kind: EventKind<'a>,
}

/// An event without run and sequence number, as another program or a recording provides it. Fields that follow from the
/// others may be absent in its JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialEvent<'a> {
    /// Timestamp.
    pub at: Option<Timestamp>,
    /// The tool call that started the sub-agent in which this happened.
    pub parent_tool_call_id: Option<Cow<'a, str>>,
    /// Kind and fields.
    pub kind: EventKind<'a>,
}

impl<'a> Event<'a> {
    /// Empties a list of events and keeps its allocation for the events of another line.
    pub fn recycle<'b>(mut events: Vec<Event<'a>>) -> Vec<Event<'b>> {
        events.clear();
        // Collecting an empty vector into one of the same layout keeps its allocation.
        events.into_iter().map(|_: Event<'a>| unreachable!("the list is empty")).collect()
    }

    /// Copies what is borrowed from the line.
    pub fn into_owned(self) -> Event<'static> {
        let Self { run_id, seq, at, line, parent_tool_call_id, kind } = self;
        Event {
            run_id,
            seq,
            at,
            line,
            parent_tool_call_id: parent_tool_call_id.map(|id| Cow::Owned(id.into_owned())),
            kind: kind.into_owned(),
        }
    }

    /// Appends the event as one JSON object, without a newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.kind.write_tag(out);
        write::string(self.run_id.as_str(), out);
        out.extend_from_slice(b",\"seq\":");
        write::integer(self.seq, out);
        if let Some(at) = self.at {
            use std::io::Write as _;
            // Writing to a vector cannot fail.
            let _ = write!(out, ",\"at\":\"{at}\"");
        }
        if let Some(line) = self.line {
            out.extend_from_slice(b",\"line\":");
            write::integer(line, out);
        }
        if let Some(parent) = &self.parent_tool_call_id {
            out.extend_from_slice(b",\"parentToolCallId\":");
            write::string(parent, out);
        }
        self.kind.write_fields(out);
        out.push(b'}');
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind.tag())?;
        map.serialize_entry("runId", self.run_id.as_str())?;
        map.serialize_entry("seq", &self.seq)?;
        if let Some(at) = self.at {
            map.serialize_entry("at", &at)?;
        }
        if let Some(line) = self.line {
            map.serialize_entry("line", &line)?;
        }
        if let Some(parent) = &self.parent_tool_call_id {
            map.serialize_entry("parentToolCallId", parent)?;
        }
        self.kind.serialize_fields(&mut map)?;
        map.end()
    }
}
