//! Texts of agents as pieces that are safe to show: colours become styles, everything else that steers a terminal is gone.
//!
//! ```text
//!   "ok \x1b[32mgreen\x1b[0m\x1b]0;title\x07\n" ──► [ok ][green] with the style of green
//! ```

use ratatui::style::{Color, Modifier, Style};
use sabir_core::readable::{begins_sequence, sequence, steers};

/// Columns between the stops of a tab.
const TAB: usize = 4;

/// A part of a line that looks the same all over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// The lines of a text in pieces. Where colours are not wanted, they are dropped like everything else.
pub(crate) fn lines(text: &str, base: Style, colours: bool) -> Vec<Vec<Piece>> {
    let mut style = base;
    text.split('\n').map(|line| pieces(shown_last(line), base, colours, &mut style)).collect()
}

/// What a line shows in the end: a carriage return begins it again, as progress bars do.
fn shown_last(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

fn pieces(line: &str, base: Style, colours: bool, style: &mut Style) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut column = 0;
    let add = |pieces: &mut Vec<Piece>, character: char, style: Style| match pieces.last_mut() {
        Some(last) if last.style == style => last.text.push(character),
        _ => pieces.push(Piece { text: character.to_string(), style }),
    };
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        match character {
            character if begins_sequence(character) => {
                if let (Some(codes), true) = (sequence(character, &mut rest), colours) {
                    select(codes, base, style);
                }
            }
            '\t' => {
                let spaces = TAB - column % TAB;
                (0..spaces).for_each(|_| add(&mut pieces, ' ', *style));
                column += spaces;
            }
            character if steers(character) => {}
            character => {
                add(&mut pieces, character, *style);
                column += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
            }
        }
    }
    pieces
}

/// Applies what a sequence says of colours.
fn select(codes: &str, base: Style, style: &mut Style) {
    let mut codes = codes.split([';', ':']).map(|code| code.parse::<u8>().unwrap_or(0));
    while let Some(code) = codes.next() {
        *style = match code {
            0 => base,
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
            23 => style.remove_modifier(Modifier::ITALIC),
            24 => style.remove_modifier(Modifier::UNDERLINED),
            27 => style.remove_modifier(Modifier::REVERSED),
            30..=37 => style.fg(NAMED[usize::from(code - 30)]),
            38 => wide(&mut codes).map_or(*style, |color| style.fg(color)),
            39 => Style { fg: base.fg, ..*style },
            40..=47 => style.bg(NAMED[usize::from(code - 40)]),
            48 => wide(&mut codes).map_or(*style, |color| style.bg(color)),
            49 => Style { bg: base.bg, ..*style },
            90..=97 => style.fg(NAMED[usize::from(code - 90 + 8)]),
            100..=107 => style.bg(NAMED[usize::from(code - 100 + 8)]),
            _ => *style,
        };
    }
}

/// The colours that every terminal has.
const NAMED: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// A colour of 256 or of millions, as the nearest that every terminal has.
fn wide(codes: &mut impl Iterator<Item = u8>) -> Option<Color> {
    match codes.next()? {
        5 => match codes.next()? {
            named @ 0..16 => Some(NAMED[usize::from(named)]),
            cube @ 16..232 => {
                let level = |part: u8| if part == 0 { 0 } else { 55 + part * 40 };
                let cube = cube - 16;
                Some(nearest(level(cube / 36), level(cube / 6 % 6), level(cube % 6)))
            }
            grey => {
                let level = 8 + (grey - 232) * 10;
                Some(nearest(level, level, level))
            }
        },
        2 => Some(nearest(codes.next()?, codes.next()?, codes.next()?)),
        _ => None,
    }
}

fn nearest(red: u8, green: u8, blue: u8) -> Color {
    let most = red.max(green).max(blue);
    let least = red.min(green).min(blue);
    if most - least < 32 {
        return NAMED[match most {
            0..64 => 0,
            64..144 => 8,
            144..216 => 7,
            216.. => 15,
        }];
    }
    let middle = least + (most - least) / 2;
    let bit = |part: u8, bit: usize| if part > middle { bit } else { 0 };
    let bright = if most > 200 && least > 60 { 8 } else { 0 };
    NAMED[bit(red, 1) + bit(green, 2) + bit(blue, 4) + bright]
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Color, Style};

    use super::lines;

    fn plain(text: &str) -> Vec<String> {
        let lines = lines(text, Style::new(), true);
        lines.iter().map(|line| line.iter().map(|piece| piece.text.as_str()).collect()).collect()
    }

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        let hostile = "a\u{1b}]52;c;aGk=\u{7}b\u{1b}[2J\u{1b}[10;10Hc\u{202e}d\u{7}\u{1b}Pq#0\u{1b}\\e\u{9b}31mf\u{1b}(0g\u{1b}";
        assert_eq!(plain(hostile), ["abcdefg"]);
        assert_eq!(plain("10%\r50%\r100%\r\nnext\tcolumn"), ["100%", "next    column"]);
    }

    #[test]
    fn colours_become_styles_of_the_sixteen() {
        let line =
            &lines("\u{1b}[1;32mok\u{1b}[0m and \u{1b}[38;5;196mred\u{1b}[39m \u{1b}[48;2;0;0;255mx", Style::new(), true)[0];
        let seen: Vec<(&str, Option<Color>, Option<Color>)> =
            line.iter().map(|piece| (piece.text.as_str(), piece.style.fg, piece.style.bg)).collect();
        let expected = [
            ("ok", Some(Color::Green), None),
            (" and ", None, None),
            ("red", Some(Color::Red), None),
            (" ", None, None),
            ("x", None, Some(Color::Blue)),
        ];
        assert_eq!(seen, expected);
        assert_eq!(lines("\u{1b}[31mred", Style::new(), false)[0][0].style, Style::new());
    }
}
