//! The program without a terminal: a message in, a state and effects out.

mod diff;
mod facts;
mod input;
mod orders;
mod run;
mod runs;

pub(crate) use diff::Diff;
pub(crate) use facts::Facts;
pub(crate) use orders::Question;
pub(crate) use run::{Run, State};
pub(crate) use runs::{Runs, word};

use ratatui::crossterm::event::{KeyEvent, KeyEventKind, MouseEvent};

use crate::keys::{self, Action, Scope};
use crate::source::{Feed, Listing, Order, Row};
use crate::view::{Palette, places};

/// What happens to the program.
#[derive(Debug, Clone)]
pub enum Message {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// A text was pasted.
    Paste(String),
    /// The terminal has another size: columns and rows.
    Resize(u16, u16),
    /// It is so many milliseconds after 1970.
    Time(i64),
    /// The list.
    Listing(Listing),
    /// More of the run that was opened with this ticket.
    Feed(u64, Feed),
    /// What a search for these words has found, or why it has not.
    Found(String, Result<Vec<Row>, String>),
    /// What became of an order.
    Ordered(String),
    /// Somebody asks the program to end.
    Stop,
}

/// What the program wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell what the run of this id is, with this ticket; what was watched before is not any more.
    Watch {
        /// What the feeds are marked with.
        ticket: u64,
        /// The run.
        id: String,
    },
    /// Watch no run any more.
    Unwatch,
    /// Read the list again.
    Reload,
    /// Look for runs in which these words were said, where that can be done.
    Search(String),
    /// Give an order.
    Order {
        /// The run.
        id: String,
        /// What is wanted of it.
        order: Order,
    },
    /// Put this into the clipboard.
    Copy(String),
    /// End.
    Quit,
}

/// A line that is being typed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Typing {
    pub(crate) text: String,
    /// It is a prompt, and not what is sought.
    pub(crate) prompt: bool,
    /// What was there before.
    before: String,
}

/// All that the program knows.
#[derive(Debug)]
pub struct App {
    /// Where runs come from.
    pub(crate) source: String,
    pub(crate) palette: Palette,
    pub(crate) size: (u16, u16),
    pub(crate) now: i64,
    pub(crate) runs: Runs,
    pub(crate) run: Option<Run>,
    pub(crate) diff: Option<Diff>,
    /// The chosen row of the filter, while it is open.
    pub(crate) filter: Option<usize>,
    /// How far the help is scrolled, while it is open.
    pub(crate) help: Option<usize>,
    pub(crate) typing: Option<Typing>,
    /// What the user is asked.
    pub(crate) question: Option<Question>,
    /// What just happened, until the next key.
    pub(crate) note: Option<String>,
    ticket: u64,
    /// The run to open when it is in the list.
    wanted: Option<String>,
}

impl App {
    /// A program that shows what this source has; `wanted` is the beginning of the id of a run to open.
    pub fn new(source: impl Into<String>, palette: Palette, size: (u16, u16), wanted: Option<String>) -> Self {
        Self {
            source: source.into(),
            palette,
            size,
            now: 0,
            runs: Runs::default(),
            run: None,
            diff: None,
            filter: None,
            help: None,
            typing: None,
            question: None,
            note: None,
            ticket: 0,
            wanted,
        }
    }

    /// What the user looks at.
    pub fn scope(&self) -> Scope {
        match self {
            Self { help: Some(_), .. } => Scope::Help,
            Self { filter: Some(_), .. } => Scope::Filter,
            Self { diff: Some(_), .. } => Scope::Diff,
            Self { question: Some(_), .. } => Scope::Question,
            Self { run: Some(_), .. } => Scope::Run,
            _ => Scope::Runs,
        }
    }

    /// Takes in what happened, and says what is to be done.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let effects = match message {
            Message::Key(event) if event.kind == KeyEventKind::Release => Vec::new(),
            Message::Key(event) => self.key(&event),
            Message::Mouse(event) => self.mouse(event),
            Message::Paste(text) => {
                self.paste(&text);
                Vec::new()
            }
            Message::Resize(columns, rows) => {
                self.size = (columns, rows);
                Vec::new()
            }
            Message::Time(now) => {
                self.now = now;
                Vec::new()
            }
            Message::Listing(listing) => self.listing(listing),
            Message::Feed(ticket, feed) => {
                if let Some(run) = self.run.as_mut().filter(|run| run.ticket == ticket) {
                    run.feed(feed);
                }
                Vec::new()
            }
            Message::Found(words, found) => {
                match found {
                    Ok(rows) => self.runs.find(&words, rows),
                    Err(why) => self.note = Some(why),
                }
                Vec::new()
            }
            Message::Ordered(became) => {
                self.note = Some(became);
                Vec::new()
            }
            Message::Stop => vec![Effect::Quit],
        };
        self.settle();
        effects
    }

    /// Keeps what is chosen on the screen, whatever changed.
    fn settle(&mut self) {
        let size = self.size;
        self.runs.settle(places::runs(size).body.height.into());
        if let Some(run) = &mut self.run {
            let body = places::run(size).body;
            run.settle(body.width.into(), body.height.into(), self.palette);
        }
        if self.question.as_ref().is_some_and(|question| !question.is_open(self.run.as_ref())) {
            self.question = None;
        }
        if let (Some(diff), Some(run)) = (&mut self.diff, &self.run) {
            let body = places::diff(size).body;
            diff.settle(run, body.width.into(), body.height.into(), self.palette);
        }
        if let Some(at) = &mut self.filter {
            *at = (*at).min(self.runs.choices().len().saturating_sub(1));
        }
        if let Some(at) = &mut self.help {
            let rows = usize::from(places::help(size).height.saturating_sub(2));
            *at = (*at).min(crate::view::help_lines(self.palette).len().saturating_sub(rows));
        }
    }

    fn listing(&mut self, listing: Listing) -> Vec<Effect> {
        match listing {
            Listing::Rows(rows) => self.runs.take(rows),
            Listing::Trouble(why) => self.runs.trouble = Some(why),
        }
        if let Some(run) = &mut self.run
            && let Some(row) = self.runs.rows.iter().find(|row| row.id == run.row.id)
        {
            run.row.clone_from(row);
        }
        let Some(wanted) = self.wanted.take_if(|_| self.runs.trouble.is_none()) else { return Vec::new() };
        match self.runs.rows.iter().find(|row| row.id.starts_with(&wanted)).map(|row| row.id.clone()) {
            Some(id) => self.open(&id),
            None => {
                self.note = Some(format!("there is no run whose id starts with {wanted}"));
                Vec::new()
            }
        }
    }

    /// Opens a run.
    fn open(&mut self, id: &str) -> Vec<Effect> {
        let Some(row) = self.runs.rows.iter().find(|row| row.id == id) else { return Vec::new() };
        self.ticket += 1;
        self.run = Some(Run::new(self.ticket, row.clone()));
        self.runs.selected = Some(id.to_owned());
        vec![Effect::Watch { ticket: self.ticket, id: id.to_owned() }]
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Help => {
                self.help = if self.help.is_some() { None } else { Some(crate::view::help_line_of(self.scope())) };
                return Vec::new();
            }
            Action::Back => return self.back(),
            _ => {}
        }
        match self.scope() {
            Scope::Help => {
                let page = usize::from(places::help(self.size).height.saturating_sub(3)).max(1);
                if let Some(at) = &mut self.help {
                    *at = moved(*at, action, page, usize::MAX);
                }
                Vec::new()
            }
            Scope::Filter => {
                self.act_filter(action);
                Vec::new()
            }
            Scope::Diff => self.act_diff(action),
            Scope::Run => self.act_run(action),
            Scope::Question => self.act_question(action),
            Scope::Runs => self.act_runs(action),
        }
    }

    fn back(&mut self) -> Vec<Effect> {
        match self.scope() {
            Scope::Help => self.help = None,
            Scope::Filter => self.filter = None,
            Scope::Diff => self.diff = None,
            Scope::Question => self.question = None,
            Scope::Run => {
                self.run = None;
                return vec![Effect::Unwatch];
            }
            Scope::Runs if self.runs.narrowed() => self.runs.clear(),
            Scope::Runs => return vec![Effect::Quit],
        }
        Vec::new()
    }

    fn act_filter(&mut self, action: Action) {
        let Some(at) = self.filter else { return };
        match action {
            Action::Open => self.runs.switch(at),
            Action::Clear => self.runs.clear(),
            action => self.filter = Some(moved(at, action, 8, self.runs.choices().len().saturating_sub(1))),
        }
    }

    fn act_runs(&mut self, action: Action) -> Vec<Effect> {
        let page = usize::from(places::runs(self.size).body.height).max(1);
        match action {
            Action::Open => {
                let chosen = self.runs.chosen().map(|row| row.id.clone());
                return chosen.map(|id| self.open(&id)).unwrap_or_default();
            }
            Action::Search => self.typing = Some(Typing { before: self.runs.words.clone(), ..Typing::default() }),
            Action::Filter => self.filter = Some(0),
            Action::Clear => self.runs.clear(),
            Action::Reload => {
                self.note = Some("reading the list again".to_owned());
                return vec![Effect::Reload];
            }
            Action::Copy => {
                let id = self.runs.chosen().map(|row| row.id.clone());
                return id.map(|id| self.copy(id)).unwrap_or_default();
            }
            action => self.runs.step(|at, last| moved(at, action, page, last)),
        }
        Vec::new()
    }

    fn act_run(&mut self, action: Action) -> Vec<Effect> {
        let page = isize::try_from(places::run(self.size).body.height).unwrap_or(1).max(2) - 1;
        let Some(run) = &mut self.run else { return Vec::new() };
        match action {
            Action::Down => run.step(1),
            Action::Up => run.step(-1),
            Action::LineDown => run.scroll(1),
            Action::LineUp => run.scroll(-1),
            Action::PageDown => run.scroll(page),
            Action::PageUp => run.scroll(-page),
            Action::First => run.first(),
            Action::Last => run.last(),
            Action::Open => run.toggle(),
            Action::FoldAll => run.toggle_all(),
            Action::SubAgent => self.note = run.toggle_sub_agent().map(str::to_owned),
            Action::Follow => run.set_follow(!run.follow),
            Action::Search => self.typing = Some(Typing { before: run.sought.clone(), ..Typing::default() }),
            Action::NextFound | Action::PreviousFound => {
                self.note = Some(run.find(action == Action::NextFound));
            }
            Action::NextError | Action::PreviousError => {
                self.note = run.error(action == Action::NextError).map(str::to_owned);
            }
            Action::Filter => {
                run.next_only();
                self.note = Some(format!("showing {}", run.only.word()));
            }
            Action::Diff => match Diff::from(run) {
                Some(diff) => self.diff = Some(diff),
                None => self.note = Some("this run has changed no file that a diff is known of".to_owned()),
            },
            Action::Copy => {
                let text = run.copied();
                return text.map(|text| self.copy(text)).unwrap_or_default();
            }
            Action::Cancel | Action::Prompt | Action::Answer => self.begin_order(action),
            Action::Back | Action::Help | Action::Quit | Action::Clear | Action::Reload | Action::Yes | Action::No => {}
        }
        Vec::new()
    }

    fn act_diff(&mut self, action: Action) -> Vec<Effect> {
        let page = usize::from(places::diff(self.size).body.height).max(2) - 1;
        let (Some(diff), Some(run)) = (&mut self.diff, &self.run) else { return Vec::new() };
        match action {
            Action::NextFound => diff.turn(1),
            Action::PreviousFound => diff.turn(-1),
            Action::Copy => {
                let text = diff.text(run);
                return text.map(|text| self.copy(text)).unwrap_or_default();
            }
            action => diff.top = moved(diff.top, action, page, usize::MAX / 2),
        }
        Vec::new()
    }

    fn copy(&mut self, text: String) -> Vec<Effect> {
        self.note = Some(format!("copied {} bytes", sabir_core::readable::grouped(text.len() as u64)));
        vec![Effect::Copy(text)]
    }
}

/// Where a list of rows is after a key, which ends at `last`.
fn moved(at: usize, action: Action, page: usize, last: usize) -> usize {
    let to = match action {
        Action::Down | Action::LineDown => at.saturating_add(1),
        Action::Up | Action::LineUp => at.saturating_sub(1),
        Action::PageDown => at.saturating_add(page),
        Action::PageUp => at.saturating_sub(page),
        Action::First => 0,
        Action::Last => last,
        _ => at,
    };
    to.min(last)
}

/// What a key does where the user is.
fn action(scope: Scope, event: &KeyEvent) -> Option<Action> {
    keys::action(scope, event)
}
