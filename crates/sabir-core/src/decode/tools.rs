//! The tool calls that are open, and the ids that were used.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::dialect::RecentIds;
use crate::event::ToolKind;
use crate::time::Timestamp;

/// A call that began and has not ended.
#[derive(Debug)]
pub(super) struct OpenTool {
    /// The id that events use: the agent's own, unless that was used before.
    pub(super) public_id: String,
    pub(super) kind: ToolKind,
    /// The arguments, kept only where a file change may be inferred from them.
    pub(super) input: Option<String>,
    has_input: bool,
    pub(super) change_reported: bool,
    pub(super) started_at: Option<Timestamp>,
    pub(super) parent: Option<String>,
    order: u64,
}

/// What a start means.
#[derive(Debug, PartialEq)]
pub(super) enum Begun {
    /// A new call.
    New,
    /// A new call whose id was used by an earlier one; this is its id in the events.
    Renamed(String),
    /// The call is open already; `news` when the arguments were not known before.
    Open { news: bool },
}

#[derive(Debug, Default)]
pub(super) struct Tools {
    /// In boxes, since mostly one is open at a time: a map has room for many from the first one on.
    open: BTreeMap<String, Box<OpenTool>>,
    /// Hashes of the ids of ended calls.
    closed: RecentIds,
    begun: u64,
}

impl Tools {
    pub(super) fn begin(
        &mut self,
        id: &str,
        kind: ToolKind,
        input: Option<&str>,
        at: Option<Timestamp>,
        parent: Option<&str>,
    ) -> Begun {
        if self.open.contains_key(id) {
            return Begun::Open { news: input.is_some_and(|input| self.input(id, input)) };
        }
        self.begun += 1;
        let public_id = if self.closed.contains(hash(id)) { format!("{id}~{}", self.begun) } else { id.to_owned() };
        let begun = if public_id == id { Begun::New } else { Begun::Renamed(public_id.clone()) };
        let changes_files = matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move);
        let tool = Box::new(OpenTool {
            public_id,
            kind,
            input: input.filter(|_| changes_files).map(str::to_owned),
            has_input: input.is_some(),
            change_reported: false,
            started_at: at,
            parent: parent.map(str::to_owned),
            order: self.begun,
        });
        self.open.insert(id.to_owned(), tool);
        begun
    }

    /// Takes note of arguments that came late; false when they were known.
    pub(super) fn input(&mut self, id: &str, input: &str) -> bool {
        match self.open.get_mut(id) {
            Some(tool) if tool.has_input => false,
            Some(tool) => {
                tool.has_input = true;
                if matches!(tool.kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move) {
                    tool.input = Some(input.to_owned());
                }
                true
            }
            None => true,
        }
    }

    /// Takes note that the agent itself reports what the call changed; gives the call's id in the events.
    pub(super) fn reported_change(&mut self, id: &str) -> String {
        match self.open.get_mut(id) {
            Some(tool) => {
                tool.change_reported = true;
                tool.public_id.clone()
            }
            None => id.to_owned(),
        }
    }

    pub(super) fn public_id(&self, id: &str) -> Option<&str> {
        self.open.get(id).map(|tool| tool.public_id.as_str())
    }

    pub(super) fn is_closed(&self, id: &str) -> bool {
        !self.open.contains_key(id) && self.closed.contains(hash(id))
    }

    pub(super) fn end(&mut self, id: &str) -> Option<OpenTool> {
        let tool = self.open.remove(id)?;
        self.closed.insert(hash(id));
        Some(*tool)
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The number of the oldest call that is open.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.open.values().map(|tool| tool.order).min()
    }

    /// All open calls, in the order in which they began.
    pub(super) fn close_all(&mut self) -> Vec<OpenTool> {
        let mut tools: Vec<OpenTool> = std::mem::take(&mut self.open).into_values().map(|tool| *tool).collect();
        tools.sort_by_key(|tool| tool.order);
        tools
    }
}

fn hash(id: &str) -> u64 {
    // `DefaultHasher::new` has fixed keys: the same lines give the same events.
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
