//! A session as people look at it: messages, tool calls, changed files, turn by turn.
//!
//! ```text
//!   event ──► TimelineFold ──► changes ──► Timeline (items)      here, in the terminal program, in the page
//! ```
//!
//! The fold keeps only what may still change (the text that grows, open calls), so it can run over a session of any length;
//! who shows the session keeps the items and applies the changes. Long texts are clipped: the event that has all of a
//! text is named by its number.

mod fold;
mod item;
mod merge;
mod speech;
mod turns;

use serde::{Deserialize, Serialize};

pub use fold::TimelineFold;
pub use item::{Choice, Clip, Edit, Item, Step, What};
pub use merge::merged;

use crate::time::Timestamp;

/// What happens to a timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
// What happened to a file is a `Change` too, and both are in one schema.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TimelineChange"))]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The next item, or what an item is now.
    Put(Box<Item>),
    /// More of the text of an item, or of the output of a tool call.
    Grow(Growth),
}

/// More of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// The item.
    pub id: u64,
    /// The number of the event.
    pub last: u64,
    /// The `seq` of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The next piece.
    pub text: String,
}

/// How much of a text is kept in an item: so many bytes of its beginning, and as many of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clipping {
    /// Of what the agent and the user say.
    pub speech: usize,
    /// Of what tools are given and give back, and of diffs.
    pub output: usize,
}

impl Default for Clipping {
    fn default() -> Self {
        Self { speech: 64 << 10, output: 2 << 10 }
    }
}

/// All items of a session, as the changes make them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// The items; the id of each is its place.
    pub items: Vec<Item>,
}

impl Timeline {
    /// Applies a change. One that names an item which is not there changes nothing.
    pub fn apply(&mut self, change: Change, clipping: Clipping) {
        match change {
            Change::Put(item) => match usize::try_from(item.id) {
                Ok(place) if place < self.items.len() => self.items[place] = *item,
                Ok(place) if place == self.items.len() => self.items.push(*item),
                _ => {}
            },
            Change::Grow(growth) => {
                let item = usize::try_from(growth.id).ok().and_then(|place| self.items.get_mut(place));
                if let Some(item) = item {
                    item.grow(&growth, clipping);
                }
            }
        }
    }
}

impl Item {
    fn grow(&mut self, growth: &Growth, clipping: Clipping) {
        self.last = growth.last;
        self.last_seq = growth.seq.or(self.last_seq);
        self.until = growth.until.or(self.until);
        match &mut self.what {
            What::Text { text, .. } | What::Thinking { text } => text.push(&growth.text, clipping.speech),
            What::Tool { output, .. } => output.get_or_insert_default().push(&growth.text, clipping.output),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
