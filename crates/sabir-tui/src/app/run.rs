//! One run: its timeline, what is folded, and the part of it that is on the screen.
//!
//! ```text
//!   items     0  1  2  3  4  5  6  …            the timeline; some are hidden
//!   blocks       └──┬──┘                        lines of an item at this width, made when they are looked at
//!   screen    top (item, line) ─► height lines  so a run of any length costs what is on the screen
//! ```

mod find;
mod moves;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ratatui::text::Line;
use sabir_core::fold::timeline::{Change, Item, Timeline, What};

pub(super) use find::text_of;

use super::Facts;
use crate::source::{CLIPPING, Feed, Row};
use crate::view::{Look, Palette, block};

/// So many blocks are kept.
const KEPT: usize = 4_096;
/// Sub-agents of sub-agents are indented no further than this.
const DEEPEST: usize = 6;

/// Which items are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Only {
    #[default]
    Everything,
    Talk,
    Tools,
    Files,
    Errors,
}

impl Only {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Talk => "talk",
            Self::Tools => "tools",
            Self::Files => "files",
            Self::Errors => "errors",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Everything => Self::Talk,
            Self::Talk => Self::Tools,
            Self::Tools => Self::Files,
            Self::Files => Self::Errors,
            Self::Errors => Self::Everything,
        }
    }

    fn has(self, what: &What) -> bool {
        match self {
            Self::Everything => true,
            Self::Talk => matches!(what, What::Prompt { .. } | What::Text { .. } | What::Run { .. } | What::End { .. }),
            Self::Tools => matches!(what, What::Tool { .. } | What::Permission { .. }),
            Self::Files => matches!(what, What::File { .. } | What::Edits { .. }),
            Self::Errors => what.is_trouble() || matches!(what, What::Retry { .. }),
        }
    }
}

/// How far the reading is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// What there is is being read.
    Reading,
    /// All that there was is here; more may come.
    Live,
    /// All of it is here.
    Over,
    /// It can't be read, or not now.
    Trouble(String),
}

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) ticket: u64,
    pub(crate) row: Row,
    pub(crate) timeline: Timeline,
    pub(crate) facts: Facts,
    pub(crate) state: State,
    /// The next changes begin with the first item.
    anew: bool,
    /// The chosen item.
    pub(crate) cursor: usize,
    /// The item at the top of the screen, and how many of its lines are above.
    pub(crate) top: (usize, usize),
    pub(crate) follow: bool,
    pub(crate) only: Only,
    pub(crate) sought: String,
    /// Items that are not as folded as they are at first.
    toggled: HashSet<u64>,
    /// Whether everything is unfolded at first.
    all_open: bool,
    /// Calls whose sub-agents are hidden.
    closed: HashSet<u64>,
    /// How many items are beneath a call.
    inside: HashMap<u64, usize>,
    size: (usize, usize),
    palette: Palette,
    blocks: RefCell<HashMap<usize, Rc<Vec<Line<'static>>>>>,
}

impl Run {
    pub(super) fn new(ticket: u64, row: Row) -> Self {
        let follow = !row.phase.is_over();
        Self {
            ticket,
            row,
            timeline: Timeline::default(),
            facts: Facts::default(),
            state: State::Reading,
            anew: false,
            cursor: 0,
            top: (0, 0),
            follow,
            only: Only::Everything,
            sought: String::new(),
            toggled: HashSet::new(),
            all_open: false,
            closed: HashSet::new(),
            inside: HashMap::new(),
            size: (80, 20),
            palette: Palette::default(),
            blocks: RefCell::default(),
        }
    }

    pub(super) fn feed(&mut self, feed: Feed) {
        match feed {
            Feed::Anew => self.anew = true,
            Feed::Changes(changes) if changes.is_empty() => {}
            Feed::Changes(changes) => {
                if std::mem::take(&mut self.anew) {
                    self.timeline.items.clear();
                    self.inside.clear();
                    self.blocks.borrow_mut().clear();
                }
                if matches!(self.state, State::Trouble(_)) {
                    self.state = State::Live;
                }
                changes.into_iter().for_each(|change| self.apply(change));
                self.facts = Facts::of(&self.timeline.items);
            }
            Feed::Live => self.state = State::Live,
            Feed::Over => {
                self.state = State::Over;
                // What was followed is at its end.
                self.follow = false;
            }
            Feed::Trouble(why) => self.state = State::Trouble(why),
        }
    }

    fn apply(&mut self, change: Change) {
        let id = match &change {
            Change::Put(item) => {
                if let Some(parent) = item.parent.filter(|_| place(item.id) >= self.timeline.items.len()) {
                    *self.inside.entry(parent).or_default() += 1;
                    self.forget(parent);
                }
                item.id
            }
            Change::Grow(growth) => growth.id,
        };
        self.forget(id);
        self.timeline.apply(change, CLIPPING);
    }

    fn forget(&self, id: u64) {
        self.blocks.borrow_mut().remove(&place(id));
    }

    pub(super) fn settle(&mut self, width: usize, height: usize, palette: Palette) {
        if (self.size.0, self.palette) != (width, palette) || self.blocks.borrow().len() > KEPT {
            self.blocks.borrow_mut().clear();
        }
        (self.size, self.palette) = ((width, height.max(1)), palette);
        let last = self.last_shown();
        if self.follow
            && let Some(last) = last
        {
            self.cursor = last;
            self.top = self.last_top();
            return;
        }
        if !self.shows(self.cursor) {
            let near = self.next_shown(self.cursor).or_else(|| self.before_shown(self.cursor));
            self.cursor = near.unwrap_or(0);
        }
        if !self.shows(self.top.0) {
            self.top = (self.next_shown(self.top.0).or(last).unwrap_or(0), 0);
        }
        let lines = self.height(self.top.0);
        self.top.1 = self.top.1.min(lines.saturating_sub(1));
        self.top = self.top.min(self.last_top());
    }

    fn item(&self, place: usize) -> Option<&Item> {
        self.timeline.items.get(place)
    }

    pub(crate) fn shows(&self, place: usize) -> bool {
        let Some(item) = self.item(place) else { return false };
        if !self.only.has(&item.what) {
            return false;
        }
        self.closed.is_empty() || self.parents(item).all(|parent| !self.closed.contains(&parent))
    }

    fn parents<'r>(&'r self, item: &'r Item) -> impl Iterator<Item = u64> + 'r {
        // A parent is always an earlier item, so this ends.
        std::iter::successors(item.parent, |parent| {
            let next = self.item(usize::try_from(*parent).ok()?)?.parent?;
            (next < *parent).then_some(next)
        })
    }

    pub(crate) fn next_shown(&self, from: usize) -> Option<usize> {
        (from + 1..self.timeline.items.len()).find(|place| self.shows(*place))
    }

    fn before_shown(&self, from: usize) -> Option<usize> {
        (0..from.min(self.timeline.items.len())).rev().find(|place| self.shows(*place))
    }

    fn last_shown(&self) -> Option<usize> {
        self.before_shown(self.timeline.items.len())
    }

    pub(crate) fn first_shown(&self) -> Option<usize> {
        (0..self.timeline.items.len()).find(|place| self.shows(*place))
    }

    /// Whether an item is unfolded.
    pub(crate) fn is_open(&self, id: u64) -> bool {
        self.all_open != self.toggled.contains(&id)
    }

    /// The lines of an item.
    pub(crate) fn block(&self, place: usize) -> Rc<Vec<Line<'static>>> {
        if let Some(known) = self.blocks.borrow().get(&place) {
            return Rc::clone(known);
        }
        let Some(item) = self.item(place) else { return Rc::default() };
        let look = Look {
            folder: self.row.cwd.as_deref(),
            width: self.size.0,
            palette: self.palette,
            open: self.is_open(item.id),
            depth: self.parents(item).count().min(DEEPEST),
            inside: self.inside.get(&item.id).copied().unwrap_or(0),
            closed: self.closed.contains(&item.id),
            began: self.facts.first,
        };
        let lines = Rc::new(block(item, &look));
        self.blocks.borrow_mut().insert(place, Rc::clone(&lines));
        lines
    }

    fn height(&self, place: usize) -> usize {
        self.block(place).len().max(1)
    }

    /// The top of the screen when the last line is at its bottom.
    fn last_top(&self) -> (usize, usize) {
        let Some(last) = self.last_shown() else { return (0, 0) };
        self.top_for(last)
    }

    /// The top of the screen when the last line of an item is at its bottom.
    fn top_for(&self, item: usize) -> (usize, usize) {
        let mut room = self.size.1;
        let mut at = item;
        loop {
            let height = self.height(at);
            if height >= room {
                return (at, height - room);
            }
            room -= height;
            match self.before_shown(at) {
                Some(before) => at = before,
                None => return (at, 0),
            }
        }
    }
}

/// Where the item of an id is.
fn place(id: u64) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}
