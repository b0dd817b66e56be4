//! The panel beside a run on wide screens: plan, files, tokens.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use sabir_core::readable::{self, dollars, grouped};

use super::{beneath, put};
use crate::app::{App, Run};
use crate::view::item::step;
use crate::wrap::fit;

/// Levels of a bar.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(buffer: &mut Buffer, app: &App, run: &Run, place: Rect) {
    let palette = app.palette;
    let facts = &run.facts;
    let width = usize::from(place.width).saturating_sub(1);
    let mut lines: Vec<Line<'static>> = Vec::new();
    if !facts.plan.is_empty() {
        lines.push(Line::styled("PLAN", palette.dim()));
        lines.extend(facts.plan.iter().map(|item| {
            let (sign, style) = step(item.status, palette);
            Line::styled(fit(&format!("{sign} {}", readable::line(&item.text)), width), style)
        }));
        lines.push(Line::default());
    }
    if !facts.files.is_empty() {
        lines.push(Line::styled("FILES", palette.dim()));
        for (path, changed) in &facts.files {
            let [added, removed] =
                changed.map(|(added, removed)| [format!(" +{added}"), format!(" -{removed}")]).unwrap_or_default();
            let room = width.saturating_sub(added.len() + removed.len());
            let path = tail(&readable::line(beneath(run.row.cwd.as_deref(), path)), room);
            let pad = room.saturating_sub(unicode_width::UnicodeWidthStr::width(path.as_str()));
            lines.push(Line::from(vec![
                Span::raw(path),
                Span::raw(" ".repeat(pad)),
                Span::styled(added, palette.added()),
                Span::styled(removed, palette.removed()),
            ]));
        }
        lines.push(Line::default());
    }
    if let Some(total) = facts.used.total {
        lines.push(Line::styled("TOKENS", palette.dim()));
        let used = &facts.used;
        let classes = [("input", used.input), ("cached", used.cached), ("written", used.written), ("output", used.output)];
        for (name, count) in classes.into_iter().filter(|(_, count)| *count > 0).chain([("all", total)]) {
            lines.push(pair(name, &grouped(count), width));
        }
        if let Some(cost) = facts.cost {
            lines.push(pair("cost", &dollars(cost), width));
        }
        let most = facts.by_turn.iter().copied().max().unwrap_or(0);
        if most > 0 && facts.by_turn.len() > 1 {
            let shown = &facts.by_turn[facts.by_turn.len().saturating_sub(width)..];
            let bar = |count: &u64| BARS[usize::try_from(count.saturating_mul(7) / most).unwrap_or(7).min(7)];
            lines.push(Line::styled("by turn", palette.dim()));
            lines.push(Line::styled(shown.iter().map(bar).collect::<String>(), palette.name()));
        }
    }
    for row in 0..place.height {
        put(buffer, place, row, &Line::styled("│", palette.dim()));
    }
    let inside = Rect { x: place.x + 1, width: place.width.saturating_sub(1), ..place };
    if lines.len() > usize::from(inside.height) {
        lines.truncate(usize::from(inside.height).saturating_sub(1));
        lines.push(Line::styled("…", palette.dim()));
    }
    for (row, line) in (0..inside.height).zip(&lines) {
        put(buffer, inside, row, line);
    }
}

fn pair(name: &str, value: &str, width: usize) -> Line<'static> {
    let pad = width.saturating_sub(name.len() + value.len()).max(1);
    Line::raw(format!("{name}{}{value}", " ".repeat(pad)))
}

/// The end of a path tells more than its beginning.
fn tail(path: &str, width: usize) -> String {
    if unicode_width::UnicodeWidthStr::width(path) <= width {
        return path.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut columns = 1;
    for character in path.chars().rev() {
        columns += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if columns > width {
            break;
        }
        kept.push(character);
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}
