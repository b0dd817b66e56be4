//! A session read whole: all files of it as one stream of events.

pub mod follow;
mod kept;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, RunId};
use sabir_core::line::{Line, LineBuffer, RawLine, Source, text_of};

use crate::account::Session;
use crate::history::{Database, Role, unroll};
use crate::index::Log;
use crate::layout::RunFolder;
use crate::reader::Damage;
pub use kept::decoded_anew;
pub(crate) use kept::kept_events;

/// What is kept from one session to the next, when many are read: memory, and a database.
#[derive(Debug, Default)]
pub struct Workspace {
    lines: LineBuffer,
    database: Option<Database>,
}

impl Workspace {
    /// The database at that path.
    fn database(&mut self, path: &Path) -> io::Result<&mut Database> {
        let database = match self.database.take().filter(|database| database.path() == path) {
            Some(database) => database,
            None => Database::open(path)?,
        };
        Ok(self.database.insert(database))
    }
}

/// Hands out the events of a session: those that were made when it ran, where Sabir ran it, else those that its log
/// gives. Lines are numbered through all of its files. Tells what of a journal can't be read.
pub fn events(session: &Session, logs: &[Log], take: &mut dyn FnMut(&Event<'_>)) -> io::Result<Damage> {
    events_in(&mut Workspace::default(), session, logs, take)
}

/// The same of one of many sessions.
pub fn events_in(
    workspace: &mut Workspace,
    session: &Session,
    logs: &[Log],
    take: &mut dyn FnMut(&Event<'_>),
) -> io::Result<Damage> {
    if let Some(folder) = run_of(session, logs) {
        return kept_events(folder, take);
    }
    let Some(start) = Start::log(Arc::clone(&session.agent)) else { return Ok(Damage::default()) };
    let mut decoder = Decoder::new(Start { run_id: RunId::from(session.id.as_str()), ..start });
    begin(&mut decoder, take);
    let mut spare = Vec::new();
    let mut number = 0;
    let mut decode = |line: Line<'_>| {
        number += 1;
        let mut events = Event::recycle(std::mem::take(&mut spare));
        decoder.line(&Line { number, ..line }, &mut events);
        events.iter().for_each(&mut *take);
        spare = Event::recycle(events);
    };
    match database_of(session, logs) {
        // It knows itself what belongs to the session.
        Some(path) => workspace.database(path)?.session_lines(&session.id, |line| decode(Line::of(0, text_of(line))))?,
        None => session.logs.iter().try_for_each(|place| lines(&logs[*place], &mut workspace.lines, &mut decode))?,
    }
    let mut last = Vec::new();
    decoder.end(&End::default(), &mut last);
    last.iter().for_each(take);
    Ok(Damage::default())
}

/// Hands out what is known before the first line.
fn begin(decoder: &mut Decoder, take: &mut dyn FnMut(&Event<'_>)) {
    let mut first = Vec::new();
    decoder.begin(&mut first);
    first.iter().for_each(take);
}

/// The run of the journal that a session is.
pub fn run_of<'l>(session: &Session, logs: &'l [Log]) -> Option<&'l RunFolder> {
    match &logs[*session.logs.first()?].file.role {
        Role::Run(folder) => Some(folder),
        _ => None,
    }
}

/// The run of the journal that a session is, or that was the last part of it.
pub fn run_behind<'l>(session: &Session, logs: &'l [Log]) -> Option<&'l RunFolder> {
    let folder = |place: usize| match &logs.get(place)?.file.role {
        Role::Run(folder) => Some(&**folder),
        _ => None,
    };
    run_of(session, logs).or_else(|| folder(session.run?))
}

/// The database that holds a session.
fn database_of<'l>(session: &Session, logs: &'l [Log]) -> Option<&'l Path> {
    let path = logs[*session.logs.first()?].file.path.as_path();
    path.extension().is_some_and(|extension| extension == "db").then_some(path)
}

/// Hands out the raw bytes of a session, file by file, until the taker has had enough. Tells what of a journal can't be read.
pub fn raw(session: &Session, logs: &[Log], take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<Damage> {
    if let Some(folder) = run_of(session, logs) {
        return kept::raw_bytes(folder, take);
    }
    if let Some(path) = database_of(session, logs) {
        let mut more = true;
        Database::open(path)?.session_lines(&session.id, |line| more = more && take(line) && take(b"\n"))?;
        return Ok(Damage::default());
    }
    let mut chunk = vec![0; LineBuffer::CHUNK];
    for log in session.logs.iter().map(|place| &logs[*place]) {
        let mut file = File::open(&log.file.path)?;
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) if take(&chunk[..count]) => {}
                Ok(_) => return Ok(Damage::default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Damage::default())
}

/// The line of that number, as the events of a session name it; `None` when there is none.
pub fn line(session: &Session, logs: &[Log], number: u64) -> io::Result<Option<Vec<u8>>> {
    if let Some(folder) = run_of(session, logs) {
        return kept::raw_line_of(folder, number);
    }
    let (mut found, mut count) = (None, 0);
    let mut look = |line: &[u8]| {
        count += 1;
        if count == number {
            found = Some(line.to_vec());
        }
    };
    match database_of(session, logs) {
        Some(path) => Database::open(path)?.session_lines(&session.id, look)?,
        None => {
            let mut buffer = LineBuffer::default();
            session
                .logs
                .iter()
                .try_for_each(|place| lines(&logs[*place], &mut buffer, &mut |line| look(line.text.as_bytes())))?;
        }
    }
    Ok(found)
}

/// The lines of a log.
fn lines(log: &Log, lines: &mut LineBuffer, take: &mut dyn FnMut(Line<'_>)) -> io::Result<()> {
    let mut file = File::open(&log.file.path)?;
    if log.file.is_one_object() {
        let mut item = |line: RawLine<'_>| take(line.to_line(None, Source::Stdout));
        return unroll(&mut file, &log.file, LineBuffer::DEFAULT_CAP, &mut item).map(drop);
    }
    lines.restart();
    loop {
        let count = match file.read(lines.space()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        lines.filled(count);
        while let Some(raw) = lines.next_line() {
            take(raw.to_line(None, Source::Stdout));
        }
        if count == 0 {
            break;
        }
    }
    if let Some(raw) = lines.finish() {
        take(raw.to_line(None, Source::Stdout));
    }
    Ok(())
}
