//! The reaper: one helper process per run, between this process and the agent.
//!
//! It is a child subreaper, so every orphan of the run becomes its child, even after a new session, a double fork, or with an
//! empty environment. Its only other child is the agent, so `ECHILD` from `waitpid` proves that no process of the run is left.
//! The supervising process cannot prove this: it has other children, and `waitpid(-1)` would take exit statuses away from
//! Tokio.
//!
//! Both communicate over a socket, which is the reaper's stdin. Stdout and stderr are the agent's; the reaper closes them once
//! the agent has them, so that they end with the agent's processes.
//!
//! ```text
//! to the reaper     one byte, with the agent's stdin (SCM_RIGHTS) if it has one; then commands: TERMINATE, KILL, RELEASE
//! from the reaper   STARTED pid | FAILED errno; EXITED status; DRAINED. EXITED_LAST status combines EXITED and DRAINED.
//! ```
//!
//! If the socket closes, the supervising process is gone and the reaper kills the run. The reaper has the agent's environment
//! and is not dumpable, so that an agent of the same user cannot ptrace it and forge its reports. An agent can kill its reaper,
//! like any process of its user; quiescence is unknown then.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Client, ReaperCommand, prepare};
#[cfg(target_os = "linux")]
pub use linux::{install, set_program};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::prepare;
#[cfg(not(target_os = "linux"))]
pub use other::{install, set_program};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::fs::File;
    use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::{Path, PathBuf};
    use std::process::ExitStatus;
    use std::sync::{Arc, OnceLock};
    use std::thread;
    use std::time::Duration;

    use nix::sys::signal::{SigSet, Signal};
    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
        sendmsg,
    };
    use rustix::process::{Pid, WaitOptions, wait};
    use tokio::process::{Child, Command};

    use crate::supervisor::ChildEvent;
    use crate::{platform, process_tree, spawn};

    /// First argument of a reaper process.
    const REAPER_ARG: &str = "__reaper";
    /// The running executable, even if its file was replaced.
    const CURRENT_EXE: &str = "/proc/self/exe";
    /// Maximum delay between two attempts to kill remaining processes.
    const MAX_PAUSE: Duration = Duration::from_millis(100);

    /// Executable to start as reaper.
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

    /// Message kinds sent by the reaper, each followed by a 32-bit number.
    const STARTED: u8 = b's';
    const FAILED: u8 = b'f';
    const EXITED: u8 = b'e';
    const EXITED_LAST: u8 = b'l';
    const DRAINED: u8 = b'd';
    /// One kind byte and a number.
    const MESSAGE_BYTES: usize = 5;

    /// Commands to the reaper.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub(crate) enum ReaperCommand {
        /// Send SIGTERM to every process of the run.
        Terminate = b't',
        /// Send SIGKILL to every process of the run until none is left.
        Kill = b'k',
        /// Exit, and leave the processes of the run alone.
        Release = b'r',
    }

    /// Uses this program as the reaper of its runs. Call it first in `main`: in a reaper process it does not return. Without
    /// it, [`quiescent`](sabir_core::dialect::End::quiescent) is never `Some(true)`.
    ///
    /// This sets **process-global** state; the first call of `install` or [`set_program`] wins.
    pub fn install() {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|argument| argument == REAPER_ARG) {
            std::process::exit(i32::from(run_reaper(arguments).is_err()));
        }
        if Path::new(CURRENT_EXE).exists() {
            set_program(CURRENT_EXE);
        }
    }

    /// Uses another program, whose `main` begins with [`install`], as the reaper of runs in this process.
    ///
    /// This sets **process-global** state; the first call of [`install`] or `set_program` wins.
    pub fn set_program(program: impl Into<PathBuf>) {
        PROGRAM.get_or_init(|| program.into());
    }

    /// Command that starts `program` under a reaper, without the program's arguments; `None` if no reaper is configured.
    pub(crate) fn prepare(program: &Path) -> Option<Command> {
        Some(spawn::reaper_command(PROGRAM.get()?, REAPER_ARG, program))
    }

    /// The supervisor's connection to a reaper.
    pub(crate) struct Client {
        child: Child,
        socket: Arc<tokio::net::UnixStream>,
        message: [u8; MESSAGE_BYTES],
        filled: usize,
        /// Event to report once the reaper has exited.
        final_event: Option<ChildEvent>,
    }

    impl Client {
        /// Starts a reaper, which starts the agent with this stdin.
        pub(crate) fn start(mut command: Command, stdin: Option<OwnedFd>) -> io::Result<Self> {
            let (socket, theirs) = UnixStream::pair()?;
            let child = command.stdin(OwnedFd::from(theirs)).spawn()?;
            // The command keeps the other ends of the socket and of the agent's pipes open.
            drop(command);
            send_stdin(&socket, stdin.as_ref())?;
            drop(stdin);
            socket.set_nonblocking(true)?;
            let socket = Arc::new(tokio::net::UnixStream::from_std(socket)?);
            Ok(Self { child, socket, message: [0; MESSAGE_BYTES], filled: 0, final_event: None })
        }

        /// Process id of the reaper.
        pub(crate) fn id(&self) -> Option<u32> {
            self.child.id()
        }

        /// Socket for commands to the reaper.
        pub(crate) fn socket(&self) -> Arc<tokio::net::UnixStream> {
            Arc::clone(&self.socket)
        }

        /// Waits for the agent to start. Returns its process id.
        pub(crate) async fn started(&mut self) -> io::Result<u32> {
            match self.receive().await {
                Some((STARTED, pid)) => u32::try_from(pid).map_err(io::Error::other),
                Some((FAILED, errno)) => Err(io::Error::from_raw_os_error(errno)),
                _ => Err(io::Error::other("its reaper ended before it was started")),
            }
        }

        /// Waits for the next event. Cancel-safe.
        pub(crate) async fn next(&mut self) -> ChildEvent {
            loop {
                if let Some(event) = self.final_event {
                    // Reap the reaper itself.
                    let _ = self.child.wait().await;
                    return event;
                }
                let exited = |raw, drained| ChildEvent::Exited { status: Some(ExitStatus::from_raw(raw)), drained };
                match self.receive().await {
                    Some((EXITED, raw)) => return exited(raw, false),
                    Some((EXITED_LAST, raw)) => self.final_event = Some(exited(raw, true)),
                    Some((DRAINED, _)) => self.final_event = Some(ChildEvent::Drained),
                    Some(_) => {}
                    None => self.final_event = Some(ChildEvent::ReaperLost),
                }
            }
        }

        /// Waits for the next message; `None` if the reaper is gone.
        async fn receive(&mut self) -> Option<(u8, i32)> {
            while self.filled < MESSAGE_BYTES {
                self.socket.readable().await.ok()?;
                match self.socket.try_read(&mut self.message[self.filled..]) {
                    Ok(0) => return None,
                    Ok(count) => self.filled += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return None,
                }
            }
            self.filled = 0;
            let [kind, number @ ..] = self.message;
            Some((kind, i32::from_ne_bytes(number)))
        }
    }

    /// Sends the agent's stdin to the reaper.
    fn send_stdin(socket: &UnixStream, stdin: Option<&OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = stdin.map(|stdin| [stdin.as_fd()]);
        if let Some(fds) = &fds {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives the agent's stdin.
    fn receive_stdin(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let stdin = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok(stdin)
    }

    /// Main function of a reaper: starts the program named by the arguments and waits for all of its processes.
    fn run_reaper(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
        let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        nix::sys::prctl::set_child_subreaper(true)?;
        nix::sys::prctl::set_dumpable(false)?;
        nix::sys::prctl::set_name(c"sabir-reaper")?;
        let stdin = receive_stdin(&control)?;
        let program = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let commands = control.try_clone()?;
        thread::Builder::new().spawn(move || handle_commands(commands))?;
        let leader = match spawn::spawn_agent(&program, arguments, stdin) {
            Ok(leader) => leader,
            Err(error) => return send(&control, FAILED, error.raw_os_error().unwrap_or_default()),
        };
        // Ignore signals sent to process groups or by name. Not earlier: the agent inherits the signal mask.
        SigSet::all().thread_block()?;
        // Now only the agent's processes hold its pipes.
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        send(&control, STARTED, leader)?;
        reap(&control, leader)
    }

    fn send(mut control: &UnixStream, kind: u8, number: i32) -> io::Result<()> {
        let mut message = [kind; MESSAGE_BYTES];
        message[1..].copy_from_slice(&number.to_ne_bytes());
        control.write_all(&message)
    }

    /// Reaps every process of the run. Reports when the leader exits and when none is left.
    fn reap(control: &UnixStream, leader: i32) -> io::Result<()> {
        let mut leader = Pid::from_raw(leader);
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if Some(pid) == leader => {
                    // The process id may be reused now.
                    leader = None;
                    let drained = is_drained();
                    let sent = send(control, if drained { EXITED_LAST } else { EXITED }, status.as_raw());
                    if drained {
                        return sent;
                    }
                    // Where nobody reads it, the other thread is killing the run, and has to get to its end.
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return send(control, DRAINED, 0),
            }
        }
    }

    /// Reaps exited children. Returns whether no child is left.
    fn is_drained() -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Executes commands. Kills the run when the socket closes.
    fn handle_commands(mut commands: UnixStream) {
        let _ = SigSet::all().thread_block();
        let own = std::process::id().cast_signed();
        let mut command = [0];
        loop {
            match commands.read(&mut command) {
                Ok(1..) if command[0] == ReaperCommand::Release as u8 => std::process::exit(0),
                Ok(1..) if command[0] == ReaperCommand::Terminate as u8 => {
                    process_tree::descendants(own).into_iter().for_each(|pid| platform::signal_process(pid, Signal::SIGTERM));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        // A process may fork while its parent is killed, so repeat until the reaping thread finds no child and exits.
        let (mut before, mut pause) = (None, Duration::from_millis(1));
        loop {
            let alive = process_tree::descendants(own);
            alive.iter().for_each(|pid| platform::signal_process(*pid, Signal::SIGKILL));
            // Kill new processes at once; wait for processes that take time to exit.
            if before.as_ref() == Some(&alive) {
                thread::sleep(pause);
                pause = (2 * pause).min(MAX_PAUSE);
            } else {
                pause = Duration::from_millis(1);
            }
            before = Some(alive);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    /// Does nothing: this system has no reaper.
    pub fn install() {}

    /// Does nothing: this system has no reaper.
    pub fn set_program(_: impl Into<std::path::PathBuf>) {}

    pub(crate) fn prepare(_: &std::path::Path) -> Option<tokio::process::Command> {
        None
    }
}
