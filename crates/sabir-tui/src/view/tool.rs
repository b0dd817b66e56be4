//! A tool call: its line, and all of it when it is unfolded.

use ratatui::style::Style;
use ratatui::text::Span;
use sabir_core::event::{ToolKind, ToolStatus};
use sabir_core::export::call_detail;
use sabir_core::fold::timeline::{Clip, What};
use sabir_core::readable;
use serde_json::Value;

use super::item::{Look, Pen};
use super::{Palette, beneath};

/// What a call does, in a line. A plan is shown as one.
pub(super) fn detail(kind: ToolKind, title: Option<&str>, input: Option<&Clip>) -> Option<String> {
    if kind == ToolKind::Plan {
        return title.map(str::to_owned);
    }
    call_detail(kind, title, input.map(|input| input.text.as_str()))
}

fn sign(status: Option<ToolStatus>, palette: Palette) -> (&'static str, Style) {
    match status {
        None => ("●", palette.busy()),
        Some(ToolStatus::Ok) => ("✓", palette.good()),
        Some(ToolStatus::Unfinished) => ("…", palette.note()),
        Some(_) => ("✗", palette.bad()),
    }
}

pub(super) fn write(pen: &mut Pen, what: &What, look: &Look<'_>) {
    let What::Tool { name, tool_kind, title, input, output, status, exit_code, duration_ms, .. } = what else { return };
    let palette = pen.palette;
    let (sign, style) = sign(*status, palette);
    let folds = input.is_some() || output.is_some();
    let fold = match (folds, look.open) {
        (false, _) => "  ",
        (true, true) => "▾ ",
        (true, false) => "▸ ",
    };
    let detail = detail(*tool_kind, title.as_deref(), input.as_ref()).unwrap_or_default();
    let left = vec![
        Span::styled(fold, palette.dim()),
        Span::styled(format!("{sign} "), style),
        Span::styled(readable::line(name), palette.name()),
        Span::raw(format!("  {}", readable::line(beneath(look.folder, &detail)))),
    ];
    let mut right = Vec::new();
    if look.inside > 0 {
        let hidden = if look.closed { ", hidden" } else { "" };
        right.push(Span::styled(format!(" {} inside{hidden}", super::run::count(look.inside, "step")), palette.note()));
    }
    match status {
        None => right.push(Span::styled(" running", palette.busy())),
        Some(ToolStatus::Ok) => {}
        Some(ToolStatus::Error) => right.push(Span::styled(" failed", style)),
        Some(status) => right.push(Span::styled(format!(" {status}"), style)),
    }
    if let Some(code) = exit_code.filter(|code| *code != 0) {
        right.push(Span::styled(format!(" exit {code}"), style));
    }
    if let Some(took) = duration_ms {
        right.push(Span::styled(format!(" {}", readable::duration(*took)), palette.dim()));
    }
    pen.ends(left, right);
    if look.open {
        if let Some(input) = input {
            arguments(pen, input);
        }
        if let Some(output) = output {
            pen.clip(&Span::styled("    │ ", palette.dim()), output, palette.text(), true);
        }
    } else if let Some(last) =
        output.as_ref().and_then(last_line).filter(|_| status.is_some_and(|status| status != ToolStatus::Ok))
    {
        // Of a failure the last line is the one that tells.
        pen.row(vec![Span::raw("    "), Span::styled(last, palette.dim())]);
    }
}

/// The last line that says something, in safe characters.
fn last_line(output: &Clip) -> Option<String> {
    let text = if output.tail.trim().is_empty() { &output.text } else { &output.tail };
    let line = text.lines().rfind(|line| !line.trim().is_empty())?;
    let pieces = crate::ansi::lines(line, Style::new(), false);
    Some(pieces.iter().flatten().map(|piece| piece.text.as_str()).collect())
}

/// The arguments: one for each line, texts as they are.
fn arguments(pen: &mut Pen, input: &Clip) {
    let palette = pen.palette;
    let known = if input.is_cut() { None } else { serde_json::from_str(&format!("{}{}", input.text, input.tail)).ok() };
    let Some(Value::Object(fields)) = known else {
        pen.clip(&Span::raw("    "), input, palette.dim(), false);
        return;
    };
    for (name, value) in fields {
        let lead = Span::styled(format!("    {}: ", readable::line(&name)), palette.dim());
        match value {
            Value::String(text) if text.contains('\n') => {
                pen.row(vec![lead]);
                pen.prose(&Span::raw("      "), &text, palette.text(), false);
            }
            Value::String(text) => pen.prose(&lead, &text, palette.text(), false),
            value => pen.prose(&lead, &value.to_string(), palette.text(), false),
        }
    }
}
