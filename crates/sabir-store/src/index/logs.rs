//! Logs read in short, as far as they are not known.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use sabir_core::line::LineBuffer;
use serde::{Deserialize, Serialize};

use super::{Index, Kind, write};
use crate::history::{LINE_CAP, LogFile, Progress, Role, note_database, note_file};
use crate::index::summary::Account;
use crate::parallel::Plan;

/// A log and what it says in short. Of a database there are several, one for each session.
#[derive(Debug)]
pub struct Log {
    /// The file. What a database holds of a session has the role that it has for the session.
    pub file: LogFile,
    /// What it says.
    pub account: Account,
    /// How far it was read.
    pub progress: Progress,
}

/// All logs, and what could not be read.
#[derive(Debug, Default)]
pub struct Logs {
    /// In the order of the files, those of databases behind the others.
    pub logs: Vec<Log>,
    /// Files that could not be read, and why.
    pub failures: Vec<(PathBuf, io::Error)>,
    /// How many files were read, at least in part.
    pub files_read: usize,
}

/// How a log was when it was read. Its account is the rest of the entry.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct LogEntry {
    stamp: Stamp,
    progress: Progress,
}

/// How a database was. The accounts of its sessions are the rest of the entry, one behind another. They are one entry:
/// without one of them, the others would be half an answer.
#[derive(Serialize, Deserialize)]
struct DatabaseEntry {
    stamp: Stamp,
    /// What each is, and how many bytes its account takes.
    sessions: Vec<(Role, usize)>,
}

/// What a file was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    identity: (u64, u64),
    size: u64,
    modified: i64,
    changed: i64,
}

impl Stamp {
    fn of(file: &LogFile) -> Self {
        Self { identity: file.identity, size: file.size, modified: file.modified, changed: file.changed }
    }

    /// Whether it may be the same file as this one, before more was written to it. What is as long as it was and was written
    /// all the same is another one.
    fn may_have_become(&self, now: &Self) -> bool {
        self.identity == now.identity && self.size < now.size
    }
}

/// A file that must be read.
struct Job {
    /// Where its log is in the list.
    place: usize,
    /// What was known of it before it has grown.
    known: Option<(Account, Progress)>,
}

/// What was read of a file.
enum Reading {
    Log(Account, Progress),
    Database(Vec<(Role, Account)>),
}

impl Job {
    /// Reads what is new in a log, or a database from the start: any row of it may have changed.
    fn read(&self, file: &LogFile, lines: &mut LineBuffer) -> io::Result<Reading> {
        if file.role == Role::Database {
            let sessions = note_database(file)?;
            return Ok(Reading::Database(sessions.into_iter().map(|(role, ledger)| (role, Account::of(&ledger))).collect()));
        }
        let known = self.known.as_ref().and_then(|(account, progress)| Some((account.ledger()?, *progress)));
        let (mut ledger, mut progress) = known.unwrap_or_default();
        note_file(file, &mut ledger, &mut progress, lines)?;
        Ok(Reading::Log(Account::of(&ledger), progress))
    }

    /// How many bytes of the file there are to read, about.
    fn rest(&self, file: &LogFile) -> u64 {
        file.size.saturating_sub(self.known.as_ref().map_or(0, |(_, progress)| progress.read_to))
    }
}

impl Index {
    /// What a log said when it was read, and how it was then.
    fn log(&mut self, file: &LogFile) -> Option<(LogEntry, Account)> {
        let (how, account) = self.recall(Kind::Log, &file.path)?;
        Some((how, Account::read(account)?))
    }

    /// What a database says, if it is still as it was.
    fn database(&mut self, file: &LogFile) -> Option<Vec<(Role, Account)>> {
        if file.role != Role::Database {
            return None;
        }
        let (DatabaseEntry { stamp, sessions }, mut rest): (_, Bytes) = self.recall(Kind::Database, &file.path)?;
        let of_session = |(role, length): (Role, usize)| {
            let account = (length <= rest.len()).then(|| rest.split_to(length))?;
            Some((role, Account::read(account)?))
        };
        (stamp == Stamp::of(file)).then(|| sessions.into_iter().map(of_session).collect())?
    }
}

/// Reads the logs in short, with what the index knows. The watcher hears how many of the files that must be read have been,
/// and how many there are.
pub fn read(files: Vec<LogFile>, mut index: Index, watch: &mut dyn FnMut(usize, usize)) -> Logs {
    let mut logs: Vec<Log> = Vec::with_capacity(files.len());
    let (mut databases, mut jobs): (Vec<Log>, Vec<Job>) = (Vec::new(), Vec::new());
    for file in files {
        if let Some(sessions) = index.database(&file) {
            databases.extend(of_database(&file, sessions));
            continue;
        }
        let stamp = Stamp::of(&file);
        let (account, progress) = match index.log(&file) {
            Some((how, account)) if how.stamp == stamp => (account, how.progress),
            known => {
                let known = known.filter(|(how, _)| how.stamp.may_have_become(&stamp));
                jobs.push(Job { place: logs.len(), known: known.map(|(how, account)| (account, how.progress)) });
                Default::default()
            }
        };
        logs.push(Log { file, account, progress });
    }
    let outcomes = read_all(&mut jobs, &logs, watch);
    let (mut changed, mut failures) = (Vec::with_capacity(jobs.len()), Vec::new());
    // Places of what is no log.
    let mut none = HashSet::new();
    for (Job { place, .. }, outcome) in jobs.iter().zip(outcomes) {
        let log = &mut logs[*place];
        match outcome {
            Ok(Reading::Log(account, progress)) => {
                (log.account, log.progress) = (account, progress);
                changed.push(Change::Log(*place));
                continue;
            }
            Ok(Reading::Database(sessions)) => {
                let start = databases.len();
                databases.extend(of_database(&log.file, sessions));
                changed.push(Change::Database(start..databases.len()));
            }
            Err(error) => failures.push((log.file.path.clone(), error)),
        }
        none.insert(*place);
    }
    // Who looks at them in the order of the files the next time goes on in memory as it goes on in the list.
    changed.sort_by_key(Change::place);
    let entries: Vec<Entry<'_>> = changed.into_iter().map(|change| change.entry(&logs, &databases)).collect();
    // Who cannot write the index reads more the next time; nothing else is lost.
    let _ = index.keep(&entries);
    if !none.is_empty() {
        let mut places = 0..;
        logs.retain(|_| places.next().is_none_or(|place| !none.contains(&place)));
    }
    logs.append(&mut databases);
    Logs { logs, failures, files_read: jobs.len() }
}

/// Reads what must be read; outcomes are in the order that the jobs have afterwards.
fn read_all(jobs: &mut [Job], logs: &[Log], watch: &mut dyn FnMut(usize, usize)) -> Vec<io::Result<Reading>> {
    // The largest first, so that no core is left with one at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.rest(&logs[job.place].file)));
    let mut outcomes = Vec::with_capacity(jobs.len());
    let Ok(()) = Plan { window: jobs.len() }.run(
        jobs,
        || LineBuffer::new(LINE_CAP),
        |lines, job| job.read(&logs[job.place].file, lines),
        &mut |count| watch(count, jobs.len()),
        |outcome| {
            outcomes.push(outcome);
            Ok::<(), Infallible>(())
        },
    );
    outcomes
}

/// The logs that a database is.
fn of_database(file: &LogFile, sessions: Vec<(Role, Account)>) -> impl Iterator<Item = Log> {
    let progress = Progress::default();
    sessions.into_iter().map(move |(role, account)| Log { file: LogFile { role, ..file.clone() }, account, progress })
}

/// A file that was read, by the place of its logs.
enum Change {
    Log(usize),
    Database(Range<usize>),
}

/// What is to be kept of a file.
enum Entry<'l> {
    Log(&'l Log),
    Database(&'l [Log]),
}

impl Change {
    /// Where it comes among the others.
    fn place(&self) -> usize {
        match self {
            Self::Log(place) => *place,
            Self::Database(_) => usize::MAX,
        }
    }

    fn entry<'l>(self, logs: &'l [Log], databases: &'l [Log]) -> Entry<'l> {
        match self {
            Self::Log(place) => Entry::Log(&logs[place]),
            Self::Database(range) => Entry::Database(&databases[range]),
        }
    }
}

impl<'l> Entry<'l> {
    /// Its kind, and its path if that is a text: a file whose path is none is read each time.
    fn key(&self) -> Option<(Kind, &'l str)> {
        let (kind, log) = match self {
            Self::Log(log) => (Kind::Log, *log),
            Self::Database(sessions) => (Kind::Database, sessions.first()?),
        };
        Some((kind, log.file.path.to_str()?))
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match (self, self.key()) {
            (Self::Log(Log { file, account, progress }), Some((kind, path))) => {
                let how = LogEntry { stamp: Stamp::of(file), progress: *progress };
                write(kind, path, &how, [account.as_bytes()], bytes);
            }
            (Self::Database(sessions @ [first, ..]), Some((kind, path))) => {
                let lengths = sessions.iter().map(|log| (log.file.role.clone(), log.account.as_bytes().len())).collect();
                let how = DatabaseEntry { stamp: Stamp::of(&first.file), sessions: lengths };
                write(kind, path, &how, sessions.iter().map(|log| log.account.as_bytes()), bytes);
            }
            _ => {}
        }
    }
}

impl Index {
    /// Keeps what was read anew.
    fn keep(&mut self, entries: &[Entry<'_>]) -> io::Result<()> {
        entries.iter().filter_map(Entry::key).for_each(|(kind, path)| self.forget(kind, path));
        self.save(entries.len(), |number, bytes| entries[number].write(bytes))
    }
}
