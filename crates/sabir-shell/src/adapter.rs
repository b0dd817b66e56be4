//! What a shell runs: hooks that it calls, and what they may do.
//!
//! Every agent of the table is an [`Adapter`] through [`AgentAdapter`]. One of your own is one file: see
//! `examples/custom_adapter.rs`.

mod agent;

use std::future::Future;
use std::pin::Pin;

use sabir_core::event::{Cause, Event, EventKind, Exited, Outcome, RunId, Started};
use sabir_protocol::SessionId;

use crate::log::Log;
use crate::outbox::Found;
use crate::{Failure, now};

pub use agent::{AgentAdapter, Ask, Planned, Planner};

/// Something for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// A prompt.
    Prompt {
        /// What the agent is to do.
        text: &'a str,
        /// It belongs to no earlier conversation.
        new: bool,
    },
    /// The answer to a question.
    Permission {
        /// Which question.
        request_id: &'a str,
        /// It may.
        allow: bool,
    },
}

/// Why an input is not taken, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

/// How a piece of work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// What became of it.
    pub outcome: Outcome,
    /// Why, when it ended badly.
    pub cause: Option<Cause>,
    /// It was killed because a cancel was repeated.
    pub killed: bool,
}

/// What an agent does about a prompt. It begins when it is polled.
pub type Work = Pin<Box<dyn Future<Output = Done>>>;

/// What hooks are given.
#[derive(Debug, Clone)]
pub struct Context {
    /// The session.
    pub session: SessionId,
    /// Where to tell what happens.
    pub log: Log,
    /// What an earlier shell left.
    pub found: Found,
    /// A piece of work is going on.
    pub busy: bool,
}

/// The hooks. They are called one at a time and should come back at once; what takes time is [`Work`].
pub trait Adapter {
    /// The name that people know it by.
    fn name(&self) -> &str;

    /// The orders that it may take.
    fn takes(&self) -> &'static [&'static str] {
        &["prompt", "cancel"]
    }

    /// The shell has begun.
    fn on_init(&mut self, _: &Context) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether it would take an input now. It does nothing yet: an order is on the disk before it is acted on.
    fn accepts(&self, context: &Context, input: Input<'_>) -> Result<(), Refused>;

    /// Takes an input that it accepts, and gives the work that follows from it.
    fn on_input(&mut self, context: &Context, input: Input<'_>) -> Result<Option<Work>, Refused>;

    /// About a second has gone by.
    fn on_tick(&mut self, _: &Context) {}

    /// What is going on shall end; the second time, at once.
    fn on_cancel(&mut self, context: &Context, reason: Option<&str>);

    /// Nothing more will be asked. What is told now is still delivered.
    fn on_shutdown(&mut self, _: &Context) {}
}

/// The events of one run, for an adapter that makes them itself: it looks after numbers and times.
#[derive(Debug)]
pub struct Run {
    log: Log,
    run_id: RunId,
    seq: u64,
}

impl Context {
    /// Begins the run that an input asks for.
    pub fn begin(&self, agent: &str) -> Run {
        let mut run = Run { log: self.log.clone(), run_id: RunId::from(uuid::Uuid::now_v7().to_string()), seq: 0 };
        run.tell(Started::new(agent.to_owned()));
        run
    }
}

impl Run {
    /// Something happened.
    pub fn tell<'a>(&mut self, kind: impl Into<EventKind<'a>>) {
        self.seq += 1;
        let (run_id, at) = (self.run_id.clone(), Some(now()));
        let event = Event { run_id, seq: self.seq, at, line: None, parent_tool_call_id: None, kind: kind.into() };
        self.log.event(&event);
    }

    /// It is over.
    pub fn end(mut self, outcome: Outcome, cause: Option<Cause>) -> Done {
        self.tell(Exited::new(outcome).cause(cause));
        Done { outcome, cause, killed: false }
    }
}
