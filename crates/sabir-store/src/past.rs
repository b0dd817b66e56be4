//! Everything that ran on this machine, as one list.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use sabir_core::agent::Agent;
use sabir_core::event::Event;

use crate::account::{self, Session};
use crate::history::{self, Places, Role};
use crate::index::{self, Index, Log};
use crate::layout::Home;
use crate::reader::Damage;
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
    /// Runs whose journal is damaged, by their ids.
    pub damaged: BTreeMap<String, Damage>,
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
        runs::runs(home, &places.registry, &mut index).unwrap_or_else(no_list)
    });
    let read = index::read(found.files, index, watch);
    let mut failures: Vec<(PathBuf, io::Error)> = found.failures.into_iter().chain(read.failures).collect();
    let mut logs = read.logs;
    failures.extend(unreadable);
    of_journal.retain(|run| chosen(&run.log.file.agent));
    let damaged = of_journal.iter().filter(|run| !run.damage.is_none()).filter_map(|run| match &run.log.file.role {
        Role::Run(folder) => Some((folder.id().to_owned(), run.damage)),
        _ => None,
    });
    let damaged = damaged.collect();
    let mut sessions = account::sessions(&logs);
    let wholes = wholes(&of_journal, &sessions, &logs);
    let (mut parts, mut alone) = (Vec::new(), Vec::new());
    for (run, whole) in of_journal.into_iter().zip(wholes) {
        match whole {
            Some(whole) => parts.push((run, whole)),
            None => alone.push(run.log),
        }
    }
    let mut add = |runs: &mut dyn Iterator<Item = Log>| {
        let from = logs.len();
        logs.extend(runs);
        account::sessions_from(&logs, from)
    };
    let alone = add(&mut alone.into_iter());
    let (runs, ends): (Vec<Log>, Vec<_>) = parts.into_iter().map(|(run, whole)| (run.log, (whole, run.state, run.ended))).unzip();
    let parts = add(&mut runs.into_iter());
    for (part, (whole, state, ended)) in parts.iter().zip(ends) {
        sessions[whole].end_by(part, state, ended, &logs);
    }
    sessions.extend(alone);
    Past { logs, sessions, parts, failures, damaged }
}

/// Of each run, the session that its agent logged, as a place in the list. Nearly all agents tell its id. Where one does not,
/// or was stopped before it did, it is the only session of that agent which began in the same folder while the run went on
/// and used as many tokens. A run that knows of no tokens may have used some, so of several sessions that is the one with the
/// same prompt.
fn wholes(runs: &[RunLog], sessions: &[Session], logs: &[Log]) -> Vec<Option<usize>> {
    if runs.is_empty() {
        return Vec::new();
    }
    let by_id: HashMap<(&str, &str), usize> =
        sessions.iter().enumerate().map(|(place, session)| ((session.agent.id.as_str(), &*session.id), place)).collect();
    let told = |run: &RunLog| by_id.get(&(run.log.file.agent.id.as_str(), run.session.as_deref()?)).copied();
    let taken: HashSet<usize> = runs.iter().filter_map(told).collect();
    let whole = |run: &RunLog| {
        if run.session.is_some() {
            return told(run);
        }
        let mut alike: Vec<usize> = (0..sessions.len()).filter(|place| is_alike(run, &sessions[*place], logs)).collect();
        match run.log.account.totals().spent.total() {
            0 => {
                alike.retain(|place| !taken.contains(place));
                if alike.len() > 1 {
                    let title = run.log.account.title();
                    alike.retain(|place| title.is_some() && sessions[*place].account(logs).title() == title);
                }
            }
            tokens => alike.retain(|place| sessions[*place].spent(logs).total() == tokens),
        }
        if let [one] = *alike { Some(one) } else { None }
    };
    runs.iter().map(whole).collect()
}

/// Whether a session is of the run's agent, in its folder, and began while it went on.
fn is_alike(run: &RunLog, session: &Session, logs: &[Log]) -> bool {
    let began = session.first.filter(|first| run.log.account.first() <= Some(*first) && Some(*first) <= run.ended);
    began.is_some()
        && session.agent.id == run.log.file.agent.id
        && run.log.account.cwd().is_some_and(|cwd| session.account(logs).cwd() == Some(cwd))
}

impl Past {
    /// What of a session's journal can't be read; `None` where all of it can, or Sabir did not run it.
    pub fn damage(&self, session: &Session) -> Option<(&str, Damage)> {
        let (run, damage) = self.damaged.get_key_value(whole::run_behind(session, &self.logs)?.id())?;
        Some((run, *damage))
    }

    /// Decodes a session whole and hands out its events. Tells what of a journal can't be read.
    pub fn decode(&self, session: &Session, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<Damage> {
        whole::events(session, &self.logs, take)
    }

    /// The same of one of many sessions.
    pub fn decode_in(
        &self,
        workspace: &mut Workspace,
        session: &Session,
        take: &mut dyn FnMut(&Event<'_>),
    ) -> io::Result<Damage> {
        whole::events_in(workspace, session, &self.logs, take)
    }
}
