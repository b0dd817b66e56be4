//! Everything that ran on this machine, as one list.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use sabir_core::agent::Agent;
use sabir_core::event::Event;

use crate::account::{self, Session};
use crate::history::{self, Places};
use crate::index::{self, Index, Log};
use crate::layout::Home;
use crate::runs::{self, RunLog, Runs};
use crate::whole::{self, Workspace};

/// All sessions in short.
#[derive(Debug, Default)]
pub struct Past {
    /// The logs that sessions are made of.
    pub logs: Vec<Log>,
    /// In the order of the files, then the runs of the journal.
    pub sessions: Vec<Session>,
    /// Runs that are a part of a session which its agent logged. The session stands for them in lists and sums.
    pub parts: Vec<Session>,
    /// What could not be read, and why.
    pub failures: Vec<(PathBuf, io::Error)>,
}

/// Reads all logs in short, with the index at that path or without one, and the runs of the journal. The watcher hears how
/// many of the files that must be read have been, and how many there are.
pub fn load(
    places: &Places,
    home: Option<&Home>,
    index: Option<&Path>,
    chosen: impl Fn(&Agent) -> bool,
    watch: &mut dyn FnMut(usize, usize),
) -> Past {
    let mut index = index.map_or_else(Index::default, Index::open);
    let found = history::find_in(&mut index, places, &chosen);
    let Runs { runs: mut of_journal, failures: unreadable } = home.map_or_else(Runs::default, |home| {
        let no_list = |error| Runs { failures: vec![(home.path().to_path_buf(), error)], ..Runs::default() };
        runs::runs(home, &mut index).unwrap_or_else(no_list)
    });
    let read = index::read(found.files, index, watch);
    let mut failures: Vec<(PathBuf, io::Error)> = found.failures.into_iter().chain(read.failures).collect();
    let mut logs = read.logs;
    failures.extend(unreadable);
    of_journal.retain(|run| chosen(run.log.file.agent));
    let mut sessions = account::sessions(&logs);
    let ids: HashSet<&str> = match *of_journal {
        [] => HashSet::new(),
        _ => sessions.iter().map(|session| session.id.as_str()).collect(),
    };
    let is_part = |run: &RunLog| run.session.as_deref().is_some_and(|id| ids.contains(id));
    let (parts, alone): (Vec<RunLog>, Vec<RunLog>) = of_journal.into_iter().partition(is_part);
    let mut add = |runs: Vec<RunLog>| {
        let from = logs.len();
        logs.extend(runs.into_iter().map(|run| run.log));
        account::sessions_from(&logs, from)
    };
    let (alone, parts) = (add(alone), add(parts));
    sessions.extend(alone);
    Past { logs, sessions, parts, failures }
}

impl Past {
    /// Decodes a session whole and hands out its events.
    pub fn decode(&self, session: &Session, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        whole::events(session, &self.logs, take)
    }

    /// The same of one of many sessions.
    pub fn decode_in(&self, workspace: &mut Workspace, session: &Session, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        whole::events_in(workspace, session, &self.logs, take)
    }
}
