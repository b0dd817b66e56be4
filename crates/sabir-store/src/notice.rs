//! Noticing that something in some folders has changed.

use std::path::PathBuf;
use std::time::Duration;

/// More folders than this are not watched: those who ask look again now and then.
#[cfg(target_os = "linux")]
const MOST: usize = 4_096;

/// Notices changes in folders, but not in those beneath them.
#[derive(Debug, Default)]
pub struct Notice {
    #[cfg(target_os = "linux")]
    inotify: Option<std::os::fd::OwnedFd>,
    folders: Vec<PathBuf>,
}

impl Notice {
    /// Watches these folders and no others. False when not all of them can be watched.
    pub fn watch(&mut self, mut folders: Vec<PathBuf>) -> bool {
        folders.sort();
        folders.dedup();
        if folders == self.folders {
            return self.tells();
        }
        self.folders = folders;
        #[cfg(target_os = "linux")]
        {
            self.inotify = linux::watch(&self.folders);
        }
        self.tells()
    }

    fn tells(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.inotify.is_some();
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Waits for a change, at most this long. Where the system does not tell, there may always have been one.
    pub fn wait(&self, limit: Duration) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(inotify) = &self.inotify {
            return crate::wait::linux::wait(inotify, limit);
        }
        std::thread::sleep(limit);
        true
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

    pub(super) fn watch(folders: &[PathBuf]) -> Option<OwnedFd> {
        if folders.len() > super::MOST {
            return None;
        }
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let changes = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        for folder in folders {
            match add_watch(&inotify, folder, changes) {
                // A folder that is not there yet is told of by the one above it, when there is one.
                Ok(_) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
                Err(_) => return None,
            }
        }
        Some(inotify)
    }
}
