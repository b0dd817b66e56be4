//! What is known of places: from the index, or anew.

use std::path::Path;

use super::ByPath;

/// What is known of files or folders, by path. A path that is no text is not known.
#[derive(Debug)]
pub(crate) struct Remembered<T> {
    known: ByPath<Known<T>>,
}

#[derive(Debug)]
struct Known<T> {
    what: T,
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

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { known: ByPath::default() }
    }
}

impl<T> Remembered<T> {
    /// Takes what the index says. Gives the bytes of what it says no more.
    pub(super) fn know(&mut self, path: &str, what: T, bytes: u64) -> u64 {
        let known = Known { what, news: News::Unseen, bytes };
        self.known.insert(path.to_owned(), known).map_or(0, |old| old.bytes)
    }

    /// What is known of a place, if it is still true.
    pub(crate) fn recall(&mut self, path: &Path, is_true: impl FnOnce(&T) -> bool) -> Option<&T> {
        let known = self.known.get_mut(path.to_str()?).filter(|known| is_true(&known.what))?;
        if known.news == News::Unseen {
            known.news = News::Seen;
        }
        Some(&known.what)
    }

    /// Takes note of what is true now.
    pub(crate) fn remember(&mut self, path: &Path, what: T) {
        if let Some(path) = path.to_str() {
            self.known.insert(path.to_owned(), Known { what, news: News::New, bytes: 0 });
        }
    }

    /// Whether there is something that is not in the index.
    pub(super) fn has_news(&self) -> bool {
        self.news().next().is_some()
    }

    /// What is not in the index.
    pub(super) fn news(&self) -> impl Iterator<Item = (&str, &T)> {
        self.known.iter().filter(|(_, known)| known.news == News::New).map(Self::entry)
    }

    /// What an index should have: not what is gone.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &T)> {
        let is_there = |path: &str, known: &Known<T>| known.news != News::Unseen || Path::new(path).exists();
        self.known.iter().filter(move |(path, known)| is_there(path, known)).map(Self::entry)
    }

    fn entry<'k>((path, known): (&'k String, &'k Known<T>)) -> (&'k str, &'k T) {
        (path, &known.what)
    }
}
