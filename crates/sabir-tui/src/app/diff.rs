//! The diffs of a run, file by file.

use sabir_core::fold::timeline::{Item, What};

use super::Run;
use crate::view::{Palette, diff_lines};

/// Which diff is shown, and from which line on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Diff {
    /// The items that have a diff.
    pub(crate) items: Vec<u64>,
    pub(crate) at: usize,
    pub(crate) top: usize,
}

impl Diff {
    /// From the chosen item on: its own diff, that of the file that it changed, or the next one.
    pub(super) fn from(run: &Run) -> Option<Self> {
        let cursor = run.cursor as u64;
        let mut items = Vec::new();
        let mut own = None;
        for item in &run.timeline.items {
            if let What::File { diff: Some(_), tool, .. } = &item.what {
                if *tool == Some(cursor) {
                    own.get_or_insert(items.len());
                }
                items.push(item.id);
            }
        }
        let last = items.len().checked_sub(1)?;
        let at = own.unwrap_or_else(|| items.iter().position(|id| *id >= cursor).unwrap_or(last));
        Some(Self { items, at, top: 0 })
    }

    pub(super) fn turn(&mut self, by: isize) {
        let to = self.at.saturating_add_signed(by).min(self.items.len().saturating_sub(1));
        if to != self.at {
            (self.at, self.top) = (to, 0);
        }
    }

    pub(crate) fn item<'r>(&self, run: &'r Run) -> Option<&'r Item> {
        run.timeline.items.get(usize::try_from(*self.items.get(self.at)?).ok()?)
    }

    pub(super) fn text(&self, run: &Run) -> Option<String> {
        super::run::text_of(self.item(run)?)
    }

    pub(super) fn settle(&mut self, run: &Run, width: usize, height: usize, palette: Palette) {
        let lines = match self.item(run).map(|item| &item.what) {
            Some(What::File { diff: Some(diff), .. }) => diff_lines(diff, width, true, palette).len(),
            _ => 0,
        };
        self.top = self.top.min(lines.saturating_sub(height));
    }
}
