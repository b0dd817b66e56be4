//! Reading a log in short.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use sabir_core::history::Ledger;
use sabir_core::json::{self, Unroll};
use sabir_core::line::{LineBuffer, RawLine};
use serde::{Deserialize, Serialize};

use super::LogFile;

/// Longer lines are not read in short: what a model says is far shorter, and a tool's output says nothing of tokens.
pub const LINE_CAP: usize = 24 << 20;

/// Up to where a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The end of the last whole line.
    pub read_to: u64,
    /// What the bytes before it were, to see whether the file is still the one that was read.
    pub tail: Tail,
    /// Lines longer than [`LINE_CAP`].
    pub long_lines: u64,
    /// The file ended inside a line.
    pub unfinished: bool,
}

/// A digest of the last bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tail(pub u32);

/// How many bytes before the end of what was read are compared.
const TAIL: usize = 1024;

/// Reads what is new in a file into its ledger: from the start, or from where reading ended the last time if what is
/// before that is still the same.
pub fn note_file(log: &LogFile, ledger: &mut Ledger, progress: &mut Progress, lines: &mut LineBuffer) -> io::Result<()> {
    let Some(history) = &log.agent.log else { return Ok(()) };
    let mut file = File::open(&log.path)?;
    let whole = log.is_one_object();
    let goes_on = progress.read_to > 0;
    if whole || goes_on && tail(&mut file, progress.read_to)? != Some(progress.tail) {
        *ledger = Ledger::default();
        *progress = Progress::default();
    }
    let mut note = |line: RawLine<'_>, ledger: &mut Ledger| {
        if line.cut > 0 {
            progress.long_lines += 1;
        } else if !line.bytes.is_empty() {
            history.scan(ledger, line.bytes);
        }
    };
    if whole {
        progress.read_to = unroll(&mut file, log, LINE_CAP, &mut |line| note(line, ledger))?;
        return Ok(());
    }
    if goes_on {
        file.seek(SeekFrom::Start(progress.read_to))?;
    }
    lines.restart();
    let mut seen = 0;
    let mut last = None;
    // What has come since somebody asked for the size is left for the next time, so that nobody need ask for the end.
    while seen == 0 || progress.read_to + seen != log.size {
        let count = match file.read(lines.space()) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        lines.filled(count);
        seen += count as u64;
        last = Tail::of(lines.latest(count), progress.read_to + seen);
        while let Some(line) = lines.next_line() {
            note(line, ledger);
        }
    }
    // A last line without an end is left for the next time, when the rest of it may have come, unless nothing can come.
    let pending = lines.pending();
    match lines.finish() {
        Some(line) if is_whole(line.bytes) => note(line, ledger),
        _ => seen -= pending,
    }
    progress.unfinished = progress.read_to + seen < log.size;
    progress.read_to += seen;
    progress.tail = match last.filter(|_| pending == 0) {
        Some(tail) => tail,
        None => tail(&mut file, progress.read_to)?.unwrap_or_default(),
    };
    Ok(())
}

/// Reads a file that is one object as lines; how many bytes it has.
pub(crate) fn unroll(file: &mut File, log: &LogFile, cap: usize, take: &mut dyn FnMut(RawLine<'_>)) -> io::Result<u64> {
    let mut unroll = Unroll::new(log.agent.log.as_ref().and_then(|log| log.array_field), cap);
    let mut chunk = vec![0; LineBuffer::CHUNK];
    let mut seen = 0;
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                seen += count as u64;
                unroll.feed(&chunk[..count], take);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    unroll.finish(take);
    Ok(seen)
}

impl Tail {
    /// The digest of what a file holds before a position, if that much of it is the end of these bytes.
    fn of(bytes: &[u8], end: u64) -> Option<Self> {
        let length = usize::try_from(end).map_or(TAIL, |end| end.min(TAIL));
        bytes.len().checked_sub(length).map(|start| Self(crc32c::crc32c(&bytes[start..])))
    }
}

/// Whether a line is one JSON object and not the beginning of one.
fn is_whole(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).ok().filter(|text| text.trim_end().ends_with('}'));
    text.is_some_and(|text| json::parse::<serde::de::IgnoredAny>(text).is_some())
}

/// The digest of the bytes before a position; `None` when the file is shorter.
fn tail(file: &mut File, end: u64) -> io::Result<Option<Tail>> {
    let start = end.saturating_sub(TAIL as u64);
    let mut bytes = [0; TAIL];
    let bytes = &mut bytes[..usize::try_from(end - start).unwrap_or(TAIL)];
    file.seek(SeekFrom::Start(start))?;
    match file.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Tail::of(bytes, end)),
    }
}
