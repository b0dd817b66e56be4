//! Diffs, with the numbers of lines where there is room for them.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use sabir_core::fold::timeline::{Clip, What};
use sabir_core::readable::{self, grouped};

use super::{Palette, beneath, bottom, ends, places, put};
use crate::ansi;
use crate::app::{App, Diff, Run};
use crate::wrap::wrapped;

/// Columns of the numbers of lines.
const NUMBERS: usize = 12;
/// Screens that are narrower have no numbers.
const ROOM: usize = 60;

/// The lines of a unified diff.
pub(crate) fn diff_lines(diff: &Clip, width: usize, numbers: bool, palette: Palette) -> Vec<Line<'static>> {
    let numbers = numbers && width >= ROOM;
    let mut lines = Vec::new();
    let mut at = None;
    each(unnamed(&diff.text), width, numbers, palette, &mut at, &mut lines);
    if diff.is_cut() {
        let missing = diff.size.saturating_sub((diff.text.len() + diff.tail.len()) as u64);
        lines.push(Line::styled(format!("… {} bytes are not shown …", grouped(missing)), palette.note()));
        at = None;
    }
    if !diff.tail.is_empty() {
        each(&diff.tail, width, numbers, palette, &mut at, &mut lines);
    }
    lines
}

/// A diff without the two lines that name the file: that stands above it.
fn unnamed(diff: &str) -> &str {
    let rest = diff.strip_prefix("--- ").and_then(|rest| rest.split_once('\n')).map(|(_, rest)| rest);
    let rest = rest.and_then(|rest| rest.strip_prefix("+++ ")).and_then(|rest| rest.split_once('\n'));
    rest.map_or(diff, |(_, rest)| rest)
}

fn each(text: &str, width: usize, numbers: bool, palette: Palette, at: &mut Option<(u64, u64)>, lines: &mut Vec<Line<'static>>) {
    for line in text.lines() {
        let (style, old, new) = classed(line, at, palette);
        let gutter = if numbers { NUMBERS } else { 0 };
        let from = lines.len();
        for pieces in ansi::lines(line, style, false) {
            wrapped(&pieces, width.saturating_sub(gutter), lines);
        }
        if numbers {
            let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            for (place, row) in lines[from..].iter_mut().enumerate() {
                let shown = if place == 0 { format!("{:>5} {:>5} ", number(old), number(new)) } else { " ".repeat(NUMBERS) };
                row.spans.insert(0, Span::styled(shown, palette.dim()));
            }
        }
    }
}

/// The style of a line, and its numbers in the old and the new file.
fn classed(line: &str, at: &mut Option<(u64, u64)>, palette: Palette) -> (Style, Option<u64>, Option<u64>) {
    if line.starts_with("@@") {
        *at = hunk(line);
        return (palette.hunk(), None, None);
    }
    let inside = at.is_some();
    match line.as_bytes().first() {
        // Before the first hunk these are the names of the files.
        Some(b'+' | b'-') if !inside && (line.starts_with("+++") || line.starts_with("---")) => (palette.bold(), None, None),
        Some(b'+') => {
            let number = at.as_mut().map(|(_, new)| std::mem::replace(new, *new + 1));
            (palette.added(), None, number)
        }
        Some(b'-') => {
            let number = at.as_mut().map(|(old, _)| std::mem::replace(old, *old + 1));
            (palette.removed(), number, None)
        }
        Some(b' ') | None => {
            let numbers = at.as_mut().map(|(old, new)| (std::mem::replace(old, *old + 1), std::mem::replace(new, *new + 1)));
            (palette.text(), numbers.map(|numbers| numbers.0), numbers.map(|numbers| numbers.1))
        }
        Some(_) => (palette.dim(), None, None),
    }
}

/// The first lines of a hunk: `@@ -12,3 +12,5 @@`.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.split_whitespace().skip(1);
    let mut number = |sign: char| parts.next()?.strip_prefix(sign)?.split(',').next()?.parse::<u64>().ok();
    Some((number('-')?, number('+')?))
}

pub(super) fn draw(buffer: &mut Buffer, app: &App, shown: &Diff, run: &Run) {
    let palette = app.palette;
    let places::Run { head, body, status, foot, .. } = places::diff(app.size);
    let item = shown.item(run);
    if let Some(What::File { path, change, diff: Some(diff), added, removed, .. }) = item.map(|item| &item.what) {
        let left = vec![
            Span::styled(format!(" {change} "), palette.note()),
            Span::styled(readable::line(beneath(run.row.cwd.as_deref(), path)), palette.bold()),
        ];
        let right = vec![
            Span::styled(added.map(|added| format!("+{added} ")).unwrap_or_default(), palette.added()),
            Span::styled(removed.map(|removed| format!("-{removed} ")).unwrap_or_default(), palette.removed()),
            Span::styled(format!("{} of {} ", shown.at + 1, shown.items.len()), palette.dim()),
        ];
        put(buffer, head, 0, &ends(left, right, head.width.into()));
        let lines = diff_lines(diff, body.width.into(), true, palette);
        for (row, line) in (0..body.height).zip(lines.iter().skip(shown.top)) {
            put(buffer, body, row, line);
        }
    }
    bottom(buffer, app, status, foot, Vec::new());
}

#[cfg(test)]
mod tests {
    use sabir_core::fold::timeline::Clip;

    use super::{Palette, diff_lines, hunk};

    #[test]
    fn lines_have_their_numbers() {
        let diff = "--- a/x\n+++ b/x\n@@ -7,3 +7,3 @@ fn\n same\n-old\n+new\n---gone\n same\n\\ No newline\n";
        let lines = diff_lines(&Clip::of(diff, 1_000), 70, true, Palette::plain());
        let shown: Vec<String> = lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect();
        let expected = [
            "            @@ -7,3 +7,3 @@ fn",
            "    7     7  same",
            "    8       -old",
            "          8 +new",
            "    9       ---gone",
            "   10     9  same",
            "            \\ No newline",
        ];
        assert_eq!(shown, expected);
        assert_eq!((hunk("@@ -1 +2,3 @@"), hunk("@@ nonsense")), (Some((1, 2)), None));
    }
}
