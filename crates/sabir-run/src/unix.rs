//! Unix implementation: process groups, signals and enlarged pipes.

use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

pub(crate) use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use sabir_core::launch::{StdoutCapture, StopSignal};
use tokio::net::unix::pipe::Sender;
use tokio::process::{Child, Command};

use crate::output::OutputSource;
#[cfg(target_os = "linux")]
use crate::reaper::Client;
use crate::supervisor::ChildEvent;
use crate::tail::Tail;

/// A supervised process.
pub(crate) enum Process {
    /// The agent itself.
    Direct(Child),
    /// An agent under a reaper.
    #[cfg(target_os = "linux")]
    Reaped(Client),
}

/// A starting process and our ends of its pipes.
pub(crate) struct Started {
    pub(crate) child: Process,
    pub(crate) stdin: Option<Sender>,
    pub(crate) stdout: OutputSource,
    pub(crate) stderr: OutputSource,
}

/// Read end of a pipe.
pub(crate) type Reader = tokio::net::unix::pipe::Receiver;

/// Environment variable that identifies the processes of a run after they left its group and lost their parent.
pub(crate) const RUN_ID_ENV: &str = "SABIR_RUN_ID";

/// Some agents exit before a default pipe of 64 KiB is drained and lose their buffered output.
#[cfg(target_os = "linux")]
const PIPE_BYTES: i32 = 1 << 20;

/// Starts the command in its own process group, with stdout captured in a pipe or file. `reaped`: the command is a reaper.
#[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
pub(crate) fn start(mut command: Command, output: StdoutCapture, has_stdin: bool, reaped: bool) -> io::Result<Started> {
    let (stdout, stdout_end) = match output {
        // Fall back to a pipe if the file cannot be created, for example on a full disk.
        StdoutCapture::File => open_file().or_else(|_| open_pipe())?,
        StdoutCapture::Pipe => open_pipe()?,
    };
    let (stderr, stderr_end) = open_pipe()?;
    let (stdin_end, stdin) = if has_stdin { Some(io::pipe()?) } else { None }.unzip();
    let stdin = stdin.map(|stdin| Sender::from_owned_fd(stdin.into())).transpose()?;
    set_process_group(&mut command);
    command.stdout(stdout_end).stderr(stderr_end);
    #[cfg(target_os = "linux")]
    if reaped {
        let child = Process::Reaped(Client::start(command, stdin_end.map(Into::into))?);
        return Ok(Started { child, stdin, stdout, stderr });
    }
    let child = command.stdin(stdin_end.map_or_else(Stdio::null, Stdio::from)).spawn()?;
    // The command keeps the write ends of the pipes open.
    drop(command);
    Ok(Started { child: Process::Direct(child), stdin, stdout, stderr })
}

impl Process {
    /// Waits for the agent to start. Returns its process id.
    pub(crate) async fn started(&mut self) -> io::Result<u32> {
        match self {
            Self::Direct(child) => Ok(child.id().unwrap_or(0)),
            #[cfg(target_os = "linux")]
            Self::Reaped(client) => client.started().await,
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> ChildEvent {
        match self {
            Self::Direct(child) => ChildEvent::Exited { status: child.wait().await.ok(), drained: false },
            #[cfg(target_os = "linux")]
            Self::Reaped(client) => client.next().await,
        }
    }

    /// Connection to the agent's reaper.
    #[cfg(target_os = "linux")]
    pub(crate) fn reaper(&self) -> Option<&Client> {
        match self {
            Self::Direct(_) => None,
            Self::Reaped(client) => Some(client),
        }
    }

    /// Always `None`: this system has no reaper.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn reaper(&self) -> Option<&Self> {
        None
    }
}

fn open_file() -> io::Result<(OutputSource, Stdio)> {
    let (tail, writer) = Tail::new()?;
    Ok((OutputSource::File(tail), writer.into()))
}

fn open_pipe() -> io::Result<(OutputSource, Stdio)> {
    let (reader, writer) = io::pipe()?;
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::{FcntlArg, fcntl};
        // The memory for a user's pipes is limited; a smaller pipe works too.
        let mut size = PIPE_BYTES;
        while size > 64 * 1024 && fcntl(&writer, FcntlArg::F_SETPIPE_SZ(size)).is_err() {
            size /= 2;
        }
    }
    Ok((OutputSource::Pipe(Reader::from_owned_fd(reader.into())?), writer.into()))
}

/// Creates a process group, so that Ctrl-C of the terminal reaches only this process.
pub(crate) fn set_process_group(command: &mut Command) {
    command.process_group(0);
}

/// Restricts access to this user.
pub(crate) fn set_private_mode(options: &mut std::fs::OpenOptions) {
    options.mode(0o600);
}

/// The user's home directory.
pub(crate) fn home_dir() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

/// Returns whether the file can be executed.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Possible file names of a program.
pub(crate) fn candidate_names(name: &str) -> impl Iterator<Item = String> + use<> {
    std::iter::once(name.to_owned())
}

/// Returns whether the effective user is root.
pub(crate) fn is_superuser() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if let Ok(leader) = i32::try_from(leader) {
        // Fails if the group is already gone.
        let _ = killpg(Pid::from_raw(leader), signal);
    }
}

/// Sends a signal to a process.
#[cfg(target_os = "linux")]
pub(crate) fn signal_process(pid: i32, signal: Signal) {
    let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
}

/// Returns whether a process of the group is alive.
#[cfg(not(target_os = "linux"))]
pub(crate) fn group_exists(leader: u32) -> bool {
    i32::try_from(leader).is_ok_and(|leader| killpg(Pid::from_raw(leader), None).is_ok())
}

/// Signal for an orderly stop.
pub(crate) fn stop_signal(stop: StopSignal) -> Signal {
    match stop {
        StopSignal::Interrupt => Signal::SIGINT,
        StopSignal::Terminate => Signal::SIGTERM,
    }
}

/// Exit code or signal name of an exited process.
pub(crate) fn exit_code_and_signal(status: ExitStatus) -> (Option<i32>, Option<String>) {
    let signal = status
        .signal()
        .map(|number| Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned()));
    (status.code(), signal)
}
