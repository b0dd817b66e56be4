//! What was read in short, kept: only what changed is read again.
//!
//! The index is a cache and nothing else. Each file's entry counts only while the file's identity, size and time of
//! writing are what they were; a file that has grown is read from where it ended. An index of another version, a broken
//! one, or an entry whose digest is wrong is thrown away and made anew, so the answer is the same with and without it.

mod table;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use sabir_core::history::Ledger;
use sabir_core::line::LineBuffer;

use crate::history::{LINE_CAP, LogFile, Progress, Role, note_database, note_file};
use table::{Row, Table};

/// A log and what it says in short. Of a database there are several, one for each session.
#[derive(Debug)]
pub struct Log {
    /// The file. What a database holds of a session has the role that it has for the session.
    pub file: LogFile,
    /// What it says.
    pub ledger: Ledger,
    /// How far it was read.
    pub progress: Progress,
}

/// A file and what was read of it.
#[derive(Debug)]
struct Reading {
    file: LogFile,
    /// What a log says.
    ledger: Ledger,
    /// What a database says, by session.
    sessions: Vec<(Role, Ledger)>,
    progress: Progress,
}

impl Reading {
    /// Reads what is new in a log, or a database from the start: any row of it may have changed.
    fn read(&mut self, lines: &mut LineBuffer) -> io::Result<()> {
        match self.file.role {
            Role::Database => {
                self.sessions = note_database(&self.file)?;
                Ok(())
            }
            _ => note_file(&self.file, &mut self.ledger, &mut self.progress, lines),
        }
    }

    fn into_logs(self) -> Vec<Log> {
        let Self { file, ledger, sessions, progress } = self;
        match file.role {
            Role::Database => {
                let log = |(role, ledger)| Log { file: LogFile { role, ..file.clone() }, ledger, progress };
                sessions.into_iter().map(log).collect()
            }
            _ => vec![Log { file, ledger, progress }],
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

/// Reads the logs in short, with the index at that path or without one. The watcher hears how many of the files that
/// must be read have been, and how many there are.
pub fn read(files: Vec<LogFile>, index: Option<&Path>, watch: &mut dyn FnMut(usize, usize)) -> Logs {
    let mut table = index.and_then(Table::open);
    let mut known: HashMap<PathBuf, Row> = table.as_mut().map(Table::rows).unwrap_or_default();
    let mut done: Vec<Option<Reading>> = Vec::with_capacity(files.len());
    let mut jobs = Vec::new();
    for file in files {
        let row = known.remove(&file.path);
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
    let mut changed = Vec::new();
    read_all(jobs, watch, |place, log, outcome| match outcome {
        Ok(()) => {
            changed.push(place);
            done[place] = Some(log);
        }
        Err(error) => logs.failures.push((log.file.path, error)),
    });
    if let Some(table) = &mut table {
        let gone: Vec<PathBuf> = known.into_keys().filter(|path| !path.exists()).collect();
        let changed = changed.iter().filter_map(|place| done[*place].as_ref());
        // Who cannot write the index reads more the next time; nothing else is lost.
        let _ = table.save(changed, &gone);
    }
    logs.logs = done.into_iter().flatten().flat_map(Reading::into_logs).collect();
    logs
}

/// Reads files on all cores, the largest first.
fn read_all(
    mut jobs: Vec<(usize, Reading)>,
    watch: &mut dyn FnMut(usize, usize),
    mut take: impl FnMut(usize, Reading, io::Result<()>),
) {
    let total = jobs.len();
    jobs.sort_by_key(|(_, log)| std::cmp::Reverse(log.file.size - log.progress.read_to.min(log.file.size)));
    let workers = thread::available_parallelism().map_or(1, usize::from).min(total);
    if workers <= 1 {
        let mut lines = LineBuffer::new(LINE_CAP);
        for (count, (place, mut log)) in jobs.into_iter().enumerate() {
            let outcome = log.read(&mut lines);
            take(place, log, outcome);
            watch(count + 1, total);
        }
        return;
    }
    let slots: Vec<std::sync::Mutex<Option<(usize, Reading)>>> =
        jobs.into_iter().map(|job| std::sync::Mutex::new(Some(job))).collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (slots, next, sender) = (&slots, &next, sender.clone());
            scope.spawn(move || {
                let mut lines = LineBuffer::new(LINE_CAP);
                while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let job = slot.lock().ok().and_then(|mut slot| slot.take());
                    let Some((place, mut log)) = job else { continue };
                    let outcome = log.read(&mut lines);
                    if sender.send((place, log, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (count, (place, log, outcome)) in receiver.iter().enumerate() {
            take(place, log, outcome);
            watch(count + 1, total);
        }
    });
}
