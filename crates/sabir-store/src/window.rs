//! A part of a file in memory.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// How much is read at once.
const CHUNK: usize = 256 * 1024;
/// How much memory is taken before anything has come.
const AT_FIRST: usize = 16 * 1024;
/// Memory beyond this that one large record took is given back.
const RETAIN: usize = 4 << 20;

/// A file, and the part of it that was looked at last. It is read, not mapped: a file that shrinks must not end us.
#[derive(Debug)]
pub(crate) struct Window {
    file: File,
    /// Where in the file the buffer begins.
    base: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, base: 0, buffer: Vec::new() })
    }

    /// How long the file is now.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The bytes from `at` on: `size` of them, or fewer where the file ends.
    pub(crate) fn bytes(&mut self, at: u64, size: usize) -> io::Result<&[u8]> {
        if self.held(at, size).is_none() {
            self.load(at, size)?;
        }
        let start = usize::try_from(at - self.base).unwrap_or(usize::MAX).min(self.buffer.len());
        let end = start.saturating_add(size).min(self.buffer.len());
        Ok(&self.buffer[start..end])
    }

    /// Forgets what was read: the file may have changed.
    pub(crate) fn forget(&mut self) {
        self.buffer.clear();
    }

    fn held(&self, at: u64, size: usize) -> Option<()> {
        let start = usize::try_from(at.checked_sub(self.base)?).ok()?;
        (start.checked_add(size)? <= self.buffer.len()).then_some(())
    }

    fn load(&mut self, at: u64, size: usize) -> io::Result<()> {
        self.buffer.clear();
        if self.buffer.capacity() > RETAIN && size <= RETAIN {
            self.buffer.shrink_to(CHUNK);
        }
        self.base = at;
        self.file.seek(SeekFrom::Start(at))?;
        // Memory is taken as bytes come, so a length that lies costs nothing; but not little by little, for most are short.
        let wanted = size.max(CHUNK) as u64;
        self.buffer.reserve(AT_FIRST);
        (&mut self.file).take(wanted).read_to_end(&mut self.buffer)?;
        Ok(())
    }
}
