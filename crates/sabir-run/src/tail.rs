//! A file that an agent writes and we read along.
//!
//! A pipe says by itself when there is news and when it is over; a file does not. News comes from inotify, so that an agent
//! that waits costs nothing; where that can't be had, the file is looked at in intervals. It is over when no process of the
//! run has it open any more, which the [supervisor](crate::supervise) finds out.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often a file is looked at where nothing tells of its news.
const LOOK: Duration = Duration::from_millis(50);

/// So much that was read is given back to the file system at a time.
#[cfg(target_os = "linux")]
const GIVEN_BACK: u64 = 16 << 20;

/// Tells the files of this process apart.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A file that grows, and how far it was read.
pub(crate) struct Tail {
    file: File,
    position: u64,
    /// What lies before this takes no room any more.
    #[cfg(target_os = "linux")]
    freed: u64,
    /// Where it ends, when nothing more is to come.
    end: Option<u64>,
    wake: Wake,
}

/// What became of a wish to read.
pub(crate) enum Read {
    /// So many bytes came.
    Bytes(usize),
    /// Somebody who wrote to it has let go of it: perhaps nobody holds it any more.
    LetGo,
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
            wake: Wake::new(path),
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
    pub(crate) async fn read(&mut self, space: &mut [u8]) -> io::Result<Read> {
        loop {
            // Reading a file never waits, so a large one would keep all other runs of this process waiting.
            tokio::task::coop::consume_budget().await;
            let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.position));
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(space.len());
            match self.file.read_at(&mut space[..room], self.position)? {
                0 if self.end.is_some() => return Ok(Read::End),
                0 if self.length()? > self.position => {}
                0 => {
                    if self.wake.wait().await? {
                        return Ok(Read::LetGo);
                    }
                }
                count => {
                    self.position += count as u64;
                    self.give_back();
                    return Ok(Read::Bytes(count));
                }
            }
        }
    }

    /// What was read takes no room on the disk: an agent may print for days.
    #[cfg(target_os = "linux")]
    fn give_back(&mut self) {
        use nix::fcntl::{FallocateFlags, fallocate};
        self.freed = self.freed.min(self.position);
        let length = self.position - self.freed;
        if length < GIVEN_BACK {
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
    fn give_back(&mut self) {}
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// How we learn that there may be more.
enum Wake {
    #[cfg(target_os = "linux")]
    News(tokio::net::unix::pipe::Receiver),
    Look(Interval),
}

impl Wake {
    /// For the file of that path, which may lose its name afterwards.
    fn new(path: &Path) -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(news) = linux::news(path) {
            return Self::News(news);
        }
        let _ = path;
        let mut interval = interval(LOOK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self::Look(interval)
    }

    /// Waits until there may be more; true when somebody let go of the file.
    async fn wait(&mut self) -> io::Result<bool> {
        match self {
            #[cfg(target_os = "linux")]
            Self::News(news) => linux::next(news).await,
            Self::Look(interval) => {
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

    /// A notice about a file itself has no name behind it, so that all have this size: watch, mask, cookie, length of the name.
    const NOTICE: usize = 16;

    /// Begins to watch a file. A user may have only so many of these.
    pub(super) fn news(path: &Path) -> io::Result<Receiver> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE)?;
        Receiver::from_owned_fd_unchecked(OwnedFd::from(inotify))
    }

    /// Waits for notices; true when somebody let go of the file.
    pub(super) async fn next(news: &mut Receiver) -> io::Result<bool> {
        let mut notices = [0; 64 * NOTICE];
        let count = news.read(&mut notices).await?;
        let masks = notices[..count].chunks_exact(NOTICE).filter_map(|notice| notice.get(4..8)?.try_into().ok());
        let let_go = AddWatchFlags::IN_CLOSE_WRITE.bits();
        Ok(masks.map(u32::from_ne_bytes).any(|mask| mask & let_go != 0))
    }
}
