//! Texts cut at a number of bytes, but never within a character.

/// The last place up to `at` where a character begins, or the end.
pub(crate) fn before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

/// The first place from `at` on where a character begins, or the end.
pub(crate) fn after(text: &str, at: usize) -> usize {
    (at..text.len()).find(|place| text.is_char_boundary(*place)).unwrap_or(text.len())
}

/// At most so many bytes of the beginning.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    &text[..before(text, bytes)]
}

#[cfg(test)]
mod tests {
    use super::{after, before, head};

    #[test]
    fn no_character_is_torn() {
        let text = "aä€😀";
        let places: Vec<_> = (0..=text.len() + 1).map(|at| (before(text, at), after(text, at))).collect();
        let expected = [(0, 0), (1, 1), (1, 3), (3, 3), (3, 6), (3, 6), (6, 6), (6, 10), (6, 10), (6, 10), (10, 10), (10, 10)];
        assert_eq!(places, expected);
        assert_eq!(head(text, 5), "aä");
    }
}
