//! Commands: the one place that starts processes.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::capped::Capped;
use crate::commands::Commands;
use crate::confine::Confinement;

/// Holds the command back until the thread that started it is gone: a process may look into a thread that is confined
/// like itself, and so into the memory of the loop, where the key is.
const GATE: &str = "read -r go && exec sh -c \"$1\" < /dev/null";

/// How long the output of a command is waited for that has ended, when something that escaped holds it open.
const LEFT_OPEN: Duration = Duration::from_secs(2);

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) output: String,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
}

enum News {
    Output(Vec<u8>),
    Closed,
    Exited,
}

/// Runs a command in a process group of its own and waits for it. What it leaves in the background ends with it.
pub(crate) fn run(
    command: &str,
    folder: &Path,
    time: Duration,
    commands: &Commands,
    confinement: &Confinement,
) -> io::Result<Ended> {
    let temporary = commands.temporary()?;
    // Both streams go into one pipe, so that their order is the one in which they were written.
    let (output, input) = io::pipe()?;
    let errors = input.try_clone()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", GATE, "sh", command]).current_dir(folder).process_group(0);
    shell.stdin(Stdio::piped()).stdout(input).stderr(errors).env("TMPDIR", &temporary);
    for name in secrets() {
        shell.env_remove(name);
    }
    let mut child = thread::scope(|scope| {
        let start = move || {
            confinement.apply()?;
            commands.start(|| shell.spawn())
        };
        thread::Builder::new().spawn_scoped(scope, start)?.join().unwrap_or_else(|_| Err(io::Error::other("it did not start")))
    })?;
    // The confined thread is gone: the gate may open. A gate that is broken lets nothing through.
    let opened = child.stdin.take().map_or(Ok(()), |mut gate| gate.write_all(b"\n"));
    let (sender, news) = mpsc::channel();
    let watched = watch(output, child.id(), &sender);
    drop(sender);
    let mut capped = Capped::default();
    let mut timed_out = false;
    if watched.is_ok() {
        let deadline = Instant::now() + time;
        loop {
            match news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(News::Output(bytes)) => capped.push(&bytes),
                Ok(News::Closed) => {}
                Ok(News::Exited) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    timed_out = true;
                    break;
                }
            }
        }
    }
    commands.finish(child.id());
    let status = child.wait()?;
    watched.and(opened)?;
    while let Ok(News::Output(bytes)) = next_output(&news) {
        capped.push(&bytes);
    }
    Ok(Ended { output: capped.into_text(), exit_code: status.code(), signal: status.signal(), timed_out })
}

/// What is still to come of the output.
fn next_output(news: &mpsc::Receiver<News>) -> Result<News, RecvTimeoutError> {
    match news.recv_timeout(LEFT_OPEN) {
        Ok(News::Exited) => news.recv_timeout(LEFT_OPEN),
        other => other,
    }
}

/// Two threads: one reads, one waits without taking the exit code away, so that the id stays the command's own.
fn watch(mut output: io::PipeReader, id: u32, sender: &Sender<News>) -> io::Result<()> {
    let (read, exited) = (sender.clone(), sender.clone());
    thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if read.send(News::Output(buffer[..length].to_vec())).is_err() {
                return;
            }
        }
        let _ = read.send(News::Closed);
    })?;
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("it has no process id"))?;
    thread::Builder::new().spawn(move || {
        let gone = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(id), gone), Err(rustix::io::Errno::INTR)) {}
        let _ = exited.send(News::Exited);
    })?;
    Ok(())
}

/// Variables that are for the loop and not for what it runs.
fn secrets() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("OPENAI_") || name.starts_with("SABIR_")
    })
}
