//! The windows over a screen: keys, and the choice of agents and states.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget as _};

use super::{Palette, places, put};
use crate::app::App;
use crate::keys::{self, Scope};
use crate::wrap::fit;

/// Columns of the names of keys.
const KEYS: usize = 16;

/// The table of keys as lines.
pub(crate) fn help_lines(palette: Palette) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for scope in Scope::ALL {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(scope.title(), palette.bold()));
        for row in keys::of(scope) {
            let names = row.names();
            let pad = KEYS.saturating_sub(unicode_width::UnicodeWidthStr::width(names.as_str())).max(1);
            lines.push(Line::from(vec![
                Span::styled(format!("  {names}"), palette.accent()),
                Span::raw(" ".repeat(pad)),
                Span::raw(row.help),
            ]));
        }
    }
    lines.push(Line::default());
    lines.push(Line::raw("The wheel scrolls. A click chooses, and opens what is chosen."));
    lines
}

/// Where the keys of a screen begin in these lines.
pub(crate) fn help_line_of(wanted: Scope) -> usize {
    Scope::ALL.into_iter().take_while(|scope| *scope != wanted).map(|scope| keys::of(scope).count() + 2).sum()
}

fn framed(buffer: &mut Buffer, place: Rect, title: &'static str, palette: Palette) -> Rect {
    Clear.render(place, buffer);
    let block = Block::bordered().title(Line::styled(title, palette.bold())).border_style(palette.dim());
    let inside = block.inner(place);
    block.render(place, buffer);
    inside
}

pub(super) fn draw(buffer: &mut Buffer, app: &App, top: usize) {
    let inside = framed(buffer, places::help(app.size), " Keys ", app.palette);
    let lines = help_lines(app.palette);
    for (row, line) in (0..inside.height).zip(lines.iter().skip(top)) {
        put(buffer, inside, row, line);
    }
}

pub(super) fn filter(buffer: &mut Buffer, app: &App, at: usize) {
    let palette = app.palette;
    let choices = app.runs.choices();
    let place = places::filter(app.size, choices.len());
    let inside = framed(buffer, place, " Show only ", palette);
    let top = places::filter_top(place, at);
    let rows = inside.height.saturating_sub(1);
    for (row, (number, choice)) in (0..rows).zip(choices.iter().enumerate().skip(top)) {
        let mark = if choice.on { "[x]" } else { "[ ]" };
        let room = usize::from(inside.width).saturating_sub(20);
        let word = fit(&sabir_core::readable::line(&choice.word), room);
        let pad = room.saturating_sub(unicode_width::UnicodeWidthStr::width(word.as_str()));
        let text = format!(" {mark} {:<6} {word}{} {:>5} ", choice.kind, " ".repeat(pad), choice.count);
        let style = if number == at { palette.chosen() } else { palette.text() };
        put(buffer, inside, row, &Line::styled(text, style));
    }
    put(buffer, inside, rows, &Line::styled(" nothing chosen shows everything", palette.dim()));
}
