//! The state as cells. Nothing here changes anything.

mod diff;
mod help;
mod item;
mod palette;
pub(crate) mod places;
mod run;
mod runs;
mod side;
mod tool;

pub(crate) use diff::diff_lines;
pub(crate) use help::{help_line_of, help_lines};
pub(crate) use item::{Look, block};
pub use palette::Palette;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use sabir_core::fold::CostSource;
use sabir_core::readable::cents;
use unicode_width::UnicodeWidthStr as _;

use crate::app::{App, Question, Typing};
use crate::keys::{self, Scope};
use crate::wrap::fit;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < 4 || area.height < 3 {
        return;
    }
    match (&app.diff, &app.run) {
        (Some(diff), Some(run)) => diff::draw(buffer, app, diff, run),
        (_, Some(run)) => run::draw(buffer, app, run),
        _ => runs::draw(buffer, app),
    }
    if let Some(at) = app.filter {
        help::filter(buffer, app, at);
    }
    if let Some(top) = app.help {
        help::draw(buffer, app, top);
    }
}

/// A line of spans, cut where the place ends.
fn put(buffer: &mut Buffer, place: Rect, row: u16, line: &Line<'_>) {
    if row < place.height {
        buffer.set_line(place.x, place.y + row, line, place.width);
    }
}

/// The last lines of every screen: what is said, and what may be pressed.
fn bottom(buffer: &mut Buffer, app: &App, status: Rect, foot: Rect, said: Vec<Span<'static>>) {
    let palette = app.palette;
    let asked = app.question.as_ref().map(|question| match question {
        Question::Cancel => " cancel this run?".to_owned(),
        Question::May { title, .. } => format!(" may it? {}", sabir_core::readable::line(title)),
    });
    let line = match (&app.typing, asked.as_ref().or(app.note.as_ref())) {
        (Some(typing), _) => typed(typing, status.width.into(), palette),
        (None, Some(note)) => Line::styled(sabir_core::readable::line(note), palette.note()),
        (None, None) => Line::from(said),
    };
    put(buffer, status, 0, &line);
    put(buffer, foot, 0, &footer(app.scope(), foot.width.into(), palette));
}

/// What is being typed. Of a long line the end is shown: there one types.
fn typed(typing: &Typing, width: usize, palette: Palette) -> Line<'static> {
    let sign = if typing.prompt { " prompt: " } else { "/" };
    let room = width.saturating_sub(sign.width() + 1);
    let text = sabir_core::readable::line(&typing.text);
    let from = text.char_indices().rev().take(room).last().map_or(text.len(), |(at, _)| at);
    let text = text[from..].to_owned();
    Line::from(vec![Span::styled(sign, palette.accent()), Span::raw(text), Span::styled(" ", palette.chosen())])
}

/// The keys of a screen in a line. Help and the way out are always there.
fn footer(scope: Scope, width: usize, palette: Palette) -> Line<'static> {
    let words: Vec<(String, &'static str)> = keys::of(scope)
        .filter(|row| !row.word.is_empty())
        .map(|row| (row.keys.first().map(|key| key.name()).unwrap_or_default(), row.word))
        .collect();
    let columns = |(key, word): &(String, &str)| key.width() + word.width() + 3;
    let kept = words.len().saturating_sub(2);
    let mut room = width + 2;
    room = room.saturating_sub(words[kept..].iter().map(columns).sum());
    let mut spans = Vec::new();
    for (place, entry) in words.iter().enumerate() {
        if place < kept {
            match room.checked_sub(columns(entry)) {
                Some(left) => room = left,
                None => {
                    room = 0;
                    continue;
                }
            }
        }
        if !spans.is_empty() {
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(entry.0.clone(), palette.accent()));
        spans.push(Span::styled(format!(" {}", entry.1), palette.dim()));
    }
    Line::from(spans)
}

/// Two texts on one line: the right one stays, the left one is cut.
fn ends(left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let right_width: usize = right.iter().map(Span::width).sum();
    if right_width + 2 > width {
        return Line::from(left);
    }
    let mut room = width - right_width - 1;
    let mut spans = Vec::new();
    for span in left {
        let text = fit(&span.content, room);
        room -= text.width().min(room);
        spans.push(Span::styled(text, span.style));
    }
    spans.push(Span::raw(" ".repeat(room + 1)));
    spans.extend(right);
    Line::from(spans)
}

/// A figure in few columns: 950, 22.4k, 1.2M.
fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..100_000 => format!("{:.1}k", count as f64 / 1e3),
        100_000..999_500 => format!("{}k", (count + 500) / 1_000),
        999_500..100_000_000 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// A cost; one that nobody reported, but prices say, is about so much.
fn about(cost: f64, source: CostSource) -> String {
    if source == CostSource::Computed { format!("≈{}", cents(cost)) } else { cents(cost) }
}

/// How long ago, in a word.
fn ago(millis: i64) -> String {
    match millis / 60_000 {
        ..1 => "now".to_owned(),
        minutes @ 1..60 => format!("{minutes}m ago"),
        minutes @ 60..1_440 => format!("{}h ago", minutes / 60),
        minutes => format!("{}d ago", minutes / 1_440),
    }
}

/// A path as one says it who is in a folder: what lies beneath it without the folder.
fn beneath<'p>(folder: Option<&str>, path: &'p str) -> &'p str {
    let rest = folder.filter(|folder| !folder.is_empty()).and_then(|folder| path.strip_prefix(folder.trim_end_matches('/')));
    rest.and_then(|rest| rest.strip_prefix('/')).filter(|rest| !rest.is_empty()).unwrap_or(path)
}

/// A name of a program in words: `rateLimited` is rate limited.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for character in name.chars() {
        match character {
            '_' | '-' => words.push(' '),
            capital if capital.is_ascii_uppercase() => words.extend([' ', capital.to_ascii_lowercase()]),
            other => words.push(other),
        }
    }
    words
}

/// A time in few columns: 12s, 4m05s, 3h07m, 2d04h.
fn clock(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::{Palette, ago, beneath, clock, footer, short, spaced};
    use crate::keys::Scope;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [950, 22_351, 512_645, 999_700, 1_234_567, 123_456_789].map(short),
            ["950", "22.4k", "513k", "1.0M", "1.2M", "123M"]
        );
        assert_eq!([-5, 59_000, 60_000, 7_200_000, 172_800_000].map(ago), ["now", "now", "1m ago", "2h ago", "2d ago"]);
        assert_eq!([12_000, 245_000, 11_220_000, 187_200_000].map(clock), ["12s", "4m05s", "3h07m", "2d04h"]);
    }

    #[test]
    fn names_are_short_and_in_words() {
        assert_eq!(beneath(Some("/src/a"), "/src/a/b.rs"), "b.rs");
        assert_eq!(beneath(Some("/src/a/"), "/src/ab/c.rs"), "/src/ab/c.rs");
        assert_eq!([beneath(None, "/x"), beneath(Some("/x"), "/x"), beneath(Some(""), "/x")], ["/x"; 3]);
        assert_eq!([spaced("rateLimited"), spaced("max_turns")], ["rate limited", "max turns"]);
    }

    #[test]
    fn help_and_the_way_out_are_always_at_the_bottom() {
        for scope in Scope::ALL {
            for width in [20, 40, 80, 120] {
                let line = footer(scope, width, Palette::plain());
                assert!(line.width() <= width, "{width}: {line}");
                assert!(line.to_string().contains("? help"), "{width}: {line}");
                assert!(line.to_string().contains("q "), "{width}: {line}");
            }
        }
    }
}
