//! What folders hold, kept: only those that changed are listed again.
//!
//! A folder tells when an entry of it was last added, removed or renamed, by a clock that nobody can set back. What was
//! written to the files in it the folder does not tell: they are asked one by one, always.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Folders change by the tick of a clock, on some systems one of two seconds. Who lists a folder in the tick of its last
/// change may miss another one of the same tick, and would not notice later.
const TICK: Duration = Duration::from_secs(2);

/// What is known of folders.
#[derive(Debug, Default)]
pub struct Folders {
    known: HashMap<PathBuf, Known>,
}

#[derive(Debug)]
struct Known {
    listing: Listing,
    news: News,
    /// How many bytes the index takes for it.
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum News {
    /// It is in the index, and nobody has looked whether it is still true.
    Unseen,
    /// It is in the index and true.
    Seen,
    /// It is not in the index.
    New,
}

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
    /// Takes what the index says of a folder. Gives the bytes of what it says no more.
    pub(crate) fn know(&mut self, path: &str, listing: Listing, bytes: u64) -> u64 {
        let known = Known { listing, news: News::Unseen, bytes };
        self.known.insert(PathBuf::from(path), known).map_or(0, |old| old.bytes)
    }

    /// The names in a folder, each with whether it is a folder's, in their order.
    pub(crate) fn names(&mut self, folder: &Path) -> io::Result<Vec<(String, bool)>> {
        let stamp = Stamp::of(&fs::metadata(folder)?);
        if let Some(known) = self.known.get_mut(folder)
            && stamp == known.listing.stamp
        {
            known.news = if known.news == News::New { News::New } else { News::Seen };
            return Ok(known.listing.names().collect());
        }
        let names = list(folder)?;
        if stamp.is_settled() {
            let known = Known { listing: Listing::of(stamp, &names), news: News::New, bytes: 0 };
            self.known.insert(folder.to_path_buf(), known);
        } else {
            self.known.remove(folder);
        }
        Ok(names)
    }

    /// What is not in the index.
    pub(crate) fn news(&self) -> impl Iterator<Item = (&str, &Listing)> {
        self.known.iter().filter(|(_, known)| known.news == News::New).filter_map(Self::entry)
    }

    /// What an index should have.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Listing)> {
        self.known.iter().filter(|(path, known)| known.news != News::Unseen || path.exists()).filter_map(Self::entry)
    }

    fn entry<'k>((path, known): (&'k PathBuf, &'k Known)) -> Option<(&'k str, &'k Listing)> {
        Some((path.to_str()?, &known.listing))
    }
}

/// Agents name their files in plain characters; what is named otherwise is not theirs.
fn list(folder: &Path) -> io::Result<Vec<(String, bool)>> {
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?.is_dir()));
    let mut names: Vec<_> = fs::read_dir(folder)?.filter_map(Result::ok).filter_map(named).collect();
    names.sort_unstable();
    Ok(names)
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
        (UNIX_EPOCH + since_1970).checked_add(TICK).is_some_and(|then| then < SystemTime::now())
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
        let path = folder.path().to_str().expect("a text");
        let stamp = Stamp::of(&fs::metadata(path).expect("there"));
        let told = [("told".to_owned(), false)];
        let names = |stamp: Stamp| {
            let mut folders = Folders::default();
            folders.know(path, Listing::of(stamp, &told), 0);
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
