//! From what an agent prints to lines, without ever keeping it waiting longer than our own reader does.

use std::io;

use sabir_core::line::{LineBuffer, RawLine};
use tokio::io::AsyncReadExt as _;

use crate::platform::Reader;
use crate::process_tree::ProcessTree;
#[cfg(unix)]
use crate::tail::{Tail, TailRead};

/// Our end of what an agent prints to.
pub(crate) enum OutputSource {
    Pipe(Reader),
    #[cfg(unix)]
    File(Tail),
}

/// One output of the agent.
pub(crate) struct OutputReader {
    source: Option<OutputSource>,
    lines: LineBuffer,
}

/// What became of waiting for bytes.
pub(crate) enum ReadResult {
    /// So many bytes came; none at the end.
    Bytes(usize),
    /// Somebody let go of the file: it may be time to [`settle`](OutputReader::settle).
    WriterClosed,
}

impl OutputReader {
    pub(crate) fn new(source: OutputSource, max_line: usize) -> Self {
        Self { source: Some(source), lines: LineBuffer::new(max_line) }
    }

    /// Whether more may come.
    pub(crate) fn is_open(&self) -> bool {
        self.source.is_some()
    }

    /// Waits for bytes and takes them in. Can be dropped while waiting without losing a byte.
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
                // What can't be read any more has ended for us.
                Ok(0) | Err(_) => {
                    self.source = None;
                    return ReadResult::Bytes(0);
                }
            }
        }
    }

    /// A pipe ends by itself. A file ends when no process of the run has it open.
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

    /// The bytes that the last `fill` took in; `count` is what it gave.
    pub(crate) fn latest(&self, count: usize) -> &[u8] {
        self.lines.latest(count)
    }

    /// The next whole line.
    pub(crate) fn next_line(&mut self) -> Option<RawLine<'_>> {
        self.lines.next_line()
    }

    /// Nothing more is waited for. What is in a file by now is still read.
    pub(crate) fn close(&mut self) {
        match &mut self.source {
            #[cfg(unix)]
            Some(OutputSource::File(tail)) => tail.finish(),
            _ => self.source = None,
        }
    }

    /// What follows the last line end. Nothing is read after that.
    pub(crate) fn last_line(&mut self) -> Option<RawLine<'_>> {
        self.source = None;
        self.lines.finish()
    }
}
