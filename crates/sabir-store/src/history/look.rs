//! Asking files and folders what they are, many of them below one folder.
//!
//! Most of what a look at a history costs, when nothing has changed, is to ask each file. A long path is looked up name by name
//! each time, so on Linux they are asked from the folder that all of them are below.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// What a file or a folder is, as far as anybody wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) is_file: bool,
    /// In bytes.
    pub(crate) size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// When it or its entries last changed by the system's own clock, in seconds and nanoseconds since 1970.
    pub(crate) changed: (i64, u32),
    /// What names it whatever its path: device and number.
    pub(crate) identity: (u64, u64),
}

/// A folder below which files are looked at.
#[derive(Debug)]
pub(super) struct Base<'r> {
    root: &'r Path,
    #[cfg(target_os = "linux")]
    folder: Option<rustix::fd::OwnedFd>,
}

impl<'r> Base<'r> {
    pub(super) fn new(root: &'r Path) -> Self {
        Self {
            root,
            #[cfg(target_os = "linux")]
            folder: {
                use rustix::fs::{Mode, OFlags, open};
                open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
            },
        }
    }

    /// What there is at a path below the folder; the folder itself has an empty one.
    pub(super) fn look(&self, below: &str) -> io::Result<Look> {
        #[cfg(target_os = "linux")]
        if let Some(look) = self.folder.as_ref().and_then(|folder| quick_look(folder, below)) {
            return Ok(look);
        }
        // To join nothing would put a slash behind it.
        if below.is_empty() { Look::at(self.root) } else { Look::at(&self.root.join(below)) }
    }
}

/// The same from a folder that is open. `None` when the system can't say it so, or why it can't.
#[cfg(target_os = "linux")]
fn quick_look(folder: &rustix::fd::OwnedFd, below: &str) -> Option<Look> {
    use rustix::fs::{AtFlags, FileType, StatxFlags, makedev, statx};
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::CTIME | StatxFlags::INO;
    let flags = if below.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    let data = statx(folder, below, flags, wanted).ok()?;
    let modified = i128::from(data.stx_mtime.tv_sec) * 1_000_000_000 + i128::from(data.stx_mtime.tv_nsec);
    Some(Look {
        is_file: FileType::from_raw_mode(data.stx_mode.into()) == FileType::RegularFile,
        size: data.stx_size,
        modified: i64::try_from(modified).ok().filter(|modified| *modified >= 0).unwrap_or(0),
        changed: (data.stx_ctime.tv_sec, data.stx_ctime.tv_nsec),
        identity: (makedev(data.stx_dev_major, data.stx_dev_minor), data.stx_ino),
    })
}

impl Look {
    /// When it last changed, in nanoseconds since 1970.
    pub(crate) fn changed(&self) -> i64 {
        self.changed.0.saturating_mul(1_000_000_000).saturating_add(self.changed.1.into())
    }

    /// What there is at a path.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|data| Self::of(&data))
    }

    #[cfg(unix)]
    fn of(data: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            is_file: data.is_file(),
            size: data.len(),
            modified: super::modified(data),
            changed: (data.ctime(), u32::try_from(data.ctime_nsec()).unwrap_or(0)),
            identity: (data.dev(), data.ino()),
        }
    }

    /// There the path, the size and the time of writing have to do, and folders may have changed at any moment.
    #[cfg(not(unix))]
    fn of(data: &Metadata) -> Self {
        let modified = super::modified(data);
        Self { is_file: data.is_file(), size: data.len(), modified, changed: (i64::MAX, 0), identity: (0, 0) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Base, Look};

    #[test]
    fn a_file_is_the_same_from_wherever_it_is_looked_at() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("é")).expect("made");
        fs::write(root.path().join("é/log.jsonl"), "line\n").expect("written");
        let base = Base::new(root.path());
        for below in ["", "é", "é/log.jsonl"] {
            let look = base.look(below).expect("there");
            assert_eq!(look, Look::at(&root.path().join(below)).expect("there"), "{below}");
            assert_eq!(look.is_file, below.ends_with("jsonl"));
        }
        assert_eq!(base.look("é/log.jsonl").expect("there").size, 5);
        assert_eq!(base.look("none").expect_err("nothing there").kind(), std::io::ErrorKind::NotFound);
        assert!(Base::new(&root.path().join("none")).look("").is_err());
        // A base may turn out to be a file.
        assert!(Base::new(&root.path().join("é/log.jsonl")).look("").expect("there").is_file);
    }
}
