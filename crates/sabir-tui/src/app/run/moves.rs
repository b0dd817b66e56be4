//! Moving through a run, and folding what is in it.

use sabir_core::fold::timeline::What;

use super::{Run, State, place};

impl Run {
    pub(crate) fn step(&mut self, by: isize) {
        let to = if by > 0 { self.next_shown(self.cursor) } else { self.before_shown(self.cursor) };
        match to {
            Some(to) => self.go(to),
            // There is nothing further to choose; the rest of a long text may still be read.
            None => self.scroll(by),
        }
    }

    /// Chooses an item and brings it onto the screen.
    pub(super) fn go(&mut self, to: usize) {
        self.follow = false;
        self.cursor = to;
        let top = self.top_for(to);
        if (to, 0) < self.top || self.height(to) >= self.size.1 {
            self.top = (to, 0);
        } else if top > self.top {
            self.top = top;
        }
    }

    pub(crate) fn scroll(&mut self, by: isize) {
        self.follow = false;
        for _ in 0..by.unsigned_abs() {
            let (item, line) = self.top;
            if by > 0 {
                if line + 1 < self.height(item) {
                    self.top.1 += 1;
                } else if let Some(next) = self.next_shown(item) {
                    self.top = (next, 0);
                }
            } else if line > 0 {
                self.top.1 -= 1;
            } else if let Some(before) = self.before_shown(item) {
                self.top = (before, self.height(before) - 1);
            }
        }
        self.top = self.top.min(self.last_top());
        let (first, last) = self.on_screen();
        self.cursor = self.cursor.clamp(first, last.max(first));
        if !self.shows(self.cursor) {
            self.cursor = first;
        }
    }

    /// The first and the last item on the screen.
    fn on_screen(&self) -> (usize, usize) {
        let mut room = self.size.1 + self.top.1;
        let mut at = self.top.0;
        loop {
            room = room.saturating_sub(self.height(at));
            match self.next_shown(at).filter(|_| room > 0) {
                Some(next) => at = next,
                None => return (self.top.0, at),
            }
        }
    }

    pub(crate) fn first(&mut self) {
        if let Some(first) = self.first_shown() {
            self.go(first);
        }
        self.follow = false;
    }

    pub(crate) fn last(&mut self) {
        if let Some(last) = self.last_shown() {
            self.go(last);
        }
        self.set_follow(true);
    }

    pub(crate) fn set_follow(&mut self, follow: bool) {
        self.follow = follow && self.state != State::Over;
    }

    pub(crate) fn click(&mut self, line: usize, height: usize) {
        let mut left = line.min(height) + self.top.1;
        let mut at = Some(self.top.0).filter(|top| self.shows(*top));
        while let Some(place) = at {
            let lines = self.height(place);
            if left < lines {
                self.follow = false;
                if self.cursor == place {
                    self.toggle();
                }
                self.cursor = place;
                return;
            }
            left -= lines;
            at = self.next_shown(place);
        }
    }

    pub(crate) fn toggle(&mut self) {
        let Some(id) = self.item(self.cursor).map(|item| item.id) else { return };
        if !self.toggled.remove(&id) {
            self.toggled.insert(id);
        }
        self.follow = false;
        self.forget(id);
        // What was folded is not left behind above the screen.
        if self.top.0 == self.cursor {
            self.top.1 = 0;
        }
    }

    pub(super) fn unfold(&mut self, place: usize) {
        let Some(item) = self.item(place) else { return };
        let (id, folds) = (
            item.id,
            matches!(item.what, What::Tool { .. } | What::Thinking { .. } | What::File { .. } | What::Unrecognized { .. }),
        );
        if folds && !self.is_open(id) {
            if !self.toggled.remove(&id) {
                self.toggled.insert(id);
            }
            self.forget(id);
        }
    }

    pub(crate) fn toggle_all(&mut self) {
        self.all_open = !self.all_open;
        self.toggled.clear();
        self.blocks.borrow_mut().clear();
        self.top = (self.cursor, 0);
    }

    pub(crate) fn toggle_sub_agent(&mut self) -> Option<&'static str> {
        let item = self.item(self.cursor)?;
        let call = if self.inside.contains_key(&item.id) { Some(item.id) } else { item.parent };
        let Some(call) = call else { return Some("no sub-agent is here") };
        if !self.closed.remove(&call) {
            self.closed.insert(call);
        }
        self.forget(call);
        self.go(place(call));
        None
    }

    pub(crate) fn next_only(&mut self) {
        self.only = self.only.next();
        self.follow = false;
    }
}
