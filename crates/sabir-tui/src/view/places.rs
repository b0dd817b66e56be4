//! Where things are on a screen of any size.

use ratatui::layout::Rect;

/// From this width on a run has a panel beside it.
const WIDE: u16 = 110;
/// Columns of that panel.
const SIDE: u16 = 36;
/// Columns of a run that are no text: the mark of the chosen item, and where one is in the run.
pub(crate) const MARKS: u16 = 3;

/// The parts of the list.
pub(crate) struct Runs {
    pub(crate) head: Rect,
    pub(crate) body: Rect,
    pub(crate) detail: Rect,
    pub(crate) status: Rect,
    pub(crate) foot: Rect,
}

/// The parts of a run.
pub(crate) struct Run {
    pub(crate) head: Rect,
    /// Where the texts are.
    pub(crate) body: Rect,
    pub(crate) side: Option<Rect>,
    pub(crate) status: Rect,
    pub(crate) foot: Rect,
}

/// Rows from the top, and what is left.
fn split(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    (Rect { height: rows, ..area }, Rect { y: area.y + rows, height: area.height - rows, ..area })
}

/// Rows from the bottom, and what is left.
fn split_off(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    (Rect { y: area.y + area.height - rows, height: rows, ..area }, Rect { height: area.height - rows, ..area })
}

pub(crate) fn runs(size: (u16, u16)) -> Runs {
    let area = Rect::new(0, 0, size.0, size.1);
    let (foot, rest) = split_off(area, 1);
    let (status, rest) = split_off(rest, u16::from(size.1 > 4));
    let (detail, rest) = split_off(rest, if size.1 >= 12 { 2 } else { 0 });
    let (head, body) = split(rest, if size.1 >= 8 { 2 } else { 1 });
    Runs { head, body, detail, status, foot }
}

pub(crate) fn run(size: (u16, u16)) -> Run {
    let area = Rect::new(0, 0, size.0, size.1);
    let (foot, rest) = split_off(area, 1);
    let (status, rest) = split_off(rest, u16::from(size.1 > 4));
    let (head, rest) = split(rest, if size.1 >= 10 { 2 } else { 1 });
    let side = (size.0 >= WIDE).then(|| Rect { x: rest.x + rest.width - SIDE, width: SIDE, ..rest });
    let left = rest.width - side.map_or(0, |side| side.width + 1);
    let body = Rect { x: rest.x + 2, width: left.saturating_sub(MARKS), ..rest };
    Run { head, body, side, status, foot }
}

pub(crate) fn diff(size: (u16, u16)) -> Run {
    let area = Rect::new(0, 0, size.0, size.1);
    let (foot, rest) = split_off(area, 1);
    let (status, rest) = split_off(rest, u16::from(size.1 > 4));
    let (head, body) = split(rest, 1);
    Run { head, body, side: None, status, foot }
}

/// A window in the middle.
fn window(size: (u16, u16), width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(size.0), height.min(size.1));
    Rect::new((size.0 - width) / 2, (size.1 - height) / 2, width, height)
}

pub(crate) fn help(size: (u16, u16)) -> Rect {
    window(size, 74, size.1.saturating_sub(2).max(3))
}

pub(crate) fn filter(size: (u16, u16), choices: usize) -> Rect {
    let height = u16::try_from(choices).unwrap_or(u16::MAX).saturating_add(3);
    window(size, 40, height.min(size.1.saturating_sub(2).max(4)))
}

/// The first choice that is on the screen.
pub(crate) fn filter_top(inside: Rect, at: usize) -> usize {
    let rows = usize::from(inside.height.saturating_sub(3)).max(1);
    (at + 1).saturating_sub(rows)
}
