//! What the user wants of a run that goes on: its end, a prompt, an answer.

use sabir_core::fold::timeline::What;

use super::{App, Effect, Run, Typing};
use crate::keys::Action;
use crate::source::Order;

/// What the user is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whether the run is to end.
    Cancel,
    /// What the agent asks: whether it may.
    May {
        /// The question of the agent.
        request: String,
        /// What it wants.
        title: String,
    },
}

impl Question {
    /// The question that the agent of a run waits with.
    pub(crate) fn of(run: &Run) -> Option<Self> {
        run.timeline.items.iter().rev().find_map(|item| match &item.what {
            What::Permission { request, title, decision: None, .. } => {
                Some(Self::May { request: request.clone(), title: title.clone() })
            }
            _ => None,
        })
    }

    /// Whether an answer still matters.
    pub(super) fn is_open(&self, run: Option<&Run>) -> bool {
        let Some(run) = run.filter(|run| !run.row.phase.is_over()) else { return false };
        match self {
            Self::Cancel => true,
            Self::May { request, .. } => run
                .timeline
                .items
                .iter()
                .any(|item| matches!(&item.what, What::Permission { request: asked, decision: None, .. } if asked == request)),
        }
    }
}

impl App {
    /// Begins an order, if the run takes it.
    pub(super) fn begin_order(&mut self, action: Action) {
        let Some(run) = &self.run else { return };
        let (kind, word) = match action {
            Action::Cancel => ("cancel", "can't be cancelled from here"),
            Action::Prompt => ("prompt", "takes no prompts from here"),
            _ => ("permission", "takes no answers from here"),
        };
        let over = run.row.phase.is_over();
        if !run.row.takes(kind) || (over && kind != "prompt") {
            self.note = Some(if over { "this run is over".to_owned() } else { format!("this run {word}") });
            return;
        }
        match action {
            Action::Cancel => self.question = Some(Question::Cancel),
            Action::Prompt => self.typing = Some(Typing { prompt: true, ..Typing::default() }),
            _ => {
                self.question = Question::of(run);
                if self.question.is_none() {
                    self.note = Some("the agent asks nothing".to_owned());
                }
            }
        }
    }

    /// What the user says to the question.
    pub(super) fn act_question(&mut self, action: Action) -> Vec<Effect> {
        let allow = match action {
            Action::Yes => true,
            Action::No => false,
            _ => return Vec::new(),
        };
        match self.question.take() {
            Some(Question::Cancel) if allow => self.give(Order::Cancel),
            Some(Question::May { request, .. }) => self.give(Order::Answer { request, allow }),
            Some(Question::Cancel) | None => Vec::new(),
        }
    }

    /// Gives an order to the run that is open.
    pub(super) fn give(&mut self, order: Order) -> Vec<Effect> {
        let Some(run) = &self.run else { return Vec::new() };
        self.note = Some(format!("{}: sending …", order.kind()));
        vec![Effect::Order { id: run.row.id.clone(), order }]
    }
}
