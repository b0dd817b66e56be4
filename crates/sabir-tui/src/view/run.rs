//! One run: its head, its timeline, and the panel beside it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use sabir_core::fold::Phase;
use sabir_core::fold::timeline::What;
use sabir_core::readable;

use super::{Palette, about, bottom, clock, ends, places, put, runs, short, side};
use crate::app::{App, Question, Run, State, word};

pub(super) fn draw(buffer: &mut Buffer, app: &App, run: &Run) {
    let palette = app.palette;
    let places::Run { head, body, side, status, foot } = places::run(app.size);
    put(buffer, head, 0, &first(app, run, head.width.into()));
    put(buffer, head, 1, &meter(app, run, head.width.into()));
    timeline(buffer, run, body, palette);
    scrollbar(buffer, run, body, palette);
    if let Some(place) = side {
        side::draw(buffer, app, run, place);
    }
    bottom(buffer, app, status, foot, said(run, palette));
}

/// How the run stands, from whoever knows it better.
pub(super) fn phase(run: &Run) -> Phase {
    match run.facts.outcome {
        Some(outcome) if run.row.phase.is_over() || run.state == State::Over => {
            Phase::from(sabir_core::fold::Status::of(outcome))
        }
        _ => run.row.phase,
    }
}

fn first(app: &App, run: &Run, width: usize) -> Line<'static> {
    let palette = app.palette;
    let facts = &run.facts;
    let (sign, style) = runs::phase(phase(run), palette);
    let agent = facts.agent.as_deref().unwrap_or(&run.row.agent);
    let mut left = vec![
        Span::styled(format!(" {sign} {} ", word(phase(run))), style),
        Span::styled(format!(" {}", readable::line(agent)), palette.bold()),
    ];
    let project = run.row.project().map(str::to_owned);
    for part in [project, facts.model.clone().or(run.row.model.clone())].into_iter().flatten() {
        left.push(Span::styled(format!(" · {}", readable::line(&part)), palette.dim()));
    }
    if let Some(title) = run.row.title.as_deref() {
        left.push(Span::raw(format!("  {}", readable::line(title))));
    }
    let right = match (run.follow, &run.state) {
        (_, State::Reading) => Span::styled("reading … ", palette.note()),
        (true, _) => Span::styled("▼ follows ", palette.good()),
        (false, State::Live) if !run.row.phase.is_over() => Span::styled("‖ paused ", palette.note()),
        _ => Span::raw(""),
    };
    ends(left, vec![right], width)
}

fn meter(app: &App, run: &Run, width: usize) -> Line<'static> {
    let palette = app.palette;
    let facts = &run.facts;
    let mut parts = vec![vec![Span::raw(count(facts.turns, "turn"))], vec![Span::raw(count(facts.tools, "tool"))]];
    if facts.failed > 0 {
        parts[1].push(Span::styled(format!(" ({} failed)", facts.failed), palette.bad()));
    }
    if !facts.files.is_empty() {
        let mut part = vec![Span::raw(count(facts.files.len(), "file"))];
        let lines: Option<Vec<(u64, u64)>> = facts.files.iter().map(|(_, lines)| *lines).collect();
        if let Some(lines) = lines {
            let sum = |of: fn(&(u64, u64)) -> u64| lines.iter().map(of).fold(0, u64::saturating_add);
            part.push(Span::styled(format!(" +{}", sum(|lines| lines.0)), palette.added()));
            part.push(Span::styled(format!(" -{}", sum(|lines| lines.1)), palette.removed()));
        }
        parts.push(part);
    }
    let tokens = facts.used.total.or(run.row.tokens);
    parts.push(vec![Span::raw(tokens.map_or_else(|| "— tokens".to_owned(), |tokens| format!("{} tokens", short(tokens))))]);
    let cost = facts.cost.or(run.row.cost);
    parts.push(vec![Span::raw(cost.map_or_else(|| "cost —".to_owned(), |cost| about(cost, run.row.cost_source)))]);
    if let Some(elapsed) = elapsed(app, run) {
        parts.push(vec![Span::raw(clock(elapsed))]);
    }
    let mut spans = vec![Span::raw(" ")];
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            spans.push(Span::styled(" · ", palette.dim()));
        }
        spans.extend(part);
    }
    ends(spans, Vec::new(), width)
}

fn elapsed(app: &App, run: &Run) -> Option<u64> {
    // A session may have begun before anything happened in it. How it stands, its items know sooner than the list.
    let (items, row) = (&run.facts, &run.row);
    let first = items.first.into_iter().chain(row.started).min()?;
    let last = if phase(run).is_over() { items.last.or(row.last)? } else { app.now };
    u64::try_from(last.checked_sub(first)?).ok()
}

pub(super) fn count(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn said(run: &Run, palette: Palette) -> Vec<Span<'static>> {
    if let State::Trouble(why) = &run.state {
        return vec![Span::styled(format!(" {}", readable::line(why)), palette.bad())];
    }
    let mut said = Vec::new();
    if run.row.phase == Phase::Asking
        && let Some(Question::May { title, .. }) = Question::of(run)
    {
        said.push(Span::styled(format!(" asks: {}", readable::line(&title)), palette.note()));
        if run.row.takes("permission") {
            said.push(Span::styled("  a answers", palette.dim()));
        }
        return said;
    }
    let running = run.facts.tool.and_then(|id| run.timeline.items.get(usize::try_from(id).ok()?));
    if let Some(What::Tool { name, tool_kind, title, input, .. }) = running.map(|item| &item.what)
        && !phase(run).is_over()
    {
        let detail = super::tool::detail(*tool_kind, title.as_deref(), input.as_ref()).unwrap_or_default();
        said.push(Span::styled(format!(" ▸ {} {}", readable::line(name), readable::line(&detail)), palette.busy()));
    }
    if run.only.word() != "everything" {
        said.push(Span::styled(format!("  only {}", run.only.word()), palette.note()));
    }
    if !run.sought.is_empty() {
        said.push(Span::styled(format!("  \u{201c}{}\u{201d}  n next  N before", readable::line(&run.sought)), palette.note()));
    }
    if run.facts.troubles > 0 && said.is_empty() {
        said.push(Span::styled(format!(" {}", count(run.facts.troubles, "error")), palette.bad()));
        said.push(Span::styled("  e goes to the next", palette.dim()));
    }
    said
}

fn timeline(buffer: &mut Buffer, run: &Run, body: Rect, palette: Palette) {
    let Some(first) = run.first_shown() else {
        let words = match &run.state {
            State::Reading => "reading …",
            _ if run.timeline.items.is_empty() => "nothing yet",
            _ => "nothing here is like that; f shows something else",
        };
        put(buffer, body, 0, &Line::styled(words, palette.note()));
        return;
    };
    let (mut item, mut skip) = if run.shows(run.top.0) { run.top } else { (first, 0) };
    let sought = run.sought.to_lowercase();
    let mut row = 0;
    while row < body.height {
        let block = run.block(item);
        for line in block.iter().skip(skip) {
            if row >= body.height {
                break;
            }
            if sought.is_empty() {
                put(buffer, body, row, line);
            } else {
                put(buffer, body, row, &marked(line, &sought, palette));
            }
            if item == run.cursor {
                put(buffer, Rect { x: body.x - 2, width: 1, ..body }, row, &Line::styled("▌", palette.accent()));
            }
            row += 1;
        }
        skip = 0;
        match run.next_shown(item) {
            Some(next) => item = next,
            None => break,
        }
    }
}

/// Where the screen is in the run.
fn scrollbar(buffer: &mut Buffer, run: &Run, body: Rect, palette: Palette) {
    let items = run.timeline.items.len();
    if items < 2 || body.height < 3 {
        return;
    }
    let place = Rect { x: body.x + body.width, width: 1, ..body };
    let row = |item: usize| u16::try_from(item * usize::from(body.height - 1) / (items - 1)).unwrap_or(0);
    for y in 0..body.height {
        put(buffer, place, y, &Line::styled("│", palette.dim()));
    }
    // Errors are seen from afar.
    for item in run.timeline.items.iter().filter(|item| item.what.is_trouble()) {
        put(buffer, place, row(usize::try_from(item.id).unwrap_or(0).min(items - 1)), &Line::styled("!", palette.bad()));
    }
    put(buffer, place, row(run.cursor.min(items - 1)), &Line::styled("█", palette.accent()));
}

/// A line with what is sought marked.
fn marked(line: &Line<'static>, sought: &str, palette: Palette) -> Line<'static> {
    let text = line.to_string();
    // Small letters may have other lengths than the capitals that they are of; then nothing is marked.
    let lower = text.to_lowercase();
    if lower.len() != text.len() || !lower.contains(sought) {
        return line.clone();
    }
    let hits: Vec<(usize, usize)> = lower.match_indices(sought).map(|(at, hit)| (at, at + hit.len())).collect();
    let mut spans = Vec::new();
    let mut at = 0;
    for span in &line.spans {
        let mut piece = String::new();
        let mut inside = false;
        for character in span.content.chars() {
            let hit = hits.iter().any(|(from, to)| (*from..*to).contains(&at));
            if hit != inside && !piece.is_empty() {
                let style = if inside { palette.found() } else { span.style };
                spans.push(Span::styled(std::mem::take(&mut piece), style));
            }
            inside = hit;
            piece.push(character);
            at += character.len_utf8();
        }
        let style = if inside { palette.found() } else { span.style };
        spans.push(Span::styled(piece, style));
    }
    Line { spans, ..line.clone() }
}
