//! Reading a stream line by line, from a file or a pipe.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sabir_core::line::{LineBuffer, RawLine};

use crate::failure::Failure;

/// An open stream and its name.
pub(crate) struct Input {
    pub(crate) name: String,
    /// A person or a program may be waiting at the other end, so what is known is printed before reading on.
    pub(crate) live: bool,
    reader: Box<dyn Read>,
    lines: LineBuffer,
}

/// How much of a file is looked at to see whether it is text.
const LOOKED_AT: usize = 8 * 1024;

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path, max_line: usize) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let lines = LineBuffer::new(max_line);
        if name == "-" {
            return Ok(Self { name: "stdin".to_owned(), live: true, reader: Box::new(io::stdin()), lines });
        }
        let unreadable = |error: &io::Error| {
            let failure = Failure::usage(format!("can't read {name}: {error}"));
            match error.kind() {
                io::ErrorKind::NotFound => failure.hint("give the path of a recorded stream, or `-` to read standard input"),
                io::ErrorKind::PermissionDenied => failure.hint("the file belongs to somebody else; check its permissions"),
                _ => failure,
            }
        };
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        let metadata = file.metadata().map_err(|error| unreadable(&error))?;
        if metadata.is_dir() {
            return Err(Failure::usage(format!("{name} is a folder")).hint(format!("name the files in it, e.g. {name}/*.jsonl")));
        }
        Ok(Self { name, live: !metadata.is_file(), reader: Box::new(file), lines })
    }

    /// Whether the stream starts like no text at all. Reads its first bytes, which stay to be read.
    pub(crate) fn looks_binary(&mut self) -> Result<bool, Failure> {
        if self.live {
            return Ok(false);
        }
        let space = self.lines.space();
        let count = space.len().min(LOOKED_AT);
        let count = read(&mut self.reader, &mut space[..count], &self.name)?;
        let binary = space[..count].contains(&0);
        self.lines.filled(count);
        Ok(binary)
    }

    /// Reads on; false at the end of the stream.
    pub(crate) fn fill(&mut self) -> Result<bool, Failure> {
        let count = read(&mut self.reader, self.lines.space(), &self.name)?;
        self.lines.filled(count);
        Ok(count > 0)
    }

    /// The next whole line that was read.
    pub(crate) fn next_line(&mut self) -> Option<RawLine<'_>> {
        self.lines.next_line()
    }

    /// What follows the last line end.
    pub(crate) fn last_line(&mut self) -> Option<RawLine<'_>> {
        self.lines.finish()
    }
}

fn read(reader: &mut dyn Read, space: &mut [u8], name: &str) -> Result<usize, Failure> {
    loop {
        match reader.read(space) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io(format_args!("reading {name} failed"), &error)),
            Ok(count) => return Ok(count),
        }
    }
}
