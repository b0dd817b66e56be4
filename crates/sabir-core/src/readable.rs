//! What people read: texts that can't steer a terminal, and figures that are easy to take in.

use std::str::Chars;

/// One line of a text, with nothing that moves the cursor, changes colours or turns the direction: an agent may print what
/// it likes.
pub fn line(text: &str) -> String {
    harmless(text, |character| if matches!(character, '\n' | '\t') { Some(' ') } else { None })
}

/// The same for text of several lines.
pub fn text(text: &str) -> String {
    harmless(text, |character| Some(character).filter(|character| matches!(character, '\n' | '\t')))
}

/// A text without what steers a terminal, but for what is put in the place of some of it.
fn harmless(text: &str, instead: impl Fn(char) -> Option<char>) -> String {
    let mut harmless = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if begins_sequence(character) {
            sequence(character, &mut rest);
        } else if steers(character) {
            harmless.extend(instead(character));
        } else {
            harmless.push(character);
        }
    }
    harmless
}

/// Whether a control sequence begins with this character.
pub fn begins_sequence(character: char) -> bool {
    matches!(character, '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
}

/// Takes the rest of a control sequence, whose first character that was; what it says when it chooses colours. A sequence
/// that is broken off ends at the end of its line, or where it can't go on.
pub fn sequence<'t>(first: char, rest: &mut Chars<'t>) -> Option<&'t str> {
    let kind = match first {
        '\u{1b}' => {
            let kind = rest.clone().next().filter(|kind| !kind.is_control())?;
            rest.next();
            kind
        }
        '\u{9b}' => '[',
        _ => ']',
    };
    let all = rest.as_str();
    let (taken, codes) = match kind {
        '[' => {
            let end = all.find(|character| !matches!(character, ' '..='?')).unwrap_or(all.len());
            let last = all[end..].chars().next().filter(|last| matches!(last, '@'..='~'));
            (end + last.map_or(0, char::len_utf8), (last == Some('m')).then(|| &all[..end]))
        }
        // Titles, links, the clipboard: up to a bell or the string's end.
        ']' | 'P' | 'X' | '^' | '_' => {
            let end = all.find(['\u{7}', '\u{9c}', '\u{1b}', '\u{18}', '\u{1a}', '\n']).unwrap_or(all.len());
            let ends = ["\u{7}", "\u{9c}", "\u{1b}\\"].into_iter().find(|ends| all[end..].starts_with(ends));
            (end + ends.map_or(0, str::len), None)
        }
        // A character set has one more character.
        '(' | ')' | '*' | '+' | '#' | '%' => (all.chars().next().filter(|set| !set.is_control()).map_or(0, char::len_utf8), None),
        _ => (0, None),
    };
    *rest = all[taken..].chars();
    codes
}

/// Control characters, and those that turn the direction of the text.
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Digits in groups of three.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// How long something took.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{:.1} s", millis as f64 / 1e3),
        _ => format!("{} min {:02} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Dollars.
pub fn dollars(cost: f64) -> String {
    if cost >= 100.0 {
        format!("${cost:.0}")
    } else if cost >= 1.0 {
        format!("${cost:.2}")
    } else {
        format!("${cost:.4}")
    }
}

/// Dollars where cents are enough.
pub fn cents(cost: f64) -> String {
    if (0.01..100.0).contains(&cost) { format!("${cost:.2}") } else { dollars(cost) }
}

#[cfg(test)]
mod tests {
    use super::{cents, dollars, duration, grouped, line, text};

    #[test]
    fn money_has_as_many_digits_as_tell() {
        assert_eq!([0.0313, 1.5, 250.4].map(dollars), ["$0.0313", "$1.50", "$250"]);
        assert_eq!([0.0042, 0.298, 12.5, 250.4].map(cents), ["$0.0042", "$0.30", "$12.50", "$250"]);
    }

    #[test]
    fn what_an_agent_prints_cannot_steer_the_terminal() {
        assert_eq!(line("a\u{1b}[31mb\nc\u{202e}d"), "ab cd");
        assert_eq!(text("a\n\tb\u{7}\r\u{61c}"), "a\n\tb");
    }

    #[test]
    fn of_a_control_sequence_nothing_is_left_and_of_what_follows_everything() {
        for (given, left) in [
            ("\u{1b}[1;38;5;196mred\u{1b}[0m, \u{1b}[2Kgone\u{9b}31m.", "red, gone."),
            ("\u{1b}]0;a title\u{7}a\u{1b}]8;;https://example.org\u{1b}\\link\u{1b}]8;;\u{9c}.\u{9d}52;c;aGk=\u{7}", "alink."),
            ("\u{1b}Pq#0\u{1b}\\a\u{1b}(0b\u{1b}=c", "abc"),
            // Broken off, by the end of the line, by another one, by what is none of it.
            ("\u{1b}]0;no end\nnext\u{1b}", "\nnext"),
            ("\u{1b}[31\nnext \u{1b}[3é \u{1b}\n\u{1b}(\n", "\nnext é \n\n"),
            ("\u{1b}]0;title\u{1b}[31mred", "red"),
        ] {
            assert_eq!(text(given), left, "{given:?}");
        }
        assert_eq!(line("\u{1b}[31mred\u{1b}[0m\n[31m]"), "red [31m]");
    }

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
        assert_eq!((duration(592), duration(2_574), duration(61_000)), ("592 ms".into(), "2.6 s".into(), "1 min 01 s".into()));
    }
}
