//! An item of a timeline as lines.

use std::fmt::Write as _;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use sabir_core::event::{Cause, Change, Outcome, PlanStatus};
use sabir_core::fold::TokensReport;
use sabir_core::fold::timeline::{Choice, Clip, Edit, Item, Step, What};
use sabir_core::readable::{self, dollars, grouped};
use unicode_width::UnicodeWidthStr as _;

use super::{Palette, beneath, clock, diff_lines, ends, spaced, tool};
use crate::ansi;
use crate::wrap::{fit, wrapped};

/// Columns that a level of sub-agents takes.
const LEVEL: usize = 2;

/// How an item is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'r> {
    /// The folder of the run: what lies in it is named without it.
    pub(crate) folder: Option<&'r str>,
    /// Columns that there are.
    pub(crate) width: usize,
    pub(crate) palette: Palette,
    /// Whether it is unfolded.
    pub(crate) open: bool,
    /// How many sub-agents it is in.
    pub(crate) depth: usize,
    /// How many items are beneath it.
    pub(crate) inside: usize,
    /// Whether those are hidden.
    pub(crate) closed: bool,
    /// When the run began.
    pub(crate) began: Option<i64>,
}

/// Lines on their way.
pub(super) struct Pen {
    pub(super) palette: Palette,
    pub(super) width: usize,
    pub(super) lines: Vec<Line<'static>>,
}

impl Pen {
    /// One line, cut where it is too long.
    pub(super) fn row(&mut self, spans: Vec<Span<'static>>) {
        let mut room = self.width;
        let mut kept = Vec::new();
        for span in spans {
            let text = fit(&span.content, room);
            room -= text.width().min(room);
            kept.push(Span::styled(text, span.style));
        }
        self.lines.push(Line::from(kept));
    }

    /// One line with something at its end.
    pub(super) fn ends(&mut self, left: Vec<Span<'static>>, right: Vec<Span<'static>>) {
        self.lines.push(ends(left, right, self.width));
    }

    pub(super) fn blank(&mut self) {
        self.lines.push(Line::default());
    }

    /// A text of several lines behind a sign. Colours that are in it are shown where that is wanted.
    pub(super) fn prose(&mut self, lead: &Span<'static>, text: &str, style: Style, colours: bool) {
        let indent = lead.width();
        let mut rows = Vec::new();
        for line in ansi::lines(text.trim_end(), style, colours && self.palette.colours()) {
            wrapped(&line, self.width.saturating_sub(indent), &mut rows);
        }
        for (place, mut row) in rows.into_iter().enumerate() {
            // A rule at the side goes on, any other sign stands at the beginning alone.
            let again = place == 0 || lead.content.ends_with("│ ");
            row.spans.insert(0, if again { lead.clone() } else { Span::raw(" ".repeat(indent)) });
            self.lines.push(row);
        }
    }

    /// The same of a text that may be cut.
    pub(super) fn clip(&mut self, lead: &Span<'static>, clip: &Clip, style: Style, colours: bool) {
        let rule = lead.content.ends_with("│ ");
        let (text, indent) = (&clip.text, if rule { lead.clone() } else { Span::raw(" ".repeat(lead.width())) });
        if clip.is_cut() {
            self.prose(lead, text, style, colours);
            let missing = clip.size.saturating_sub((clip.text.len() + clip.tail.len()) as u64);
            let words = format!("… {} bytes are not shown …", grouped(missing));
            self.row(vec![indent.clone(), Span::styled(words, self.palette.note())]);
            self.prose(&indent, &clip.tail, style, colours);
        } else {
            self.prose(lead, &format!("{text}{}", clip.tail), style, colours);
        }
    }
}

/// The lines of an item.
pub(crate) fn block(item: &Item, look: &Look<'_>) -> Vec<Line<'static>> {
    let depth = look.depth.min(look.width / LEVEL / 2);
    let mut pen = Pen { palette: look.palette, width: look.width.saturating_sub(depth * LEVEL).max(1), lines: Vec::new() };
    write(&mut pen, item, look);
    if depth > 0 {
        let guide = Span::styled("┆ ".repeat(depth), look.palette.dim());
        pen.lines.iter_mut().for_each(|line| line.spans.insert(0, guide.clone()));
    }
    pen.lines
}

fn write(pen: &mut Pen, item: &Item, look: &Look<'_>) {
    let palette = pen.palette;
    match &item.what {
        What::Run { agent, agent_version, model, cwd, session_id } => {
            let version = agent_version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
            let mut spans = vec![Span::styled(readable::line(&format!("▶ {agent}{version}")), palette.bold())];
            for fact in [model, cwd, session_id].into_iter().flatten() {
                spans.push(Span::styled(format!(" · {}", readable::line(fact)), palette.dim()));
            }
            pen.row(spans);
        }
        What::Prompt { text } => {
            pen.blank();
            pen.clip(&Span::styled("› ", palette.note()), text, palette.note(), false);
        }
        What::Turn { stop_reason, tokens, cost_usd } => turn(pen, item, look, stop_reason.as_deref(), tokens.as_ref(), *cost_usd),
        What::Text { text, answer } => {
            pen.blank();
            let sign = if *answer { Span::styled("◆ ", palette.good()) } else { Span::raw("  ") };
            let style = if *answer { palette.bold() } else { palette.text() };
            pen.clip(&sign, text, style, false);
        }
        What::Thinking { text } => {
            let sign = if look.open { "▾ " } else { "▸ " };
            if look.open {
                pen.clip(&Span::styled(sign, palette.dim()), text, palette.thought(), false);
            } else {
                let first = readable::line(text.text.trim_start().lines().next().unwrap_or_default());
                pen.row(vec![
                    Span::styled(sign, palette.dim()),
                    Span::styled("thinking  ", palette.dim()),
                    Span::styled(first, palette.thought()),
                ]);
            }
        }
        What::Tool { .. } => tool::write(pen, &item.what, look),
        What::File { path, change, from, diff, added, removed, .. } => {
            file(pen, look, path, *change, from.as_deref(), diff.as_ref(), *added, *removed);
        }
        What::Edits { edits } => suggested(pen, edits),
        What::Plan { items } => plan(pen, items),
        What::Permission { title, options, decision, .. } => permission(pen, title, options, decision.as_deref()),
        What::Retry { attempt, max_attempts, delay_ms, message } => {
            let of = max_attempts.map(|max| format!(" of {max}")).unwrap_or_default();
            let wait = delay_ms.map(|wait| format!(", next in {}", readable::duration(wait))).unwrap_or_default();
            let text = format!("attempt {attempt}{of} failed{wait}: {message}");
            pen.prose(&Span::styled("↻ ", palette.note()), &text, palette.note(), false);
        }
        What::Activity { message } => pen.row(vec![Span::styled(format!("· {}", readable::line(message)), palette.dim())]),
        What::Error { message, class, fatal } => {
            let class = class.map(|class| format!(" ({})", spaced(&class.to_string()))).unwrap_or_default();
            let fatal = if *fatal { ", which ends the run" } else { "" };
            pen.prose(&Span::styled("✗ ", palette.bad()), &format!("{message}{class}{fatal}"), palette.bad(), false);
        }
        What::Unrecognized { of, raw } => {
            let sign = if look.open { "▾ ? " } else { "▸ ? " };
            let of = readable::line(of.as_deref().unwrap_or("line"));
            let short = if look.open { String::new() } else { readable::line(raw.text.lines().next().unwrap_or_default()) };
            pen.row(vec![
                Span::styled(sign, palette.note()),
                Span::styled(format!("not understood: {of}  "), palette.note()),
                Span::styled(short, palette.dim()),
            ]);
            if look.open {
                pen.clip(&Span::raw("    "), raw, palette.text(), false);
            }
        }
        What::End { outcome, cause, exit_code, signal, duration_ms, tokens, cost_usd } => {
            let good = *outcome == Outcome::Completed;
            let mut words = outcome.to_string();
            if let Some(cause) = cause.filter(|cause| *cause != Cause::Unknown) {
                let _ = write!(words, " ({})", spaced(&cause.to_string()));
            }
            if let Some(code) = exit_code.filter(|code| *code != 0) {
                let _ = write!(words, ", exit {code}");
            }
            if let Some(signal) = signal {
                let _ = write!(words, ", {}", readable::line(signal));
            }
            let took = duration_ms.map(readable::duration);
            pen.blank();
            let style = if good { palette.good() } else { palette.bad() };
            let right = spent(tokens.as_ref(), *cost_usd, took);
            pen.ends(
                vec![Span::styled(format!("{} {words}", if good { "✓" } else { "✗" }), style)],
                vec![Span::styled(right, palette.dim())],
            );
        }
        _ => pen.row(vec![Span::styled("· something that this version does not know", palette.dim())]),
    }
}

/// Tokens, cost and time, as far as they are known.
fn spent(tokens: Option<&TokensReport>, cost: Option<f64>, time: Option<String>) -> String {
    let tokens = tokens.and_then(|tokens| tokens.total).map(|total| format!("{} tokens", grouped(total)));
    [tokens, cost.map(dollars), time].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn turn(pen: &mut Pen, item: &Item, look: &Look<'_>, why: Option<&str>, tokens: Option<&TokensReport>, cost: Option<f64>) {
    let palette = pen.palette;
    let since = item.at.zip(look.began).and_then(|(at, began)| u64::try_from(at.as_millis() - began).ok());
    let number = item.turn.map_or_else(|| "turn".to_owned(), |turn| format!("turn {turn}"));
    let why = why.filter(|why| !matches!(*why, "end_turn" | "tool_use" | "stop" | "toolUse"));
    let why = why.map(|why| format!("  {}", readable::line(why))).unwrap_or_default();
    let right = spent(tokens, cost, since.map(|since| format!("+{}", clock(since))));
    let right = if right.is_empty() { right } else { format!(" {right}") };
    let left = format!("── {number}{why} ");
    let rule = pen.width.saturating_sub(left.width() + right.width());
    pen.blank();
    pen.row(vec![Span::styled(format!("{left}{}{right}", "─".repeat(rule)), palette.dim())]);
}

#[allow(clippy::too_many_arguments)]
fn file(
    pen: &mut Pen,
    look: &Look<'_>,
    path: &str,
    change: Change,
    from: Option<&str>,
    diff: Option<&Clip>,
    added: Option<u64>,
    removed: Option<u64>,
) {
    let palette = pen.palette;
    let sign = match change {
        Change::Create => "+",
        Change::Delete => "-",
        Change::Rename => "→",
        _ => "~",
    };
    let fold = match (diff, look.open) {
        (None, _) => "  ",
        (Some(_), true) => "▾ ",
        (Some(_), false) => "▸ ",
    };
    let path = beneath(look.folder, path);
    let from = from.map(|from| format!("{} → ", beneath(look.folder, from))).unwrap_or_default();
    let mut right = Vec::new();
    if let (Some(added), Some(removed)) = (added, removed) {
        right.push(Span::styled(format!("+{added} "), palette.added()));
        right.push(Span::styled(format!("-{removed}"), palette.removed()));
    }
    let left = vec![
        Span::styled(fold, palette.dim()),
        Span::styled(format!("{sign} "), palette.note()),
        Span::styled(readable::line(&format!("{from}{path}")), palette.note()),
    ];
    pen.ends(left, right);
    if let Some(diff) = diff.filter(|_| look.open) {
        let lines = diff_lines(diff, pen.width.saturating_sub(4), false, palette);
        pen.lines.extend(lines.into_iter().map(|mut line| {
            line.spans.insert(0, Span::raw("    "));
            line
        }));
    }
}

fn suggested(pen: &mut Pen, edits: &[Edit]) {
    let palette = pen.palette;
    for edit in edits {
        let title = edit.title.as_deref().map(|title| format!("  {}", readable::line(title))).unwrap_or_default();
        pen.row(vec![
            Span::styled("✎ ", palette.note()),
            Span::styled(readable::line(&edit.file_path), palette.note()),
            Span::styled(title, palette.dim()),
        ]);
        pen.prose(&Span::raw("    "), &edit.replacement, palette.added(), false);
    }
}

/// The sign and the style of a step.
pub(super) fn step(status: PlanStatus, palette: Palette) -> (&'static str, Style) {
    match status {
        PlanStatus::InProgress => ("▸", palette.busy()),
        PlanStatus::Completed => ("☑", palette.dim()),
        PlanStatus::Cancelled => ("☒", palette.dim()),
        _ => ("☐", palette.text()),
    }
}

fn plan(pen: &mut Pen, items: &[Step]) {
    let palette = pen.palette;
    let done = items.iter().filter(|item| item.status == PlanStatus::Completed).count();
    pen.row(vec![Span::styled(format!("  plan, {done} of {} done", items.len()), palette.bold())]);
    for item in items {
        let (sign, style) = step(item.status, palette);
        pen.prose(&Span::styled(format!("  {sign} "), style), &readable::line(&item.text), style, false);
    }
}

fn permission(pen: &mut Pen, title: &str, options: &[Choice], decision: Option<&str>) {
    let palette = pen.palette;
    let answer = match decision {
        Some(decision) => {
            let label = options.iter().find(|option| option.id == decision).map_or(decision, |option| &option.label);
            Span::styled(format!("  {}", readable::line(label)), palette.dim())
        }
        None => {
            let labels: Vec<String> = options.iter().map(|option| readable::line(&option.label)).collect();
            Span::styled(format!("  waits for an answer: {}", labels.join(" / ")), palette.busy())
        }
    };
    pen.row(vec![Span::styled("? ", palette.note()), Span::styled(readable::line(title), palette.note()), answer]);
}
