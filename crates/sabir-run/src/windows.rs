//! Windows implementation: a job object holds all processes of a run and kills them when it is closed.
//!
//! There is no signal that every program handles, so the only stop level is killing the tree.

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

/// A supervised process in its job.
pub(crate) struct Process(Box<dyn ChildWrapper>);

/// A started process and our ends of its pipes.
pub(crate) struct Started {
    pub(crate) child: Process,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: OutputSource,
    pub(crate) stderr: OutputSource,
}

/// Read end of a pipe.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Stop levels, named like the Unix signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::upper_case_acronyms)]
pub(crate) enum Signal {
    SIGTERM,
    SIGKILL,
}

/// Environment variable that identifies the processes of a run.
pub(crate) const RUN_ID_ENV: &str = "SABIR_RUN_ID";

/// Starts the command in its own job. Output is always captured by pipes.
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
    /// Process id of the agent.
    pub(crate) async fn started(&mut self) -> io::Result<u32> {
        Ok(self.0.id().unwrap_or(0))
    }

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> ChildEvent {
        ChildEvent::Exited { status: self.0.wait().await.ok(), drained: false }
    }

    /// Always `None`: this system has no reaper.
    pub(crate) fn reaper(&self) -> Option<&Self> {
        None
    }
}

/// Creates a process group, so that Ctrl-C of the console reaches only this process.
pub(crate) fn set_process_group(command: &mut Command) {
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Does nothing: the user's temporary directory is private.
pub(crate) fn set_private_mode(_: &mut std::fs::OpenOptions) {}

/// The user's home directory.
pub(crate) fn home_dir() -> Option<PathBuf> {
    std::env::var_os("USERPROFILE").map(PathBuf::from)
}

/// Returns whether the file can be executed. Windows decides by its name.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.is_file()
}

/// Possible file names of a program.
pub(crate) fn candidate_names(name: &str) -> impl Iterator<Item = String> + use<> {
    let name = name.to_owned();
    [".exe", ".cmd", ".bat"].into_iter().map(move |extension| format!("{name}{extension}"))
}

/// Always `false`: no agent asks for it on Windows.
pub(crate) fn is_superuser() -> bool {
    false
}

/// Kills a process tree.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if signal == Signal::SIGKILL {
        spawn::kill_tree(leader);
    }
}

/// Always `false`: the job cannot be queried from here.
pub(crate) fn group_exists(_: u32) -> bool {
    false
}

/// Signal for an orderly stop.
pub(crate) fn stop_signal(_: StopSignal) -> Signal {
    Signal::SIGTERM
}

/// Exit code of an exited process.
pub(crate) fn exit_code_and_signal(status: ExitStatus) -> (Option<i32>, Option<String>) {
    (status.code(), None)
}
