//! Where runs come from.
//!
//! ```text
//!   Source::list  ──► Listing ──┐
//!                               ├──► messages of the program, each from a thread of its own
//!   Source::watch ──► Feed ─────┘
//! ```
//!
//! Both block and tell what they find as they find it, until they are told that nobody listens any more.

pub mod hub;
pub mod local;

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use sabir_core::fold::timeline::{Change, Clipping};
use sabir_core::fold::{CostSource, Phase};

/// How much of long texts is kept: more than elsewhere, since nothing of it goes over a wire.
pub const CLIPPING: Clipping = Clipping { speech: 64 << 10, output: 16 << 10 };

/// A run in a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Id of the agent.
    pub agent: String,
    /// The working folder.
    pub cwd: Option<String>,
    /// The first prompt.
    pub title: Option<String>,
    /// The main model.
    pub model: Option<String>,
    /// How it stands.
    pub phase: Phase,
    /// The tool that runs now.
    pub tool: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started: Option<i64>,
    /// When something last happened.
    pub last: Option<i64>,
    /// All tokens.
    pub tokens: Option<u64>,
    /// What they cost in dollars.
    pub cost: Option<f64>,
    /// Whether the agent says so or the price table does.
    pub cost_source: CostSource,
    /// The kinds of orders that can be given to it.
    pub takes: Vec<String>,
}

impl Row {
    /// A run of which only this much is known.
    pub fn new(id: impl Into<String>, agent: impl Into<String>, phase: Phase) -> Self {
        Self {
            id: id.into(),
            agent: agent.into(),
            cwd: None,
            title: None,
            model: None,
            phase,
            tool: None,
            started: None,
            last: None,
            tokens: None,
            cost: None,
            cost_source: CostSource::Unknown,
            takes: Vec::new(),
        }
    }

    /// Whether orders of this kind can be given to it.
    pub fn takes(&self, kind: &str) -> bool {
        self.takes.iter().any(|taken| taken == kind)
    }

    /// The last name of the working folder: the rest is mostly the same.
    pub fn project(&self) -> Option<&str> {
        let path = self.cwd.as_deref()?.trim_end_matches(['/', '\\']);
        path.rsplit(['/', '\\']).next().filter(|name| !name.is_empty())
    }

    /// How long it takes, or took.
    pub fn elapsed(&self, now: i64) -> Option<u64> {
        let end = if self.phase.is_over() { self.last? } else { now };
        u64::try_from(end.checked_sub(self.started?)?).ok()
    }
}

/// What is told of the list.
#[derive(Debug, Clone, PartialEq)]
pub enum Listing {
    /// All runs that there are, in any order.
    Rows(Vec<Row>),
    /// The list can't be had now. Who tells it tries again.
    Trouble(String),
}

/// What is told of one run.
#[derive(Debug, Clone, PartialEq)]
pub enum Feed {
    /// What follows begins with the first item again.
    Anew,
    /// The next changes.
    Changes(Vec<Change>),
    /// All that there was has been told; more may come.
    Live,
    /// No more will come.
    Over,
    /// It can't be read, or not now.
    Trouble(String),
}

/// What somebody wants of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// That it ends.
    Cancel,
    /// A further prompt.
    Prompt(String),
    /// The answer to a question of the agent.
    Answer {
        /// The question.
        request: String,
        /// Whether it may.
        allow: bool,
    },
}

impl Order {
    /// The word that a run which takes such orders has for them.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Prompt(_) => "prompt",
            Self::Answer { .. } => "permission",
        }
    }
}

/// Tells something; false says that nobody listens any more.
pub type Tell<'t, T> = &'t mut dyn FnMut(T) -> bool;

/// Something that knows runs.
pub trait Source: Send + Sync {
    /// What it is, in a few words.
    fn name(&self) -> String;

    /// Tells the list, and again whenever it is another one.
    fn list(&self, wake: &Wake, tell: Tell<'_, Listing>);

    /// Tells what a run is, and what becomes of it.
    fn watch(&self, id: &str, tell: Tell<'_, Feed>);

    /// Runs in which these words were said or printed, or why they can't be had; `None` where nothing but the list can be
    /// looked through.
    fn search(&self, _words: &str) -> Option<Result<Vec<Row>, String>> {
        None
    }

    /// Gives an order, and says what became of it.
    fn order(&self, _id: &str, _order: &Order) -> String {
        "no orders can be given here".to_owned()
    }
}

/// Lets somebody wait who can be woken.
#[derive(Debug, Default)]
pub struct Wake {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake {
    /// Wakes who waits, or who will.
    pub fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits, at most so long. True when somebody woke it.
    pub fn wait(&self, limit: Duration) -> bool {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(woken, limit, |woken| !*woken);
        let (mut woken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *woken)
    }
}
