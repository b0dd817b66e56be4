//! What people read: texts that can't steer a terminal, and figures that are easy to take in.

/// One line of a text, with nothing that moves the cursor, changes colours or turns the direction: an agent may print what
/// it likes.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).filter(|c| !steers(*c)).collect()
}

/// The same for text of several lines.
pub fn text(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !steers(*c)).collect()
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

#[cfg(test)]
mod tests {
    use super::{duration, grouped, line, text};

    #[test]
    fn what_an_agent_prints_cannot_steer_the_terminal() {
        assert_eq!(line("a\u{1b}[31mb\nc\u{202e}d"), "a[31mb cd");
        assert_eq!(text("a\n\tb\u{7}\r\u{61c}"), "a\n\tb");
    }

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
        assert_eq!((duration(592), duration(2_574), duration(61_000)), ("592 ms".into(), "2.6 s".into(), "1 min 01 s".into()));
    }
}
