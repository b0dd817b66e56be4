//! What was read in short, kept: only what changed is read again.
//!
//! The index is a cache and nothing else. Each file's entry counts only while the file's identity, size and time of
//! writing are what they were; a file that has grown is read from where it ended. An index of another version, a broken
//! one, or an entry whose digest is wrong is thrown away and made anew, so the answer is the same with and without it.

mod entry;
mod file;
mod remembered;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};

use sabir_core::history::Ledger;
use sabir_core::line::LineBuffer;

use crate::history::{Folders, LINE_CAP, LogFile, Progress, Role, note_database, note_file};
use crate::parallel::Plan;
use crate::runs::KnownRun;
use entry::{Entry, Kept, Known, Stamp};
use file::IndexFile;
pub(crate) use remembered::Remembered;

/// About as many bytes as the index has for a log, and for how many of them there is room before they are read.
const BYTES_OF_A_LOG: u64 = 1024;
const MOST_AT_ONCE: usize = 1 << 16;

/// What is known, by path.
type ByPath<T> = HashMap<String, T, foldhash::fast::RandomState>;

/// A log and what it says in short. Of a database there are several, one for each session.
#[derive(Debug)]
pub struct Log {
    /// The file. What a database holds of a session has the role that it has for the session.
    pub file: LogFile,
    /// What it says.
    pub ledger: Box<Ledger>,
    /// How far it was read.
    pub progress: Progress,
}

/// A file and what was read of it.
#[derive(Debug)]
struct Reading {
    file: LogFile,
    /// What a log says.
    ledger: Box<Ledger>,
    /// What a database says, by session.
    sessions: Vec<(Role, Ledger)>,
    progress: Progress,
}

impl Reading {
    /// Reads what is new in a log, or a database from the start: any row of it may have changed.
    fn read(&self, lines: &mut LineBuffer) -> io::Result<Self> {
        let Self { file, ledger, progress, .. } = self;
        let (mut ledger, mut progress, mut sessions) = (ledger.clone(), *progress, Vec::new());
        match file.role {
            Role::Database => sessions = note_database(file)?,
            _ => note_file(file, &mut ledger, &mut progress, lines)?,
        }
        sessions.iter_mut().map(|(_, ledger)| ledger).chain([&mut *ledger]).for_each(|ledger| ledger.responses.close());
        Ok(Self { file: file.clone(), ledger, sessions, progress })
    }

    /// The entry of it. A path that is no text has none, and its file is read each time.
    fn kept(&self) -> Option<Kept<'_>> {
        let Self { file, ledger, sessions, progress } = self;
        Some(Entry::Log { path: file.path.to_str()?, stamp: Stamp::of(file), progress: *progress, ledger, sessions })
    }

    fn give(self, logs: &mut Vec<Log>) {
        let Self { file, ledger, sessions, progress } = self;
        match file.role {
            Role::Database => {
                let log = |(role, ledger)| Log { file: LogFile { role, ..file.clone() }, ledger: Box::new(ledger), progress };
                logs.extend(sessions.into_iter().map(log));
            }
            _ => logs.push(Log { file, ledger, progress }),
        }
    }
}

/// All logs, and what could not be read.
#[derive(Debug, Default)]
pub struct Logs {
    /// In the order of the files.
    pub logs: Vec<Log>,
    /// Files that could not be read, and why.
    pub failures: Vec<(PathBuf, io::Error)>,
    /// How many files were read, at least in part.
    pub files_read: usize,
}

/// What is known from earlier readings.
#[derive(Debug)]
pub struct Index {
    file: IndexFile,
    /// What logs say, by path.
    logs: ByPath<Row>,
    /// What folders hold.
    pub folders: Folders,
    /// What runs tell that are over.
    pub(crate) runs: Remembered<KnownRun>,
    /// How many bytes of the file say what no other entry says again.
    counting: u64,
}

/// What is known of a file.
#[derive(Debug)]
struct Row {
    stamp: Stamp,
    ledger: Box<Ledger>,
    sessions: Vec<(Role, Ledger)>,
    progress: Progress,
    /// How many bytes the index takes for it.
    bytes: u64,
}

impl Row {
    fn kept<'k>(&'k self, path: &'k str) -> Kept<'k> {
        let Self { stamp, ledger, sessions, progress, .. } = self;
        Entry::Log { path, stamp: *stamp, progress: *progress, ledger, sessions }
    }
}

impl Index {
    /// Opens the index at that path and reads it. One that can't be used is empty.
    pub fn open(path: &Path) -> Self {
        let mut logs: ByPath<Row> = ByPath::default();
        // Most entries are of logs, and most of these have some hundred responses.
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        logs.reserve(usize::try_from(size / BYTES_OF_A_LOG).unwrap_or(0).min(MOST_AT_ONCE));
        let (mut folders, mut runs, mut counting) = (Folders::default(), Remembered::default(), 0);
        let file = IndexFile::open(path, &mut |entry: Known<'_>, bytes| {
            counting += bytes;
            counting -= match entry {
                Entry::Log { path, stamp, progress, ledger, sessions } => {
                    let row = Row { stamp, ledger, sessions, progress, bytes };
                    logs.insert(path.to_owned(), row).map_or(0, |old| old.bytes)
                }
                Entry::Folder { path, listing } => folders.0.know(path, listing, bytes),
                Entry::Run { path, run } => runs.know(path, run, bytes),
            };
        });
        Self { file, logs, folders, runs, counting }
    }

    /// Keeps what was read anew. What is gone harms nobody, so it is forgotten when much is.
    fn save(&self, changed: &[usize], done: &[Option<Reading>]) -> io::Result<()> {
        if changed.is_empty() && !self.folders.0.has_news() && !self.runs.has_news() {
            return Ok(());
        }
        let (others, gone): (Vec<_>, Vec<_>) = self.logs.iter().partition(|(path, _)| Path::new(path).exists());
        let counting = self.counting - gone.iter().map(|(_, row)| row.bytes).sum::<u64>();
        let folder = |(path, listing)| Kept::Folder { path, listing };
        let run = |(path, run)| Kept::Run { path, run };
        if self.file.is_worn(counting) {
            let logs = done.iter().flatten().filter_map(Reading::kept);
            let others = others.into_iter().map(|(path, row)| row.kept(path));
            let places = self.folders.0.all().map(folder).chain(self.runs.all().map(run));
            return self.file.replace(logs.chain(others).chain(places));
        }
        let logs = changed.iter().filter_map(|place| done[*place].as_ref()?.kept());
        self.file.add(logs.chain(self.folders.0.news().map(folder)).chain(self.runs.news().map(run)))
    }
}

/// Reads the logs in short, with an index or without one. The watcher hears how many of the files that must be read have
/// been, and how many there are.
pub fn read(files: Vec<LogFile>, mut index: Option<Index>, watch: &mut dyn FnMut(usize, usize)) -> Logs {
    let mut done: Vec<Option<Reading>> = Vec::with_capacity(files.len());
    let mut jobs = Vec::new();
    for file in files {
        let row = index.as_mut().and_then(|index| index.logs.remove(file.path.to_str()?));
        let stamp = Stamp::of(&file);
        match row {
            Some(Row { stamp: known, ledger, sessions, progress, .. }) if known == stamp => {
                done.push(Some(Reading { file, ledger, sessions, progress }));
            }
            row => {
                let row = row.filter(|row| row.stamp.may_have_become(&stamp));
                let (ledger, progress) = row.map(|row| (row.ledger, row.progress)).unwrap_or_default();
                jobs.push((done.len(), Reading { file, ledger, sessions: Vec::new(), progress }));
                done.push(None);
            }
        }
    }
    let mut logs = Logs { files_read: jobs.len(), ..Logs::default() };
    // The largest first, so that no core is left with one at the end.
    jobs.sort_by_key(|(_, log)| std::cmp::Reverse(log.file.size - log.progress.read_to.min(log.file.size)));
    let mut changed = Vec::with_capacity(jobs.len());
    let mut places = jobs.iter();
    let Ok(()) = Plan { window: jobs.len() }.run(
        &jobs,
        || LineBuffer::new(LINE_CAP),
        |lines, (_, log)| log.read(lines),
        &mut |count| watch(count, jobs.len()),
        |outcome| {
            if let Some((place, job)) = places.next() {
                match outcome {
                    Ok(log) => {
                        changed.push(*place);
                        done[*place] = Some(log);
                    }
                    Err(error) => logs.failures.push((job.file.path.clone(), error)),
                }
            }
            Ok::<(), Infallible>(())
        },
    );
    if let Some(index) = index {
        // Who cannot write the index reads more the next time; nothing else is lost.
        let _ = index.save(&changed, &done);
    }
    logs.logs = Vec::with_capacity(done.len());
    done.into_iter().flatten().for_each(|reading| reading.give(&mut logs.logs));
    logs
}
