//! What was said already of a text that comes in pieces and then again as a whole.

use crate::cut;

/// How much of the end is kept to find the place again.
const TAIL: usize = 256;

/// An end shorter than this may be found anywhere by chance.
const TELLING: usize = 16;

/// Remembers how far a growing text was told: its length and its last bytes, not the text, so that it costs the same
/// for a word and for a gigabyte.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    length: usize,
    tail: String,
}

impl Said {
    /// Takes note of a piece that was told.
    pub fn push(&mut self, piece: &str) {
        self.length = self.length.saturating_add(piece.len());
        self.tail.push_str(suffix(piece, TAIL));
        let kept = suffix(&self.tail, TAIL).len();
        self.tail.drain(..self.tail.len() - kept);
    }

    /// Whether nothing was told yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether a full text begins with what was emitted, as far as length and tail tell.
    pub fn is_prefix_of(&self, full: &str) -> bool {
        self.beyond(full).is_some()
    }

    /// What the whole text says beyond what was told, which from here on counts as told. Empty when the whole does not
    /// begin with what was told: nothing is said twice because a copy differs.
    pub fn rest<'t>(&mut self, whole: &'t str) -> &'t str {
        let rest = self.beyond(whole).unwrap_or("");
        self.push(rest);
        rest
    }

    /// What a snapshot shows that was not told. Agents show only the end of a long output; where the snapshot no longer
    /// begins with what was told, it goes on after the last bytes told, and is all news when those are gone.
    pub fn news<'t>(&mut self, snapshot: &'t str) -> &'t str {
        let news = self.beyond(snapshot).or_else(|| self.after_tail(snapshot)).unwrap_or(snapshot);
        self.push(news);
        news
    }

    fn beyond<'t>(&self, whole: &'t str) -> Option<&'t str> {
        let (told, rest) = whole.split_at_checked(self.length)?;
        told.ends_with(&self.tail).then_some(rest)
    }

    fn after_tail<'t>(&self, snapshot: &'t str) -> Option<&'t str> {
        let at = snapshot.rfind(&self.tail).filter(|_| self.tail.len() >= TELLING)?;
        snapshot.get(at + self.tail.len()..)
    }
}

/// The end of a text, at most so many bytes, cut between characters.
fn suffix(text: &str, bytes: usize) -> &str {
    &text[cut::after(text, text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    use super::{Said, TAIL};

    #[test]
    fn the_whole_copy_adds_only_what_is_missing() {
        let mut said = Said::default();
        said.push("Hello, ");
        assert!(said.is_prefix_of("Hello, world") && !said.is_prefix_of("Hello"));
        assert_eq!(said.rest("Hello, world"), "world");
        assert_eq!(said.rest("Hello, world"), "");
        assert_eq!(said.rest("Hello"), "");
        assert_eq!(said.rest("Quite another text"), "");
    }

    #[test]
    fn nothing_told_makes_all_of_it_news() {
        assert_eq!(Said::default().rest("all"), "all");
        assert_eq!(Said::default().news("all"), "all");
    }

    #[test]
    fn a_window_that_moved_goes_on_where_it_was_left() {
        let mut said = Said::default();
        assert_eq!(said.news("line 1\nline 2\n"), "line 1\nline 2\n");
        assert_eq!(said.news("line 1\nline 2\nline 3\n"), "line 3\n");
        let long = (4..200).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        assert_eq!(said.news(&format!("line 1\nline 2\nline 3\n{long}")), long);
        assert_eq!(said.news(&format!("…{}line 200\n", &long[400..])), "line 200\n");
        assert_eq!(said.news("something else"), "something else");
    }

    #[test]
    fn the_tail_is_short_and_whole_characters() {
        let mut said = Said::default();
        let text = "aéé".repeat(1_000);
        said.push(&text);
        assert!(said.tail.len() <= TAIL && text.ends_with(&said.tail));
        assert_eq!(said.rest(&format!("{text}!")), "!");
        assert_eq!(said.rest("é"), "");
    }
}
