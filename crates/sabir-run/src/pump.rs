//! From a pipe to lines, without ever keeping the agent waiting longer than our own reader does.

use std::io;

use sabir_core::line::{LineBuffer, RawLine};
use tokio::io::AsyncReadExt as _;

use crate::platform::Reader;

/// One pipe of the agent.
pub(crate) struct Pump {
    reader: Option<Reader>,
    lines: LineBuffer,
}

impl Pump {
    pub(crate) fn new(reader: Reader, max_line: usize) -> Self {
        Self { reader: Some(reader), lines: LineBuffer::new(max_line) }
    }

    /// Whether more may come.
    pub(crate) fn open(&self) -> bool {
        self.reader.is_some()
    }

    /// Waits for bytes and takes them in; the number of bytes, 0 at the end of the stream. Can be dropped while waiting
    /// without losing a byte.
    pub(crate) async fn fill(&mut self) -> usize {
        let Some(reader) = &mut self.reader else { return std::future::pending().await };
        loop {
            match reader.read(self.lines.space()).await {
                Ok(count @ 1..) => {
                    self.lines.filled(count);
                    return count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A pipe that can't be read any more has ended for us.
                Ok(0) | Err(_) => {
                    self.reader = None;
                    return 0;
                }
            }
        }
    }

    /// The bytes that the last `fill` took in; `count` is what it gave.
    pub(crate) fn latest(&self, count: usize) -> &[u8] {
        self.lines.latest(count)
    }

    /// The next whole line.
    pub(crate) fn next_line(&mut self) -> Option<RawLine<'_>> {
        self.lines.next_line()
    }

    /// Nothing more is read.
    pub(crate) fn close(&mut self) {
        self.reader = None;
    }

    /// What follows the last line end. Nothing is read after that.
    pub(crate) fn last_line(&mut self) -> Option<RawLine<'_>> {
        self.reader = None;
        self.lines.finish()
    }
}
