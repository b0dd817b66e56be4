//! A session read whole: all files of it as one stream of events.

use std::fs::File;
use std::io::{self, Read as _};

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, RunId};
use sabir_core::line::{Line, LineBuffer, Source};

use crate::account::Session;
use crate::index::Log;

/// Decodes a session and hands out its events. Lines are numbered through all of its files.
pub fn events(session: &Session, logs: &[Log], take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
    let Some(start) = Start::kept(session.agent) else { return Ok(()) };
    let mut decoder = Decoder::new(Start { run_id: RunId::from(session.id.as_str()), ..start });
    let mut spare = Vec::new();
    let mut number = 0;
    for log in session.logs.iter().map(|place| &logs[*place]) {
        lines(log, &mut |line| {
            number += 1;
            let mut events = Event::recycle(std::mem::take(&mut spare));
            decoder.line(&Line { number, ..line }, &mut events);
            events.iter().for_each(&mut *take);
            spare = Event::recycle(events);
        })?;
    }
    let mut last = Vec::new();
    decoder.end(&End::default(), &mut last);
    last.iter().for_each(take);
    Ok(())
}

/// Hands out the raw bytes of a session, file by file, until the taker has had enough.
pub fn raw(session: &Session, logs: &[Log], take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut chunk = vec![0; LineBuffer::CHUNK];
    for log in session.logs.iter().map(|place| &logs[*place]) {
        let mut file = File::open(&log.file.path)?;
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) if take(&chunk[..count]) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The lines of a log: a file that is one JSON value is one line.
fn lines(log: &Log, take: &mut dyn FnMut(Line<'_>)) -> io::Result<()> {
    let mut file = File::open(&log.file.path)?;
    if log.file.path.extension().is_some_and(|extension| extension == "json") {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        take(Line::of(1, String::from_utf8_lossy(&text)));
        return Ok(());
    }
    let mut lines = LineBuffer::default();
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
