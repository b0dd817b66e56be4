//! A session read whole, and then what is added to it.
//!
//! ```text
//!   a run of the journal      records ──► the events that were made then
//!   lines in files            lines after the last place ──► one decoder ──► events, in the order in which lines come
//!   one JSON value, database  all of it, once: it is written anew each time, so nothing is "added"
//! ```
//!
//! A log does not say that it is over, so who follows it says when nothing more is awaited ([`Follow::end`]). What comes
//! after that is a run of its own.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use sabir_core::agent::Agent;
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, RunId};
use sabir_core::line::{Line, LineBuffer, RawLine, Source};

use super::kept::Kept;
use super::{begin, database_of, events, run_of};
use crate::account::Session;
use crate::index::Log;

/// A session that is read along.
#[derive(Debug)]
pub struct Follow(From);

#[derive(Debug)]
enum From {
    Run(Box<Kept>),
    Files(Box<Files>),
    Once { done: bool },
}

struct Files {
    agent: Arc<Agent>,
    run_id: RunId,
    decoder: Option<Decoder>,
    /// The files, and up to where they were read.
    files: Vec<(PathBuf, u64)>,
    /// The number of the last line.
    number: u64,
    lines: LineBuffer,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("files", &self.files).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Follow {
    /// Begins before the first event.
    pub fn new(session: &Session, logs: &[Log]) -> io::Result<Self> {
        if let Some(folder) = run_of(session, logs) {
            return Ok(Self(From::Run(Box::new(Kept::new(folder)?))));
        }
        let paths = paths(session, logs);
        let once = database_of(session, logs).is_some() || session.logs.iter().any(|place| logs[*place].file.is_one_object());
        if once {
            return Ok(Self(From::Once { done: false }));
        }
        let files = Files {
            agent: Arc::clone(&session.agent),
            run_id: RunId::from(session.id.as_str()),
            decoder: None,
            files: paths.into_iter().map(|path| (path, 0)).collect(),
            number: 0,
            lines: LineBuffer::default(),
        };
        Ok(Self(From::Files(Box::new(files))))
    }

    /// Hands out the events that there are now and were not before. The session may have more files by now.
    pub fn more(&mut self, session: &Session, logs: &[Log], take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        match &mut self.0 {
            From::Run(kept) => kept.more(take),
            From::Files(files) => {
                for path in paths(session, logs) {
                    if !files.files.iter().any(|(known, _)| *known == path) {
                        files.files.push((path, 0));
                    }
                }
                files.more(false, take)
            }
            From::Once { done: true } => Ok(()),
            From::Once { done } => {
                *done = true;
                events(session, logs, take).map(drop)
            }
        }
    }

    /// Nothing more is awaited: hands out what was held back.
    pub fn end(&mut self, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        match &mut self.0 {
            From::Run(kept) => {
                kept.end(take);
                Ok(())
            }
            From::Files(files) => files.end(take),
            From::Once { .. } => Ok(()),
        }
    }

    /// Whether it can be read along, and is not only read once.
    pub fn goes_on(&self) -> bool {
        !matches!(self.0, From::Once { .. })
    }
}

fn paths(session: &Session, logs: &[Log]) -> Vec<PathBuf> {
    session.logs.iter().map(|place| logs[*place].file.path.clone()).collect()
}

impl Files {
    /// Reads whole lines that are new; with `all`, a last one without an end too.
    fn more(&mut self, all: bool, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        for place in 0..self.files.len() {
            let (path, from) = self.files[place].clone();
            let mut file = match File::open(&path) {
                // A log may be cleared away while somebody looks at it; what was read of it stays.
                Err(error) if error.kind() == io::ErrorKind::NotFound && from > 0 => continue,
                file => file?,
            };
            if file.metadata()?.len() <= from {
                continue;
            }
            file.seek(SeekFrom::Start(from))?;
            let mut lines = std::mem::take(&mut self.lines);
            lines.restart();
            let read = self.file(&mut file, &mut lines, all, take);
            self.lines = lines;
            self.files[place].1 = from + read?;
        }
        Ok(())
    }

    /// How many bytes of a file were dealt with.
    fn file(&mut self, file: &mut File, lines: &mut LineBuffer, all: bool, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<u64> {
        let mut seen = 0;
        loop {
            let count = match file.read(lines.space()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            if count == 0 {
                break;
            }
            lines.filled(count);
            seen += count as u64;
            while let Some(line) = lines.next_line() {
                self.line(&line, take);
            }
        }
        if !all {
            return Ok(seen - lines.pending());
        }
        if let Some(line) = lines.finish() {
            self.line(&line, take);
        }
        Ok(seen)
    }

    fn line(&mut self, line: &RawLine<'_>, take: &mut dyn FnMut(&Event<'_>)) {
        if self.decoder.is_none() {
            let Some(start) = Start::log(Arc::clone(&self.agent)) else { return };
            let mut decoder = Decoder::new(Start { run_id: self.run_id.clone(), ..start });
            begin(&mut decoder, take);
            self.decoder = Some(decoder);
        }
        self.number += 1;
        if let Some(decoder) = &mut self.decoder {
            let mut events = Vec::new();
            decoder.line(&Line { number: self.number, ..line.to_line(None, Source::Stdout) }, &mut events);
            events.iter().for_each(take);
        }
    }

    fn end(&mut self, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        self.more(true, take)?;
        if let Some(mut decoder) = self.decoder.take() {
            let mut last = Vec::new();
            decoder.end(&End::default(), &mut last);
            last.iter().for_each(take);
        }
        Ok(())
    }
}
