//! The [`Exporter`] trait: events to records of another format, and what exporters share.
//!
//! An exporter is a pure function of events: the same events give the same bytes. Ids are UUIDs of version 5, derived from
//! the run and a number. Where a format requires a timestamp and the event has none, the last known one is written, or the
//! Unix epoch.

pub mod calls;
pub mod messages;

use serde::Serialize;
use uuid::Uuid;

use crate::event::{Event, ToolKind};
use crate::time::Timestamp;

/// Writes events as records of another format: JSON objects, each followed by LF.
pub trait Exporter: Send {
    /// Appends the records that the next event of the run completes.
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>);

    /// Appends what is left at the end of the run. Formats that are one object are written here.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// What an exporter needs to know beside the events. All of it is optional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The session that an orchestrator gave the run; by default the agent's own session id, else the run's id.
    pub session_id: Option<String>,
    /// The job that the run is part of; by default the run's id.
    pub job_id: Option<String>,
    /// Another id for the run than the events have.
    pub run_id: Option<String>,
    /// Key of the expert that the run plays; by default the agent's id.
    pub expert_key: Option<String>,
    /// Its name; by default its key.
    pub expert_name: Option<String>,
    /// Its version; by default the agent's version.
    pub expert_version: Option<String>,
    /// What the orchestrator calls the agent; by default the agent's id.
    pub adapter: Option<String>,
    /// The workspace that the run works in.
    pub workspace: Option<String>,
    /// The repository that it works on.
    pub repo: Option<String>,
    /// The branch that it works on.
    pub branch: Option<String>,
    /// What the agent was asked.
    pub prompt: Option<String>,
    /// Whether to write records that only help debugging.
    pub logs: bool,
    /// Texts longer than this many bytes are split into fragments, where the format has them.
    pub partial_bytes: usize,
    /// Whether every event is told in our own words as well, where the format has room for them.
    pub events: bool,
    /// The number before that of the first record, where records have numbers: a log that goes on.
    pub after: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            session_id: None,
            job_id: None,
            run_id: None,
            expert_key: None,
            expert_name: None,
            expert_version: None,
            adapter: None,
            workspace: None,
            repo: None,
            branch: None,
            prompt: None,
            logs: false,
            partial_bytes: 256 * 1024,
            events: false,
            after: 0,
        }
    }
}

/// A one-line description of a tool call: the command, the path or another main argument.
pub fn call_detail(kind: ToolKind, title: Option<&str>, input: Option<&str>) -> Option<String> {
    calls::detail(kind, title, input)
}

/// Appends one record and its line end.
pub fn record<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    let before = out.len();
    match serde_json::to_writer(&mut *out, value) {
        Ok(()) => out.push(b'\n'),
        // Our records are made of strings and numbers and cannot fail; half a record would spoil the next one.
        Err(_) => out.truncate(before),
    }
}

/// The timestamp of the last event that had one.
#[derive(Debug, Default)]
pub struct Clock(Option<Timestamp>);

impl Clock {
    /// Advances to the timestamp of an event.
    pub fn observe(&mut self, event: &Event<'_>) {
        self.set(event.at);
    }

    /// Advances to a timestamp, if there is one.
    pub fn set(&mut self, at: Option<Timestamp>) {
        self.0 = at.or(self.0);
    }

    /// The timestamp, or the Unix epoch.
    pub fn now(&self) -> Timestamp {
        self.0.unwrap_or(Timestamp::EPOCH)
    }

    /// Milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        self.now().as_millis()
    }
}

/// Derives ids that are the same for every export of a run, so that sending a record twice is harmless.
#[derive(Debug, Clone, Copy)]
pub struct Ids(Uuid);

impl Ids {
    /// Ids in the namespace of these names.
    pub fn of(names: &[&str]) -> Self {
        Self(names.iter().fold(Uuid::NAMESPACE_OID, |space, name| Uuid::new_v5(&space, name.as_bytes())))
    }

    /// The id of the record with that kind and number.
    pub fn id(&self, what: &str, number: u64) -> String {
        Uuid::new_v5(&self.0, format!("{what}/{number}").as_bytes()).to_string()
    }
}
