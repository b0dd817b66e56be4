//! Texts cut at a number of bytes, but never within a character.

use std::borrow::Cow;

use crate::history::id_of;

/// Longest id or name that a fold keeps as it is, in bytes.
const NAME_BYTES: usize = 256;
/// What stands for the rest of a text that was cut.
pub(crate) const ELLIPSIS: char = '…';

/// The last place up to `at` where a character begins, or the end.
pub fn before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

/// The first place from `at` on where a character begins, or the end.
pub fn after(text: &str, at: usize) -> usize {
    (at..text.len()).find(|place| text.is_char_boundary(*place)).unwrap_or(text.len())
}

/// At most so many bytes of the beginning.
pub fn head(text: &str, bytes: usize) -> &str {
    &text[..before(text, bytes)]
}

/// At most so many bytes; a text that was cut ends with an ellipsis.
pub fn ellipsis(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let mut cut = head(text, bytes.saturating_sub(ELLIPSIS.len_utf8())).to_owned();
    cut.push(ELLIPSIS);
    Cow::Owned(cut)
}

/// An id or name of bounded size. Of a longer one it is the beginning, an ellipsis and a digest of all of it, so that the
/// same names stay the same and different ones different.
pub fn name(text: &str) -> Cow<'_, str> {
    if text.len() <= NAME_BYTES {
        return Cow::Borrowed(text);
    }
    let digest = format!("{:016x}", digest(text));
    let mut cut = ellipsis(text, NAME_BYTES - digest.len()).into_owned();
    cut.push_str(&digest);
    Cow::Owned(cut)
}

/// Digest of an id of any length. It is the same in every build: names that were cut are stored with it, in the overviews
/// of a hub.
pub fn digest(text: &str) -> u64 {
    id_of(text)
}

#[cfg(test)]
mod tests {
    use super::{NAME_BYTES, after, before, ellipsis, head, name};

    #[test]
    fn a_long_name_is_bounded_marked_and_still_tells_apart() {
        let long = |end: &str| format!("{}{end}", "ä".repeat(100_000));
        let (one, other) = (long("1"), long("2"));
        assert!(name(&one).len() <= NAME_BYTES && name(&one).contains('…'));
        assert_ne!(name(&one), name(&other));
        assert_eq!(name(&one), name(&one.clone()));
        assert!(name(&one).ends_with("…2f9e218a22317657"), "the digest stays the same: {}", name(&one));
        assert_eq!(name("claude-opus-4-5"), "claude-opus-4-5");
        assert_eq!(name(&"x".repeat(NAME_BYTES)), "x".repeat(NAME_BYTES));
        assert_eq!((ellipsis("äöü", 6), ellipsis("äöü", 5)), ("äöü".into(), "ä…".into()));
    }

    #[test]
    fn no_character_is_torn() {
        let text = "aä€😀";
        let places: Vec<_> = (0..=text.len() + 1).map(|at| (before(text, at), after(text, at))).collect();
        let expected = [(0, 0), (1, 1), (1, 3), (3, 3), (3, 6), (3, 6), (6, 6), (6, 10), (6, 10), (6, 10), (10, 10), (10, 10)];
        assert_eq!(places, expected);
        assert_eq!(head(text, 5), "aä");
    }
}
