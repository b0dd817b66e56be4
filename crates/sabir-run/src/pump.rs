//! From what an agent prints to lines, without ever keeping it waiting longer than our own reader does.

use std::io;

use sabir_core::line::{LineBuffer, RawLine};
use tokio::io::AsyncReadExt as _;

use crate::platform::Reader;
#[cfg(unix)]
use crate::tail::{Read, Tail};
use crate::tree::Tree;

/// Our end of what an agent prints to.
pub(crate) enum Intake {
    Pipe(Reader),
    #[cfg(unix)]
    File(Tail),
}

/// One output of the agent.
pub(crate) struct Pump {
    intake: Option<Intake>,
    lines: LineBuffer,
}

/// What became of waiting for bytes.
pub(crate) enum Filled {
    /// So many bytes came; none at the end.
    Bytes(usize),
    /// Somebody let go of the file: it may be time to [`settle`](Pump::settle).
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no files to read along"))]
    LetGo,
}

impl Pump {
    pub(crate) fn new(intake: Intake, max_line: usize) -> Self {
        Self { intake: Some(intake), lines: LineBuffer::new(max_line) }
    }

    /// Whether more may come.
    pub(crate) fn open(&self) -> bool {
        self.intake.is_some()
    }

    /// Waits for bytes and takes them in. Can be dropped while waiting without losing a byte.
    pub(crate) async fn fill(&mut self) -> Filled {
        let Some(intake) = &mut self.intake else { return std::future::pending().await };
        loop {
            let read = match intake {
                Intake::Pipe(pipe) => pipe.read(self.lines.space()).await,
                #[cfg(unix)]
                Intake::File(tail) => match tail.read(self.lines.space()).await {
                    Ok(Read::Bytes(count)) => Ok(count),
                    Ok(Read::LetGo) => return Filled::LetGo,
                    Ok(Read::End) => Ok(0),
                    Err(error) => Err(error),
                },
            };
            match read {
                Ok(count @ 1..) => {
                    self.lines.filled(count);
                    return Filled::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What can't be read any more has ended for us.
                Ok(0) | Err(_) => {
                    self.intake = None;
                    return Filled::Bytes(0);
                }
            }
        }
    }

    /// A pipe ends by itself. A file ends when no process of the run has it open.
    pub(crate) fn settle(&mut self, tree: &mut Tree) {
        #[cfg(unix)]
        if let Some(Intake::File(tail)) = &mut self.intake
            && !tail.id().is_ok_and(|file| tree.holds(file))
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
        match &mut self.intake {
            #[cfg(unix)]
            Some(Intake::File(tail)) => tail.finish(),
            _ => self.intake = None,
        }
    }

    /// What follows the last line end. Nothing is read after that.
    pub(crate) fn last_line(&mut self) -> Option<RawLine<'_>> {
        self.intake = None;
        self.lines.finish()
    }
}
