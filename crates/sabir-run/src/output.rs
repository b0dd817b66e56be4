//! Readers of the agent's stdout and stderr that split output into lines.

use std::io;

use sabir_core::line::{LineBuffer, RawLine};
use tokio::io::AsyncReadExt as _;

use crate::platform::Reader;
use crate::process_tree::ProcessTree;
#[cfg(unix)]
use crate::tail::{Tail, TailRead};

/// Read end of an output stream.
pub(crate) enum OutputSource {
    Pipe(Reader),
    #[cfg(unix)]
    File(Tail),
}

/// Reads one output stream of the agent.
pub(crate) struct OutputReader {
    source: Option<OutputSource>,
    lines: LineBuffer,
}

/// Result of [`OutputReader::read`].
pub(crate) enum ReadResult {
    /// Number of bytes read; 0 at the end of the stream.
    Bytes(usize),
    /// A writer closed the file: call [`check_eof`](OutputReader::check_eof).
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no files to read along"))]
    WriterClosed,
}

impl OutputReader {
    pub(crate) fn new(source: OutputSource, max_line: usize) -> Self {
        Self { source: Some(source), lines: LineBuffer::new(max_line) }
    }

    /// Returns whether more output may follow.
    pub(crate) fn is_open(&self) -> bool {
        self.source.is_some()
    }

    /// Waits for output and buffers it. Cancel-safe.
    pub(crate) async fn read(&mut self) -> ReadResult {
        let Some(source) = &mut self.source else { return std::future::pending().await };
        loop {
            let read = match source {
                OutputSource::Pipe(pipe) => pipe.read(self.lines.space()).await,
                #[cfg(unix)]
                OutputSource::File(tail) => match tail.read(self.lines.space()).await {
                    Ok(TailRead::Bytes(count)) => Ok(count),
                    Ok(TailRead::WriterClosed) => return ReadResult::WriterClosed,
                    Ok(TailRead::End) => Ok(0),
                    Err(error) => Err(error),
                },
            };
            match read {
                Ok(count @ 1..) => {
                    self.lines.filled(count);
                    return ReadResult::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Read errors count as the end of the stream.
                Ok(0) | Err(_) => {
                    self.source = None;
                    return ReadResult::Bytes(0);
                }
            }
        }
    }

    /// Ends a file whose writers are all gone. Pipes signal their end themselves.
    pub(crate) fn check_eof(&mut self, tree: &mut ProcessTree) {
        #[cfg(unix)]
        if let Some(OutputSource::File(tail)) = &mut self.source
            && !tail.id().is_ok_and(|file| tree.has_open(file))
        {
            tail.finish();
        }
        #[cfg(not(unix))]
        let _ = tree;
    }

    /// The `count` bytes buffered by the last [`read`](Self::read).
    pub(crate) fn latest(&self, count: usize) -> &[u8] {
        self.lines.latest(count)
    }

    /// The next complete line.
    pub(crate) fn next_line(&mut self) -> Option<RawLine<'_>> {
        self.lines.next_line()
    }

    /// Stops reading. Data already written to a file is still read.
    pub(crate) fn close(&mut self) {
        match &mut self.source {
            #[cfg(unix)]
            Some(OutputSource::File(tail)) => tail.finish(),
            _ => self.source = None,
        }
    }

    /// The unterminated rest. Ends the stream.
    pub(crate) fn last_line(&mut self) -> Option<RawLine<'_>> {
        self.source = None;
        self.lines.finish()
    }
}
