//! THE vocabulary: what any agent's run is told in.
//!
//! One [`Event`] is one JSON object: the tag `kind`, the head that every event has (`runId`, `seq`, `at`, `line`,
//! `parentToolCallId`), and the fields of its [`EventKind`]. Keys are camelCase and absent fields are left out. Kinds and
//! fields are declared in one table, in `kind.rs`; the writer, the reader, the JSON Schema and the TypeScript types follow
//! from it.

mod into_field;
mod kind;
mod read;
mod records;
#[cfg(feature = "schema")]
mod schema;
mod text;
mod words;
pub(crate) mod write;

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

pub use into_field::IntoField;
pub use kind::{
    Activity, ErrorEvent, EventKind, Exited, FileChange, Final, Permission, Plan, Prompt, Retry, Session, Started,
    SuggestedEdits, TextDelta, ThinkingDelta, ToolEnd, ToolStart, ToolUpdate, TurnEnd, TurnStart, Unrecognized, Usage,
};
pub use records::{Accounting, ByteRange, CostParts, PermissionOption, PlanItem, SuggestedEdit};
pub use text::Text;
pub use words::{Cause, Change, ChangeSource, Detection, Outcome, PlanStatus, Timeout, ToolKind, ToolStatus, UsageScope};

use crate::time::Timestamp;
use write::Field;

/// Names one run; cheap to clone, since every event carries it.
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

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<'a> {
    /// The run it belongs to.
    pub run_id: RunId,
    /// Its place in the run: dense, from 1.
    pub seq: u64,
    /// When: the agent's own time where it gives one, else when the line was read, else unknown.
    pub at: Option<Timestamp>,
    /// 1-based number of the raw line that caused it.
    pub line: Option<u64>,
    /// The tool call that started the sub-agent which this happened in.
    pub parent_tool_call_id: Option<Cow<'a, str>>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// An event as another program tells it, or as it was recorded: whose it is and its place are left to the reader, and
/// what follows from the rest may be left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Told<'a> {
    /// When.
    pub at: Option<Timestamp>,
    /// The tool call that started the sub-agent which this happened in.
    pub parent_tool_call_id: Option<Cow<'a, str>>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// Names and short texts of the vocabulary: borrowed from the line where they can be.
type Word<'a> = Cow<'a, str>;

impl<'a> Event<'a> {
    /// The emptied list for another line's events, with the memory that it has.
    pub fn recycle<'b>(mut events: Vec<Event<'a>>) -> Vec<Event<'b>> {
        events.clear();
        // Collecting an empty vector into one of the same layout keeps its allocation.
        events.into_iter().map(|_: Event<'a>| unreachable!("the list is empty")).collect()
    }

    /// Copies what is borrowed from the line.
    pub fn into_owned(self) -> Event<'static> {
        let Self { run_id, seq, at, line, parent_tool_call_id, kind } = self;
        Event { run_id, seq, at, line, parent_tool_call_id: parent_tool_call_id.owned(), kind: kind.into_owned() }
    }

    /// Appends the event as one JSON object, without a line end.
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
