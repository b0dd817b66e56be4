//! Views: the same events in other people's words.
//!
//! A view is a pure function of events: it reads no clock and rolls no dice, so the same events always give the same
//! bytes. Ids are UUIDs of version 5, made from the run and a number. A format that must have a time where the event has
//! none gets the last time that an event had and, before any, the Unix epoch.
//!
//! This is the only place where foreign field names are written. Each view keeps them in private structs of its own.

mod calls;
pub mod envelope;
pub mod jobs;
mod perstack;
mod runner;
mod speech;

use serde::Serialize;
use uuid::Uuid;

use crate::event::{Event, ToolKind};
use crate::time::Timestamp;

/// Events in, somebody else's records out: JSON objects, each followed by LF.
pub trait View: Send {
    /// Takes the next event of the run and appends the records that it completes.
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>);

    /// There are no more events: appends what was held back. Views of one object write it here.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// One view, as data.
#[derive(Debug, Clone, Copy)]
pub struct ViewEntry {
    /// What users type after `--to`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// A new view of one run.
    pub new: fn(&Options) -> Box<dyn View>,
}

/// Every view. The order is that of the lists that people see.
pub const ALL: &[ViewEntry] = &[
    ViewEntry {
        name: "runner",
        about: "thought, action, response, final, log and error",
        new: |options| Box::new(runner::Runner::new(options)),
    },
    ViewEntry {
        name: "perstack",
        about: "Perstack's runtime and run events, with the checkpoint in the last one",
        new: |options| Box::new(perstack::Perstack::events(options)),
    },
    ViewEntry {
        name: "perstack-checkpoint",
        about: "Perstack's checkpoint of the whole run, one object",
        new: |options| Box::new(perstack::Perstack::checkpoint(options)),
    },
    ViewEntry {
        name: "perstack-output",
        about: "tool events and the final output, one object",
        new: |options| Box::new(perstack::Perstack::output(options)),
    },
    ViewEntry {
        name: "envelope",
        about: "the messages of a runner shell: init, status, log, command, file, git, result and the rest",
        new: |options| Box::new(envelope::Envelope::new(options)),
    },
];

/// The view of that name.
pub fn find(name: &str) -> Option<&'static ViewEntry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// What a view wants to know that events do not tell. All of it is optional.
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

/// What a call does, in one short line: the command, the path, whatever its kind is about.
pub fn call_detail(kind: ToolKind, title: Option<&str>, input: Option<&str>) -> Option<String> {
    calls::detail(kind, title, input)
}

/// Appends one record and its line end.
fn record<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    let before = out.len();
    match serde_json::to_writer(&mut *out, value) {
        Ok(()) => out.push(b'\n'),
        // Our records are made of strings and numbers and cannot fail; half a record would spoil the next one.
        Err(_) => out.truncate(before),
    }
}

/// The last time that was heard.
#[derive(Debug, Default)]
struct Clock(Option<Timestamp>);

impl Clock {
    fn hear(&mut self, event: &Event<'_>) {
        self.0 = event.at.or(self.0);
    }

    fn now(&self) -> Timestamp {
        self.0.unwrap_or(Timestamp::EPOCH)
    }

    fn millis(&self) -> i64 {
        self.now().as_millis()
    }
}

/// Ids that are the same whenever the same run is viewed again, so that sending a record twice is harmless.
#[derive(Debug, Clone, Copy)]
struct Ids(Uuid);

impl Ids {
    /// Ids of what those names say together.
    fn of(names: &[&str]) -> Self {
        Self(names.iter().fold(Uuid::NAMESPACE_OID, |space, name| Uuid::new_v5(&space, name.as_bytes())))
    }

    fn id(&self, what: &str, number: u64) -> String {
        Uuid::new_v5(&self.0, format!("{what}/{number}").as_bytes()).to_string()
    }
}
