//! Files that changed in a step without a tool that says so, such as by a command.
//!
//! After a step the server names all files that differ from before it; what became of them, its file watcher tells.

use std::collections::{BTreeMap, BTreeSet};

use sabir_core::dialect::Facts;
use sabir_core::event::{Change, EventKind, FileChange};
use sabir_core::json::Str;

use super::wire::FileEvent;

/// How many files are watched in a step; of more, only that they changed is known.
const WATCHED: usize = 1024;

/// The files of the main session's open step, sub-agents included.
#[derive(Default)]
pub(super) struct Changes {
    watched: BTreeMap<String, Change>,
    reported: BTreeSet<String>,
}

impl Changes {
    /// A step of the main session begins.
    pub(super) fn step_start(&mut self) {
        self.watched.clear();
        self.reported.clear();
    }

    /// The watcher saw a file change.
    pub(super) fn watched(&mut self, event: &FileEvent<'_>) {
        let change = match &*event.event {
            "add" => Change::Create,
            "unlink" => Change::Delete,
            _ => Change::Update,
        };
        if let Some(before) = self.watched.get_mut(&*event.file) {
            // A new file that is written once more is still new.
            if (*before, change) != (Change::Create, Change::Update) {
                *before = change;
            }
        } else if self.watched.len() < WATCHED {
            self.watched.insert((*event.file).to_owned(), change);
        }
    }

    /// Takes note of the changes that a tool call reported.
    pub(super) fn reported(&mut self, facts: &Facts<'_>) {
        for fact in facts.iter() {
            if let EventKind::FileChange(FileChange { path, from, .. }) = &fact.kind {
                self.reported.extend([Some(path), from.as_ref()].into_iter().flatten().map(|path| path.clone().into_owned()));
            }
        }
    }

    /// The files that differ after the step.
    pub(super) fn patch<'a>(&mut self, files: Vec<Str<'a>>, facts: &mut Facts<'a>) {
        for file in files {
            if self.reported.insert((*file).to_owned()) {
                let change = self.watched.get(&*file).copied().unwrap_or(Change::Update);
                facts.push(FileChange::new(file, change));
            }
        }
    }
}
