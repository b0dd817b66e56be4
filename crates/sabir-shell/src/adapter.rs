//! What a shell runs: hooks that it calls, and what they may do.
//!
//! Every agent of the table is an [`Adapter`] through [`AgentAdapter`]. One of your own is one file: see
//! `examples/custom_adapter.rs`.

mod agent;

use std::future::Future;
use std::pin::Pin;

use sabir_core::event::{Cause, Event, EventKind, Exited, Outcome, RunId, Started};
use sabir_protocol::SessionId;

use crate::outbox::OutboxState;
use crate::session_log::SessionLog;
use crate::{Failure, now};

pub use agent::{AgentAdapter, PlannedRun, PromptRequest, RunPlanner};

/// Something for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentInput<'a> {
    /// A prompt.
    Prompt {
        /// What the agent is to do.
        text: &'a str,
        /// It belongs to no earlier session_id.
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
pub struct InputRejected(pub String);

/// How a piece of work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// What became of it.
    pub outcome: Outcome,
    /// Why, when it ended badly.
    pub cause: Option<Cause>,
    /// It was killed because a cancel was repeated.
    pub killed: bool,
}

/// What an agent does about a prompt. It begins when it is polled.
pub type RunFuture = Pin<Box<dyn Future<Output = Completion>>>;

/// What hooks are given.
#[derive(Debug, Clone)]
pub struct AdapterContext {
    /// The session.
    pub session: SessionId,
    /// Where to tell what happens.
    pub log: SessionLog,
    /// What an earlier shell left.
    pub recovered: OutboxState,
    /// A piece of work is going on.
    pub busy: bool,
}

/// The hooks. They are called one at a time and should come back at once; what takes time is [`RunFuture`].
pub trait Adapter {
    /// The name that people know it by.
    fn name(&self) -> &str;

    /// The orders that it may take.
    fn accepted_commands(&self) -> &'static [&'static str] {
        &["prompt", "cancel"]
    }

    /// The shell has begun.
    fn on_init(&mut self, _: &AdapterContext) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether it would take an input now. It does nothing yet: an order is on the disk before it is acted on.
    fn accepts(&self, context: &AdapterContext, input: AgentInput<'_>) -> Result<(), InputRejected>;

    /// Takes an input that it accepts, and gives the work that follows from it.
    fn on_input(&mut self, context: &AdapterContext, input: AgentInput<'_>) -> Result<Option<RunFuture>, InputRejected>;

    /// About a second has gone by.
    fn on_tick(&mut self, _: &AdapterContext) {}

    /// What is going on shall end; the second time, at once.
    fn on_cancel(&mut self, context: &AdapterContext, reason: Option<&str>);

    /// Nothing more will be asked. What is sink now is still delivered.
    fn on_shutdown(&mut self, _: &AdapterContext) {}
}

/// The events of one run, for an adapter that makes them itself: it looks after numbers and times.
#[derive(Debug)]
pub struct RunWriter {
    log: SessionLog,
    run_id: RunId,
    seq: u64,
}

impl AdapterContext {
    /// Begins the run that an input asks for.
    pub fn begin_run(&self, agent: &str) -> RunWriter {
        let mut run = RunWriter { log: self.log.clone(), run_id: RunId::from(uuid::Uuid::now_v7().to_string()), seq: 0 };
        run.emit(Started::new(agent.to_owned()));
        run
    }
}

impl RunWriter {
    /// Something happened.
    pub fn emit<'a>(&mut self, kind: impl Into<EventKind<'a>>) {
        self.seq += 1;
        let (run_id, at) = (self.run_id.clone(), Some(now()));
        let event = Event { run_id, seq: self.seq, at, line: None, parent_tool_call_id: None, kind: kind.into() };
        self.log.event(&event);
    }

    /// It is over.
    pub fn end(mut self, outcome: Outcome, cause: Option<Cause>) -> Completion {
        self.emit(Exited::new(outcome).cause(cause));
        Completion { outcome, cause, killed: false }
    }
}
