//! Data for programs, on standard output.

use std::io::{self, IoSlice, Write as _};

use crate::failure::Failure;

/// Collects output and writes it in large pieces.
#[derive(Default)]
pub(crate) struct Out {
    buffer: Vec<u8>,
}

/// How much is collected before it is written.
const PIECE: usize = 64 * 1024;

impl Out {
    /// Where the next records go.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Adds a record. One that is worth a system call of its own is written from where it lies.
    pub(crate) fn record(&mut self, record: &[u8]) -> Result<(), Failure> {
        if record.len() < PIECE {
            self.buffer.extend_from_slice(record);
            return self.write_if_full();
        }
        self.write()?;
        write(record)
    }

    /// Adds a record that lies in pieces. One that is worth a system call of its own is written from where they lie.
    pub(crate) fn pieces(&mut self, pieces: &[&[u8]]) -> Result<(), Failure> {
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() < PIECE {
            pieces.iter().for_each(|piece| self.buffer.extend_from_slice(piece));
            return self.write_if_full();
        }
        let all = [self.buffer.as_slice()].into_iter().chain(pieces.iter().copied());
        let written = write_all(&mut all.map(IoSlice::new).collect::<Vec<_>>());
        self.buffer.clear();
        written
    }

    /// Writes what has been collected, once that is worth a system call.
    pub(crate) fn write_if_full(&mut self) -> Result<(), Failure> {
        if self.is_full() { self.write() } else { Ok(()) }
    }

    /// Whether what has been collected is worth a system call.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= PIECE
    }

    /// Writes what has been collected.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = write(&self.buffer);
        self.buffer.clear();
        // One huge event does not keep its memory for the rest of the run.
        self.buffer.shrink_to(4 * PIECE);
        written
    }
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    write_all(&mut [IoSlice::new(bytes)])
}

fn write_all(mut pieces: &mut [IoSlice<'_>]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let mut all = || {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            match stdout.write_vectored(pieces) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut pieces, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        stdout.flush()
    };
    all().map_err(|error| Failure::io("writing to standard output failed", &error))
}

/// Appends a value as JSON: over several lines for a person, on one for a program.
pub(crate) fn object<T: serde::Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), Failure> {
    let written = if io::IsTerminal::is_terminal(&io::stdout()) {
        serde_json::to_writer_pretty(&mut *out, value)
    } else {
        serde_json::to_writer(&mut *out, value)
    };
    out.push(b'\n');
    written.map_err(|error| Failure::io("writing JSON failed", &error.into()))
}
