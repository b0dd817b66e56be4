//! What is different on Windows: a job object holds all processes of a run, and ends them with itself.
//!
//! There is no signal that every program understands, so a stop has one step only: the end of the tree.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};
use sabir_core::launch::{StdoutCapture, StopSignal};
use tokio::io::AsyncRead;
use tokio::process::{ChildStdin, Command};

use crate::output::OutputSource;
use crate::spawn;
use crate::supervisor::ChildEvent;

/// A process that we started, in its job.
pub(crate) struct Process(Box<dyn ChildWrapper>);

/// A process that was started, and our ends of its pipes.
pub(crate) struct Started {
    pub(crate) child: Process,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: OutputSource,
    pub(crate) stderr: OutputSource,
}

/// Our end of a pipe.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The steps of a stop, by the names that they have elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::upper_case_acronyms)]
pub(crate) enum Signal {
    SIGTERM,
    SIGKILL,
}

/// The variable by which processes of a run are known.
pub(crate) const RUN_ID_ENV: &str = "SABIR_RUN_ID";

/// Starts the command in a job of its own. Its output always comes by pipes.
pub(crate) fn start(mut command: Command, _: StdoutCapture, has_stdin: bool, _: bool) -> io::Result<Started> {
    command.stdin(if has_stdin { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut wrapped = CommandWrap::from(command);
    wrapped.wrap(JobObject).wrap(KillOnDrop);
    let mut process = wrapped.spawn()?;
    let missing = || io::Error::other("a pipe is missing");
    let stdout = process.stdout().take().ok_or_else(missing)?;
    let stderr = process.stderr().take().ok_or_else(missing)?;
    let stdin = process.stdin().take();
    let (stdout, stderr) = (OutputSource::Pipe(Box::new(stdout)), OutputSource::Pipe(Box::new(stderr)));
    Ok(Started { child: Process(process), stdin, stdout, stderr })
}

impl Process {
    /// The agent's process id.
    pub(crate) async fn started(&mut self) -> io::Result<u32> {
        Ok(self.0.id().unwrap_or(0))
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> ChildEvent {
        ChildEvent::Exited { status: self.0.wait().await.ok(), drained: false }
    }

    /// There is none on this system.
    pub(crate) fn reaper(&self) -> Option<&Self> {
        None
    }
}

/// A group of its own, so that Ctrl-C of our console does not reach it.
pub(crate) fn set_process_group(command: &mut Command) {
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Files in the user's folder for temporary files are private already.
pub(crate) fn set_private_mode(_: &mut std::fs::OpenOptions) {}

/// The home folder.
pub(crate) fn home_dir() -> Option<PathBuf> {
    std::env::var_os("USERPROFILE").map(PathBuf::from)
}

/// Whether a file may be executed: its name says so.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.is_file()
}

/// The file names that a program of this name may have.
pub(crate) fn candidate_names(name: &str) -> impl Iterator<Item = String> + use<> {
    let name = name.to_owned();
    [".exe", ".cmd", ".bat"].into_iter().map(move |extension| format!("{name}{extension}"))
}

/// No agent asks for this here.
pub(crate) fn is_superuser() -> bool {
    false
}

/// Ends the tree of a process.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if signal == Signal::SIGKILL {
        spawn::kill_tree(leader);
    }
}

/// What is left of a job can't be asked for from outside of it.
pub(crate) fn group_exists(_: u32) -> bool {
    false
}

/// The signal for an orderly stop.
pub(crate) fn stop_signal(_: StopSignal) -> Signal {
    Signal::SIGTERM
}

/// Exit code and signal of a process that ended.
pub(crate) fn exit_code_and_signal(status: ExitStatus) -> (Option<i32>, Option<String>) {
    (status.code(), None)
}
