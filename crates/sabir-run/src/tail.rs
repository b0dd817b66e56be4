//! A file that an agent writes and we read along.
//!
//! A pipe says by itself when there is inotify and when it is over; a file does not. Inotify comes from inotify, so that an agent
//! that waits costs nothing; where that can't be had, the file is looked at in intervals. It is over when no process of the
//! run has it open any more, which the [supervisor](crate::supervise) finds out.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often a file is looked at where nothing tells of its inotify.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// So much that was read is given back to the file system at a time.
#[cfg(target_os = "linux")]
const PUNCH_HOLE_BYTES: u64 = 16 << 20;

/// Tells the files of this process apart.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A file that grows, and how far it was read.
pub(crate) struct Tail {
    file: File,
    position: u64,
    /// What lies before this takes no len any more.
    #[cfg(target_os = "linux")]
    freed: u64,
    /// Where it ends, when nothing more is to come.
    end: Option<u64>,
    changes: ChangeNotifier,
}

/// What became of a wish to read.
pub(crate) enum TailRead {
    /// So many bytes came.
    Bytes(usize),
    /// Somebody who wrote to it has let go of it: perhaps nobody holds it any more.
    WriterClosed,
    /// All was read.
    End,
}

impl Tail {
    /// A new file that has no name and that only this user may read, and the end for the agent to write to.
    pub(crate) fn new() -> io::Result<(Self, File)> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sabir-output-{}-{number}", std::process::id()));
        // It must be new: a file or link of others that waits there is not touched.
        let writer = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let opened = Self::open(&path, &writer);
        fs::remove_file(&path)?;
        Ok((opened?, writer))
    }

    fn open(path: &Path, writer: &File) -> io::Result<Self> {
        // Writing is for giving back what was read.
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if id(&file)? != id(writer)? {
            return Err(io::Error::other("the file was replaced"));
        }
        Ok(Self {
            file,
            position: 0,
            #[cfg(target_os = "linux")]
            freed: 0,
            end: None,
            changes: ChangeNotifier::new(path),
        })
    }

    /// Its device and its number there.
    pub(crate) fn id(&self) -> io::Result<(u64, u64)> {
        id(&self.file)
    }

    /// Nothing more is waited for: what is there now is all.
    pub(crate) fn finish(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.length().unwrap_or(self.position));
        }
    }

    /// How long it is. When it is shorter than what was read, somebody emptied it and writes from its start.
    fn length(&mut self) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        if length < self.position {
            self.position = 0;
        }
        Ok(length)
    }

    /// Waits for bytes. Can be dropped while waiting without losing one.
    pub(crate) async fn read(&mut self, buf: &mut [u8]) -> io::Result<TailRead> {
        loop {
            // Reading a file never waits, so a large one would keep all other runs of this process waiting.
            tokio::task::coop::consume_budget().await;
            let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.position));
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
            match self.file.read_at(&mut buf[..len], self.position)? {
                0 if self.end.is_some() => return Ok(TailRead::End),
                0 if self.length()? > self.position => {}
                0 => {
                    if self.changes.wait().await? {
                        return Ok(TailRead::WriterClosed);
                    }
                }
                count => {
                    self.position += count as u64;
                    self.punch_hole();
                    return Ok(TailRead::Bytes(count));
                }
            }
        }
    }

    /// What was read takes no len on the disk: an agent may print for days.
    #[cfg(target_os = "linux")]
    fn punch_hole(&mut self) {
        use nix::fcntl::{FallocateFlags, fallocate};
        self.freed = self.freed.min(self.position);
        let length = self.position - self.freed;
        if length < PUNCH_HOLE_BYTES {
            return;
        }
        if let (Ok(from), Ok(length)) = (i64::try_from(self.freed), i64::try_from(length)) {
            // A file system that can't do it keeps the file until the run is over.
            let _ =
                fallocate(&self.file, FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE, from, length);
        }
        self.freed = self.position;
    }

    #[cfg(not(target_os = "linux"))]
    fn punch_hole(&mut self) {}
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// How we learn that there may be more.
enum ChangeNotifier {
    #[cfg(target_os = "linux")]
    Inotify(tokio::net::unix::pipe::Receiver),
    Poll(Interval),
}

impl ChangeNotifier {
    /// For the file of that path, which may lose its name afterwards.
    fn new(path: &Path) -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(inotify) = linux::watch(path) {
            return Self::Inotify(inotify);
        }
        let _ = path;
        let mut interval = interval(POLL_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self::Poll(interval)
    }

    /// Waits until there may be more; true when somebody let go of the file.
    async fn wait(&mut self) -> io::Result<bool> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Inotify(inotify) => linux::next(inotify).await,
            Self::Poll(interval) => {
                interval.tick().await;
                Ok(false)
            }
        }
    }
}

/// Notices of the kernel about one file, over the only reader of the runtime that takes a descriptor of any kind.
#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::unix::pipe::Receiver;

    /// A event about a file itself has no name behind it, so that all have this size: watch, mask, cookie, length of the name.
    const EVENT_BYTES: usize = 16;

    /// Begins to watch a file. A user may have only so many of these.
    pub(super) fn watch(path: &Path) -> io::Result<Receiver> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE)?;
        Receiver::from_owned_fd_unchecked(OwnedFd::from(inotify))
    }

    /// Waits for events; true when somebody let go of the file.
    pub(super) async fn next(inotify: &mut Receiver) -> io::Result<bool> {
        let mut events = [0; 64 * EVENT_BYTES];
        let count = inotify.read(&mut events).await?;
        let masks = events[..count].chunks_exact(EVENT_BYTES).filter_map(|event| event.get(4..8)?.try_into().ok());
        let close_write = AddWatchFlags::IN_CLOSE_WRITE.bits();
        Ok(masks.map(u32::from_ne_bytes).any(|mask| mask & close_write != 0))
    }
}
