//! What was read in short, kept: only what changed is read again.
//!
//! The index is a cache and nothing else. Each file's entry counts only while the file's identity, size and time of
//! writing are what they were; a file that has grown is read from where it ended. An index of another version, a broken
//! one, or an entry whose digest is wrong is thrown away and made anew, so the answer is the same with and without it.

mod table;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};

use sabir_core::history::Ledger;
use sabir_core::line::LineBuffer;

use crate::history::{LINE_CAP, LogFile, Progress, Role, note_database, note_file};
use crate::parallel::Plan;
use table::{Row, Table};

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
        Ok(Self { file: file.clone(), ledger, sessions, progress })
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
    table: Table,
    /// By path.
    known: HashMap<String, Row>,
}

impl Index {
    /// Opens the index at that path and reads it. `None` when there can't be one.
    pub fn open(path: &Path) -> Option<Self> {
        let mut table = Table::open(path)?;
        let known = table.rows();
        Some(Self { table, known })
    }
}

/// Reads the logs in short, with an index or without one. The watcher hears how many of the files that must be read have
/// been, and how many there are.
pub fn read(files: Vec<LogFile>, index: Option<Index>, watch: &mut dyn FnMut(usize, usize)) -> Logs {
    let (table, mut known) = index.map_or_else(Default::default, |Index { table, known }| (Some(table), known));
    let mut done: Vec<Option<Reading>> = Vec::with_capacity(files.len());
    let mut jobs = Vec::new();
    for file in files {
        let row = file.path.to_str().and_then(|path| known.remove(path));
        match row {
            Some(Row { identity, size, modified, ledger, sessions, progress })
                if identity == file.identity && size == file.size && modified == file.modified =>
            {
                done.push(Some(Reading { file, ledger, sessions, progress }));
            }
            row => {
                let row = row.filter(|row| row.identity == file.identity && row.size <= file.size);
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
    // What is gone harms nobody, so it is forgotten when something else is written.
    if let Some(mut table) = table.filter(|_| !changed.is_empty()) {
        let gone: Vec<String> = known.into_keys().filter(|path| !Path::new(path).exists()).collect();
        let changed = changed.iter().filter_map(|place| done[*place].as_ref());
        // Who cannot write the index reads more the next time; nothing else is lost.
        let _ = table.save(changed, &gone);
    }
    logs.logs = Vec::with_capacity(done.len());
    done.into_iter().flatten().for_each(|reading| reading.give(&mut logs.logs));
    logs
}
