//! The list of runs.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use sabir_core::fold::Phase;
use sabir_core::readable;
use unicode_width::UnicodeWidthStr as _;

use super::{Palette, about, ago, bottom, clock, ends, places, put, short};
use crate::app::{App, word};
use crate::source::Row;
use crate::wrap::fit;

/// A column. The one without a width takes what is left.
struct Column {
    head: &'static str,
    width: usize,
    /// Its width where there is room.
    wide: usize,
    right: bool,
    /// Screens that are narrower do without.
    from: usize,
}

/// Screens that are so wide have room.
const WIDE: usize = 110;

impl Column {
    fn room(&self, width: usize) -> usize {
        if width < WIDE { self.width } else { self.wide }
    }
}

const COLUMNS: [Column; 8] = [
    Column { head: "STATUS", width: 12, wide: 12, right: false, from: 0 },
    Column { head: "AGENT", width: 11, wide: 12, right: false, from: 34 },
    Column { head: "PROJECT", width: 9, wide: 18, right: false, from: 60 },
    Column { head: "DOES", width: 0, wide: 0, right: false, from: 0 },
    Column { head: "TIME", width: 6, wide: 7, right: true, from: 46 },
    Column { head: "TOKENS", width: 6, wide: 7, right: true, from: 66 },
    Column { head: "COST", width: 8, wide: 8, right: true, from: 74 },
    Column { head: "LAST", width: 8, wide: 8, right: true, from: 100 },
];

/// The sign and the style of a state.
pub(super) fn phase(phase: Phase, palette: Palette) -> (&'static str, Style) {
    match phase {
        Phase::Starting => ("○", palette.busy()),
        Phase::Running => ("●", palette.busy()),
        Phase::Asking => ("?", palette.note()),
        Phase::Success => ("✓", palette.good()),
        Phase::Error => ("✗", palette.bad()),
        Phase::Cancelled => ("■", palette.note()),
        Phase::Timeout => ("◷", palette.note()),
        Phase::Incomplete => ("…", palette.dim()),
    }
}

/// The cells of a row, in the order of the columns.
fn cells(row: &Row, now: i64, palette: Palette) -> [Vec<Span<'static>>; 8] {
    let (sign, style) = phase(row.phase, palette);
    let plain = |text: Option<String>| vec![Span::raw(text.map_or_else(|| "—".to_owned(), |text| readable::line(&text)))];
    let does = match (&row.tool, row.phase.is_over()) {
        (Some(tool), false) => vec![Span::styled(format!("▸ {}", readable::line(tool)), palette.name())],
        _ => plain(row.title.clone()),
    };
    [
        vec![Span::styled(format!("{sign} {}", word(row.phase)), style)],
        plain(Some(row.agent.clone())),
        plain(row.project().map(str::to_owned)),
        does,
        plain(row.elapsed(now).map(clock)),
        plain(row.tokens.map(short)),
        plain(row.cost.map(|cost| about(cost, row.cost_source))),
        plain(row.last.map(|last| ago(now.saturating_sub(last)))),
    ]
}

/// Cells side by side, each as wide as its column.
fn line(cells: [Vec<Span<'static>>; 8], width: usize) -> Line<'static> {
    let kept: Vec<&Column> = COLUMNS.iter().filter(|column| width >= column.from).collect();
    let fixed: usize = kept.iter().map(|column| column.room(width) + 1).sum();
    let rest = width.saturating_sub(fixed + 1);
    let mut spans = vec![Span::raw(" ")];
    for (column, cell) in COLUMNS.iter().zip(cells).filter(|(column, _)| width >= column.from) {
        let room = if column.width == 0 { rest } else { column.room(width) };
        let mut left = room;
        let mut shown = Vec::new();
        for span in cell {
            let text = fit(&span.content, left);
            left -= text.width().min(left);
            shown.push(Span::styled(text, span.style));
        }
        let pad = Span::raw(" ".repeat(left));
        if column.right {
            spans.push(pad);
            spans.extend(shown);
        } else {
            spans.extend(shown);
            spans.push(pad);
        }
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

pub(super) fn draw(buffer: &mut Buffer, app: &App) {
    let palette = app.palette;
    let places::Runs { head, body, detail, status, foot } = places::runs(app.size);
    let runs = &app.runs;
    let live = runs.rows.iter().filter(|row| !row.phase.is_over()).count();
    let width = usize::from(head.width);
    let title =
        vec![Span::styled(" sabir", palette.accent()), Span::raw("  "), Span::styled(readable::line(&app.source), palette.dim())];
    let all = super::run::count(runs.rows.len(), "run");
    let count = if runs.narrowed() { format!("{} of {all} ", runs.shown.len()) } else { format!("{all} ") };
    let going = if live > 0 { format!("● {live} running  ") } else { String::new() };
    let right = vec![Span::styled(going, palette.busy()), Span::styled(count, palette.dim())];
    put(buffer, head, 0, &ends(title, right, width));
    let names = COLUMNS.map(|column| vec![Span::styled(column.head, palette.dim())]);
    put(buffer, head, 1, &line(names, width));
    if runs.shown.is_empty() {
        let words = match (&runs.trouble, runs.loaded) {
            (Some(why), _) => format!(" {why}"),
            (None, false) => " reading …".to_owned(),
            (None, true) if runs.narrowed() => " no run is like that; Esc shows everything".to_owned(),
            (None, true) => " nothing has run yet; `sabir run AGENT PROMPT` runs an agent".to_owned(),
        };
        put(buffer, body, 0, &Line::styled(readable::line(&words), palette.note()));
    }
    let chosen = runs.at();
    for (row, (place, index)) in (0..body.height).zip(runs.shown.iter().enumerate().skip(runs.top)) {
        let mut line = line(cells(&runs.rows[*index], app.now, palette), width);
        if chosen == Some(place) {
            // One bar: colours would be grounds of their own in it.
            line.spans.iter_mut().for_each(|span| span.style = palette.chosen());
        }
        put(buffer, body, row, &line);
    }
    if let Some(row) = runs.chosen() {
        let facts = [Some(row.id.as_str()), row.model.as_deref(), row.cwd.as_deref()];
        let facts = facts.into_iter().flatten().map(readable::line).collect::<Vec<_>>().join(" · ");
        let title = row.title.as_deref().map(readable::line).unwrap_or_default();
        put(buffer, detail, 0, &Line::styled(format!(" {}", fit(&title, width.saturating_sub(2))), palette.bold()));
        put(buffer, detail, 1, &Line::styled(format!(" {}", fit(&facts, width.saturating_sub(2))), palette.dim()));
    }
    let mut said = Vec::new();
    if let Some(why) = runs.trouble.as_ref().filter(|_| !runs.shown.is_empty()) {
        said.push(Span::styled(format!(" {}", readable::line(why)), palette.bad()));
    } else if runs.narrowed() {
        said.push(Span::styled(format!(" only {}", readable::line(&runs.narrowing())), palette.note()));
    }
    bottom(buffer, app, status, foot, said);
}
