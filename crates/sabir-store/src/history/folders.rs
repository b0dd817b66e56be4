//! What folders hold, kept: only those that changed are listed again.
//!
//! A folder tells when an entry of it was last added, removed or renamed, by a clock that nobody can set back. What was
//! written to the files in it the folder does not tell: they are asked one by one, always.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::index::Remembered;

/// Folders change by the tick of a clock, on some systems one of two seconds. Who lists a folder in the tick of its last
/// change may miss another one of the same tick, and would not notice later.
const TICK: Duration = Duration::from_secs(2);

/// What is known of folders.
#[derive(Debug, Default)]
pub struct Folders(pub(crate) Remembered<Listing>);

/// The entries of a folder when it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    stamp: Stamp,
    /// The names in their order, each with a `/` behind it if it is a folder and else with a zero. No name has either.
    names: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    identity: (u64, u64),
    /// When its entries last changed, in seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl Folders {
    /// The names in a folder, each with whether it is a folder's, in their order.
    pub(crate) fn names(&mut self, folder: &Path) -> io::Result<Vec<(String, bool)>> {
        let stamp = Stamp::of(&fs::metadata(folder)?);
        if let Some(listing) = self.0.recall(folder, |listing| listing.stamp == stamp) {
            return Ok(listing.names().collect());
        }
        let (names, is_whole) = list(folder)?;
        if is_whole && stamp.is_settled() {
            self.0.remember(folder, Listing::of(stamp, &names));
        }
        Ok(names)
    }
}

/// The names in a folder, and whether all entries could be looked at: some file systems fail at one of many.
fn list(folder: &Path) -> io::Result<(Vec<(String, bool)>, bool)> {
    let (mut names, mut is_whole) = (Vec::new(), true);
    for entry in fs::read_dir(folder)? {
        match entry.and_then(|entry| Ok((entry.file_name().into_string(), entry.file_type()?.is_dir()))) {
            Ok((Ok(name), is_folder)) => names.push((name, is_folder)),
            // Agents name their files in plain characters; what is named otherwise is not theirs.
            Ok((Err(_), _)) => {}
            Err(_) => is_whole = false,
        }
    }
    names.sort_unstable();
    Ok((names, is_whole))
}

impl Listing {
    fn of(stamp: Stamp, list: &[(String, bool)]) -> Self {
        let mut names = String::new();
        for (name, is_folder) in list {
            names.push_str(name);
            names.push(if *is_folder { '/' } else { '\0' });
        }
        Self { stamp, names }
    }

    fn names(&self) -> impl Iterator<Item = (String, bool)> {
        self.names.split_inclusive(['/', '\0']).filter_map(|name| {
            let end = name.len().checked_sub(1)?;
            Some((name[..end].to_owned(), name.ends_with('/')))
        })
    }
}

impl Stamp {
    #[cfg(unix)]
    fn of(data: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { identity: (data.dev(), data.ino()), changed: (data.ctime(), data.ctime_nsec()) }
    }

    /// There folders do not tell: they may have changed at any moment.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { identity: (0, 0), changed: (i64::MAX, 0) }
    }

    /// Whether its last change is so long ago that another one would be another moment.
    fn is_settled(&self) -> bool {
        let since_1970 = u64::try_from(self.changed.0).map_or(Duration::ZERO, Duration::from_secs);
        UNIX_EPOCH.checked_add(since_1970 + TICK).is_some_and(|then| then < SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Folders, Listing, Stamp};

    #[test]
    fn names_come_back_in_their_order() {
        let names = [("a\nb".to_owned(), true), ("c d.jsonl".to_owned(), false), ("é".to_owned(), true)];
        let stamp = Stamp { identity: (1, 2), changed: (3, 4) };
        assert_eq!(Listing::of(stamp, &names).names().collect::<Vec<_>>(), names);
        assert_eq!(Listing::of(stamp, &[]).names().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_is_listed_again_when_it_has_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.jsonl"), "").expect("written");
        let stamp = Stamp::of(&fs::metadata(folder.path()).expect("there"));
        let told = [("told".to_owned(), false)];
        let names = |stamp: Stamp| {
            let mut folders = Folders::default();
            folders.0.remember(folder.path(), Listing::of(stamp, &told));
            folders.names(folder.path()).expect("read")
        };
        assert_eq!(names(stamp), told);
        let seconds = stamp.changed.0;
        for other in [Stamp { identity: (0, 0), ..stamp }, Stamp { changed: (seconds - 1, 0), ..stamp }] {
            assert_eq!(names(other), [("a.jsonl".to_owned(), false)]);
        }
    }

    #[test]
    fn what_changed_this_moment_may_change_again() {
        let stamp = |seconds: i64| Stamp { identity: (0, 0), changed: (seconds, 0) };
        let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()).expect("small");
        assert!(stamp(now - 100).is_settled() && stamp(0).is_settled());
        assert!(!stamp(now).is_settled() && !stamp(now + 100).is_settled() && !stamp(i64::MAX).is_settled());
    }
}
