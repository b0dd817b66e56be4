//! Lines that are too long, in several.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar as _;

use crate::ansi::Piece;

/// Breaks a line of pieces at so many columns: between words, where there are any.
pub(crate) fn wrapped(pieces: &[Piece], width: usize, out: &mut Vec<Line<'static>>) {
    let width = width.max(2);
    let characters: Vec<(char, usize)> = pieces
        .iter()
        .enumerate()
        .flat_map(|(place, piece)| piece.text.chars().map(move |character| (character, place)))
        .collect();
    let mut from = 0;
    loop {
        let (to, next) = break_at(&characters, from, width);
        out.push(line(&characters[from..to], pieces));
        if next >= characters.len() {
            return;
        }
        from = next;
    }
}

/// Where the row that begins at `from` ends, and where the next one begins.
fn break_at(characters: &[(char, usize)], from: usize, width: usize) -> (usize, usize) {
    let mut columns = 0;
    let mut word = None;
    for (place, (character, _)) in characters.iter().enumerate().skip(from) {
        columns += character.width().unwrap_or(0);
        if columns > width {
            if *character == ' ' {
                return (place, place + 1);
            }
            return match word {
                // A word that is longer than half of the row is broken like any other text.
                Some(word) if word > from + width / 2 => (word, word + 1),
                _ => (place.max(from + 1), place.max(from + 1)),
            };
        }
        if *character == ' ' {
            word = Some(place);
        }
    }
    (characters.len(), characters.len())
}

fn line(characters: &[(char, usize)], pieces: &[Piece]) -> Line<'static> {
    let mut spans: Vec<(usize, String)> = Vec::new();
    for (character, place) in characters {
        match spans.last_mut() {
            Some((of, text)) if of == place => text.push(*character),
            _ => spans.push((*place, character.to_string())),
        }
    }
    Line::from(spans.into_iter().map(|(place, text)| Span::styled(text, pieces[place].style)).collect::<Vec<_>>())
}

/// The text cut to a number of columns, with a sign that it was cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if unicode_width::UnicodeWidthStr::width(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut columns = 0;
    for character in text.chars() {
        let own = character.width().unwrap_or(0);
        if columns + own + 1 > width {
            break;
        }
        columns += own;
        cut.push(character);
    }
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::{fit, wrapped};
    use crate::ansi;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        for line in ansi::lines(text, Style::new(), false) {
            wrapped(&line, width, &mut out);
        }
        out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_break_between_words_and_long_words_anywhere() {
        assert_eq!(rows("one two three", 8), ["one two", "three"]);
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(rows("日本語", 4), ["日本", "語"]);
        assert_eq!(rows("日本", 0), ["日", "本"]);
    }

    #[test]
    fn nothing_but_spaces_is_lost() {
        let text = "a bb ccc dddd eeeee ffffff ggggggg 日本語 hhhhhhhh";
        for width in 1..40 {
            let kept: String = rows(text, width).concat();
            assert_eq!(kept.replace(' ', ""), text.replace(' ', ""), "{width}");
        }
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(
            (fit("abcdef", 4), fit("abc", 4), fit("日本語", 4), fit("abc", 0)),
            ("abc…".into(), "abc".into(), "日…".into(), String::new())
        );
    }
}
