//! What folders hold, kept: only those that changed are listed again.
//!
//! A folder tells when an entry of it was last added, removed or renamed, by a clock that nobody can set back. What was
//! written to the files in it the folder does not tell: they are asked one by one, always.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::look::Look;
use crate::index::{Index, Kind};

/// Folders change by the tick of a clock, on some systems one of two seconds. Who lists a folder in the tick of its last
/// change may miss another one of the same tick, and would not notice later.
const TICK: Duration = Duration::from_secs(2);

/// The names in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Names {
    /// In their order, each with a `/` behind it if it is a folder's and else with a zero. No name has either.
    texts: Bytes,
    /// Those that are no text, and whether they are folders'. A folder that has some is listed each time.
    pub(crate) unnamed: Vec<(OsString, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    identity: (u64, u64),
    /// When its entries last changed, in seconds and nanoseconds since 1970.
    changed: (i64, u32),
}

/// The names in a folder of which that is seen now, and perhaps known what it held when it was listed.
pub(crate) fn names(index: &mut Index, folder: &Path, look: &Look) -> io::Result<Names> {
    let stamp = Stamp { identity: look.identity, changed: look.changed };
    if let Some((_, names)) = index.recall(Kind::Folder, folder).filter(|(known, _): &(Stamp, _)| *known == stamp) {
        return Ok(Names { texts: names, unnamed: Vec::new() });
    }
    let (names, is_whole) = list(folder)?;
    if is_whole && names.unnamed.is_empty() && stamp.is_settled() {
        index.remember(Kind::Folder, folder, &stamp, &names.texts);
    }
    Ok(names)
}

/// The names in a folder, and whether all entries could be looked at: some file systems fail at one of many.
fn list(folder: &Path) -> io::Result<(Names, bool)> {
    let (mut names, mut unnamed, mut is_whole) = (Vec::new(), Vec::new(), true);
    for entry in fs::read_dir(folder)? {
        match entry.and_then(|entry| Ok((entry.file_name().into_string(), entry.file_type()?.is_dir()))) {
            Ok((Ok(name), is_folder)) => names.push((name, is_folder)),
            Ok((Err(name), is_folder)) => unnamed.push((name, is_folder)),
            Err(_) => is_whole = false,
        }
    }
    names.sort_unstable();
    unnamed.sort_unstable();
    let names: Names = names.iter().map(|(name, is_folder)| (name.as_str(), *is_folder)).collect();
    Ok((Names { unnamed, ..names }, is_whole))
}

impl<'n> FromIterator<(&'n str, bool)> for Names {
    fn from_iter<I: IntoIterator<Item = (&'n str, bool)>>(list: I) -> Self {
        let mut names = Vec::new();
        for (name, is_folder) in list {
            names.extend_from_slice(name.as_bytes());
            names.push(if is_folder { b'/' } else { 0 });
        }
        Self { texts: names.into(), unnamed: Vec::new() }
    }
}

impl Names {
    /// Each name that is a text, and whether it is a folder's.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        let names = std::str::from_utf8(&self.texts).unwrap_or_default();
        let mut start = 0;
        memchr::memchr2_iter(b'/', 0, names.as_bytes()).map(move |end| {
            let name = &names[start..end];
            start = end + 1;
            (name, names.as_bytes()[end] == b'/')
        })
    }
}

impl Stamp {
    /// Whether its last change is so long ago that another one would be another moment.
    fn is_settled(&self) -> bool {
        let since_1970 = u64::try_from(self.changed.0).map_or(Duration::ZERO, Duration::from_secs);
        since_1970.checked_add(TICK).and_then(|then| UNIX_EPOCH.checked_add(then)).is_some_and(|then| then < SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Names, Stamp, names};
    use crate::history::look::Look;
    use crate::index::{Index, Kind};

    #[test]
    fn names_come_back_in_their_order() {
        let names = [("a\nb", true), ("c d.jsonl", false), ("é", true)];
        assert_eq!(names.into_iter().collect::<Names>().iter().collect::<Vec<_>>(), names);
        assert_eq!(Names::default().iter().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_is_listed_again_when_it_has_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.jsonl"), "").expect("written");
        let look = Look::at(folder.path()).expect("there");
        let told: Names = [("told", false)].into_iter().collect();
        let kept = tempfile::tempdir().expect("a folder");
        let file = kept.path().join("index");
        let names_by = |look: Look| {
            let mut index = Index::open(&file);
            let stamp = Stamp { identity: look.identity, changed: look.changed };
            index.remember(Kind::Folder, folder.path(), &stamp, &told.texts);
            index.save(0, |_, _| {}).expect("kept");
            names(&mut Index::open(&file), folder.path(), &Look::at(folder.path()).expect("there")).expect("read")
        };
        assert_eq!(names_by(look), told);
        let seconds = look.changed.0;
        for other in [Look { identity: (0, 0), ..look }, Look { changed: (seconds - 1, 0), ..look }] {
            assert_eq!(names_by(other), [("a.jsonl", false)].into_iter().collect());
        }
        assert!(names(&mut Index::default(), Path::new("/nowhere/at/all"), &look).is_err());
    }

    #[test]
    fn what_changed_this_moment_may_change_again() {
        let stamp = |seconds: i64| Stamp { identity: (0, 0), changed: (seconds, 0) };
        let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()).expect("small");
        assert!(stamp(now - 100).is_settled() && stamp(0).is_settled());
        assert!(!stamp(now).is_settled() && !stamp(now + 100).is_settled() && !stamp(i64::MAX).is_settled());
    }
}
