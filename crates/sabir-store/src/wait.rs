//! Waiting for a run to be written on.

use std::io;
use std::time::{Duration, Instant};

use crate::layout::RunFolder;

/// How often it is looked whether the writer is still there, while nothing is written.
const STILL_THERE: Duration = Duration::from_secs(1);
/// How often it is looked for more, where the system does not tell.
const LOOK: Duration = Duration::from_millis(100);

/// Notices changes of a run's folder.
#[derive(Debug)]
pub(crate) struct Watch {
    #[cfg(target_os = "linux")]
    inotify: Option<std::os::fd::OwnedFd>,
    /// What the folder looked like.
    seen: (u32, u64),
}

impl Watch {
    pub(crate) fn new(folder: &RunFolder) -> io::Result<Self> {
        Ok(Self {
            #[cfg(target_os = "linux")]
            inotify: linux::watch(folder),
            seen: look(folder)?,
        })
    }

    /// Waits for a change, at most this long. True when there was one, or the writer is gone.
    pub(crate) fn wait(&mut self, folder: &RunFolder, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let told = self.pause(left);
            let now = look(folder)?;
            if told || now != self.seen || !folder.is_live() {
                self.seen = now;
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Pauses until the system tells of a change, which is true, or it is time to look.
    fn pause(&self, left: Duration) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(inotify) = &self.inotify {
            return linux::wait(inotify, left.min(STILL_THERE));
        }
        std::thread::sleep(left.min(LOOK).min(STILL_THERE));
        false
    }
}

/// The last segment and its size.
fn look(folder: &RunFolder) -> io::Result<(u32, u64)> {
    let last = folder.segments()?.last().copied().unwrap_or(0);
    Ok((last, std::fs::metadata(folder.segment(last)).map_or(0, |file| file.len())))
}

#[cfg(target_os = "linux")]
pub(crate) mod linux {
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

    use crate::layout::RunFolder;

    /// `None` when the user has no more watches to give; then we look now and then.
    pub(super) fn watch(folder: &RunFolder) -> Option<OwnedFd> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::CLOSE_WRITE;
        add_watch(&inotify, folder.path(), changes).ok()?;
        Some(inotify)
    }

    /// Waits for a change and takes note of it.
    pub(crate) fn wait(inotify: &OwnedFd, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let told = poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&limit)).is_ok_and(|count| count > 0);
        let mut changes = [0; 4096];
        while told && rustix::io::read(inotify, &mut changes).is_ok_and(|count| count > 0) {}
        told
    }
}
