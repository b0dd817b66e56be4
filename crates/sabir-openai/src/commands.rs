//! The commands that run: whoever ends the loop ends them too.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;

/// A handle to everything that a run leaves behind if nobody cleans up. Clones are the same handle.
#[derive(Debug, Clone, Default)]
pub struct Commands(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Their process groups, by the id of the first process.
    running: BTreeSet<u32>,
    /// The folder for their temporary files.
    temporary: Option<TempDir>,
    ended: bool,
}

impl Commands {
    /// Kills every command and removes their temporary folder. No command starts from here on.
    pub fn end(&self) {
        self.end_then(|| ());
    }

    /// Like [`end`](Self::end), then calls `exit`; the loop cannot continue with the result of a killed command before that
    /// returns.
    pub fn end_then(&self, exit: impl FnOnce()) {
        let mut state = self.lock();
        state.ended = true;
        state.running.iter().for_each(|group| end_group(*group));
        state.temporary = None;
        exit();
    }

    /// The folder for temporary files of commands, made when it is first asked for.
    pub(crate) fn temporary(&self) -> io::Result<PathBuf> {
        let mut state = self.lock();
        if state.temporary.is_none() {
            state.temporary = Some(tempfile::Builder::new().prefix("sabir-").tempdir()?);
        }
        Ok(state.temporary.as_ref().map(|folder| folder.path().to_path_buf()).unwrap_or_default())
    }

    /// Starts a command. The lock is held meanwhile, so that none can slip through while all are ended.
    pub(crate) fn start(&self, start: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
        let mut state = self.lock();
        if state.ended {
            return Err(io::Error::other("the run is over"));
        }
        let child = start()?;
        state.running.insert(child.id());
        Ok(child)
    }

    /// Ends what is left of a command. Its first process must not have been waited for, so that its id is still its own.
    pub(crate) fn finish(&self, group: u32) {
        let mut state = self.lock();
        end_group(group);
        state.running.remove(&group);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
fn end_group(group: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let group = i32::try_from(group).ok().and_then(Pid::from_raw);
    // It may have ended by itself, which is as good.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

#[cfg(not(unix))]
fn end_group(_: u32) {}
