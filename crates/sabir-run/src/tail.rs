//! Tails a file that the agent writes its stdout to.
//!
//! Unlike a pipe, a file signals neither new data nor its end. New data is signalled by inotify, so that a waiting agent costs
//! nothing; without inotify, the file is polled. It ends when no process of the run has it open, which the
//! [supervisor](crate::supervisor) detects.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// Poll interval without inotify.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes that are read before their disk space is freed.
#[cfg(target_os = "linux")]
const PUNCH_HOLE_BYTES: u64 = 16 << 20;

/// Makes file names unique within this process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Reader of a growing file.
pub(crate) struct Tail {
    file: File,
    position: u64,
    /// Disk space before this offset is freed.
    #[cfg(target_os = "linux")]
    freed: u64,
    /// Final size, once no more data is expected.
    end: Option<u64>,
    changes: ChangeNotifier,
}

/// Result of [`Tail::read`].
pub(crate) enum TailRead {
    /// Number of bytes read.
    Bytes(usize),
    /// A writer closed the file; others may have it open.
    WriterClosed,
    /// All data was read.
    End,
}

impl Tail {
    /// Creates an unlinked temporary file that only this user can read. Returns its reader and the write end for the agent.
    pub(crate) fn new() -> io::Result<(Self, File)> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sabir-output-{}-{number}", std::process::id()));
        // `create_new` refuses an existing file or symlink.
        let writer = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let opened = Self::open(&path, &writer);
        fs::remove_file(&path)?;
        Ok((opened?, writer))
    }

    fn open(path: &Path, writer: &File) -> io::Result<Self> {
        // Write access is needed to free disk space.
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

    /// Device and inode.
    pub(crate) fn id(&self) -> io::Result<(u64, u64)> {
        id(&self.file)
    }

    /// Ends the file at its current size.
    pub(crate) fn finish(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.length().unwrap_or(self.position));
        }
    }

    /// Current size. If the file was truncated, reading restarts at its beginning.
    fn length(&mut self) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        if length < self.position {
            self.position = 0;
        }
        Ok(length)
    }

    /// Waits for data. Cancel-safe.
    pub(crate) async fn read(&mut self, buf: &mut [u8]) -> io::Result<TailRead> {
        loop {
            // File reads never block, so a large file would starve other runs.
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

    /// Frees the disk space of data that was read: an agent may run for days.
    #[cfg(target_os = "linux")]
    fn punch_hole(&mut self) {
        use nix::fcntl::{FallocateFlags, fallocate};
        self.freed = self.freed.min(self.position);
        let length = self.position - self.freed;
        if length < PUNCH_HOLE_BYTES {
            return;
        }
        if let (Ok(from), Ok(length)) = (i64::try_from(self.freed), i64::try_from(length)) {
            // Best effort: without support for holes, the file keeps its space until the run ends.
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

/// Signals that a file may have grown.
enum ChangeNotifier {
    #[cfg(target_os = "linux")]
    Inotify(tokio::net::unix::pipe::Receiver),
    Poll(Interval),
}

impl ChangeNotifier {
    /// Watches the file at `path`, which may be unlinked afterwards.
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

    /// Waits for a change. Returns whether a writer closed the file.
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

/// inotify for a single file, read through the only Tokio reader that takes any file descriptor.
#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::unix::pipe::Receiver;

    /// Size of an inotify event without a name: watch, mask, cookie, name length.
    const EVENT_BYTES: usize = 16;

    /// Starts watching. Fails if the user's limit of inotify instances is reached.
    pub(super) fn watch(path: &Path) -> io::Result<Receiver> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE)?;
        Receiver::from_owned_fd_unchecked(OwnedFd::from(inotify))
    }

    /// Waits for events. Returns whether a writer closed the file.
    pub(super) async fn next(inotify: &mut Receiver) -> io::Result<bool> {
        let mut events = [0; 64 * EVENT_BYTES];
        let count = inotify.read(&mut events).await?;
        let masks = events[..count].chunks_exact(EVENT_BYTES).filter_map(|event| event.get(4..8)?.try_into().ok());
        let close_write = AddWatchFlags::IN_CLOSE_WRITE.bits();
        Ok(masks.map(u32::from_ne_bytes).any(|mask| mask & close_write != 0))
    }
}
