//! What is typed, pasted, clicked and wheeled.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::{App, Effect, Typing, action};
use crate::keys::{Action, Scope};
use crate::source::Order;
use crate::view::places;

/// So many lines are one step of the wheel.
const WHEEL: isize = 3;
/// What is sought is no longer than this.
const LONGEST: usize = 200;
/// And no prompt is longer than this.
const LONGEST_PROMPT: usize = 8_000;

impl Typing {
    fn longest(&self) -> usize {
        if self.prompt { LONGEST_PROMPT } else { LONGEST }
    }
}

impl App {
    pub(super) fn key(&mut self, event: &KeyEvent) -> Vec<Effect> {
        self.note = None;
        let stops = event.code == KeyCode::Char('c') && event.modifiers.contains(KeyModifiers::CONTROL);
        if self.typing.is_some() && !stops {
            return self.type_key(event);
        }
        action(self.scope(), event).map(|action| self.act(action)).unwrap_or_default()
    }

    /// What is typed is looked for at once, if it is no prompt.
    fn type_key(&mut self, event: &KeyEvent) -> Vec<Effect> {
        let Some(typing) = &mut self.typing else { return Vec::new() };
        let longest = typing.longest();
        let command = event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match event.code {
            KeyCode::Esc => {
                typing.text = std::mem::take(&mut typing.before);
                self.seek();
                self.typing = None;
                return Vec::new();
            }
            KeyCode::Enter => return self.typed(),
            KeyCode::Backspace => {
                typing.text.pop();
            }
            KeyCode::Char('u') if command => typing.text.clear(),
            KeyCode::Char(character) if !command && typing.text.chars().count() < longest => typing.text.push(character),
            _ => return Vec::new(),
        }
        self.seek();
        Vec::new()
    }

    /// What is typed is all of it.
    fn typed(&mut self) -> Vec<Effect> {
        let Some(typing) = self.typing.take() else { return Vec::new() };
        let text = typing.text.trim();
        match &mut self.run {
            Some(_) if typing.prompt && text.is_empty() => Vec::new(),
            Some(_) if typing.prompt => self.give(Order::Prompt(text.to_owned())),
            Some(run) => {
                self.note = run.find_here();
                Vec::new()
            }
            None if text.is_empty() => Vec::new(),
            // The list has what is known in short; more was said than that.
            None => vec![Effect::Search(self.runs.words.clone())],
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        let Some(typing) = &mut self.typing else { return };
        let room = typing.longest().saturating_sub(typing.text.chars().count());
        typing.text.extend(sabir_core::readable::line(text).chars().take(room));
        self.seek();
    }

    fn seek(&mut self) {
        let Some(text) = self.typing.as_ref().filter(|typing| !typing.prompt).map(|typing| typing.text.clone()) else { return };
        match &mut self.run {
            Some(run) => run.sought = text,
            None => self.runs.seek(text),
        }
    }

    pub(super) fn mouse(&mut self, event: MouseEvent) -> Vec<Effect> {
        let wheel = match event.kind {
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::Down(MouseButton::Left) => return self.click(Position::new(event.column, event.row)),
            _ => return Vec::new(),
        };
        let step = if wheel > 0 { Action::LineDown } else { Action::LineUp };
        match (self.scope(), &mut self.run) {
            (Scope::Run, Some(run)) => run.scroll(wheel),
            (Scope::Runs, _) => self.runs.scroll(wheel, places::runs(self.size).body.height.into()),
            _ => {
                for _ in 0..WHEEL {
                    self.act(step);
                }
            }
        }
        Vec::new()
    }

    /// A click chooses; on what is chosen already it opens.
    fn click(&mut self, at: Position) -> Vec<Effect> {
        self.note = None;
        match self.scope() {
            Scope::Runs => {
                let body = places::runs(self.size).body;
                if !body.contains(at) {
                    return Vec::new();
                }
                let place = self.runs.top + usize::from(at.y - body.y);
                if self.runs.choose(place) { self.act(Action::Open) } else { Vec::new() }
            }
            Scope::Run => {
                let body = places::run(self.size).body;
                if let Some(run) = self.run.as_mut().filter(|_| body.contains(at)) {
                    run.click(usize::from(at.y - body.y), body.height.into());
                }
                Vec::new()
            }
            Scope::Filter => {
                let inside = places::filter(self.size, self.runs.choices().len());
                if !inside.contains(at) {
                    self.filter = None;
                } else if let Some(row) = (at.y - inside.y).checked_sub(1) {
                    let first = places::filter_top(inside, self.filter.unwrap_or(0));
                    let place = first + usize::from(row);
                    if place < self.runs.choices().len() {
                        self.filter = Some(place);
                        self.runs.switch(place);
                    }
                }
                Vec::new()
            }
            Scope::Help => {
                self.help = None;
                Vec::new()
            }
            Scope::Diff | Scope::Question => Vec::new(),
        }
    }
}
