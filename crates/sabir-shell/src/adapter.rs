//! The [`Adapter`] trait: hooks through which a session drives an agent.
//!
//! Every agent of the registry is an adapter through [`AgentAdapter`]; `examples/custom_adapter.rs` implements the trait
//! directly.

mod agent;

use std::future::Future;
use std::pin::Pin;

use sabir_core::event::{Cause, Event, EventKind, Exited, Outcome, RunId, Started};
use sabir_protocol::SessionId;

use crate::outbox::OutboxState;
use crate::session_log::SessionLog;
use crate::{RunnerError, now};

pub use agent::{AgentAdapter, PlannedRun, PromptRequest, RunPlanner};

/// Input for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentInput<'a> {
    /// A prompt.
    Prompt {
        /// Text of the prompt.
        text: &'a str,
        /// Starts a new conversation.
        new: bool,
    },
    /// The answer to a permission question.
    Permission {
        /// Id of the question.
        request_id: &'a str,
        /// Permission is granted.
        allow: bool,
    },
}

/// Human-readable reason why an input was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRejected(pub String);

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Reason, if it did not complete.
    pub cause: Option<Cause>,
    /// Killed because cancellation was requested twice.
    pub killed: bool,
}

/// A run started by a prompt. Lazy: it starts when first polled.
pub type RunFuture = Pin<Box<dyn Future<Output = Completion>>>;

/// Context passed to every hook.
#[derive(Debug, Clone)]
pub struct AdapterContext {
    /// Session id.
    pub session: SessionId,
    /// Log that receives the run's events.
    pub log: SessionLog,
    /// State left by earlier runners of the session.
    pub recovered: OutboxState,
    /// A run is in progress.
    pub busy: bool,
}

/// Hooks of a session. Called one at a time; they should return quickly and leave lasting work to a [`RunFuture`].
pub trait Adapter {
    /// Name of the agent.
    fn name(&self) -> &str;

    /// Kinds of remote commands that the adapter handles.
    fn accepted_commands(&self) -> &'static [&'static str] {
        &["prompt", "cancel"]
    }

    /// Called once, before any other hook.
    fn on_init(&mut self, _: &AdapterContext) -> Result<(), RunnerError> {
        Ok(())
    }

    /// Checks whether an input would be accepted now, without side effects: a command is recorded on disk before it is
    /// executed.
    fn accepts(&self, context: &AdapterContext, input: AgentInput<'_>) -> Result<(), InputRejected>;

    /// Executes an accepted input. Returns the run that it starts, if any.
    fn on_input(&mut self, context: &AdapterContext, input: AgentInput<'_>) -> Result<Option<RunFuture>, InputRejected>;

    /// Called about every second.
    fn on_tick(&mut self, _: &AdapterContext) {}

    /// Cancels the current run; a second call kills it.
    fn on_cancel(&mut self, context: &AdapterContext, reason: Option<&str>);

    /// Called last. Messages logged here are still delivered.
    fn on_shutdown(&mut self, _: &AdapterContext) {}
}

/// Writes the events of one run and assigns sequence numbers and timestamps, for adapters that create their events themselves.
#[derive(Debug)]
pub struct RunWriter {
    log: SessionLog,
    run_id: RunId,
    seq: u64,
}

impl AdapterContext {
    /// Starts a run: writes its `started` event.
    pub fn begin_run(&self, agent: &str) -> RunWriter {
        let mut run = RunWriter { log: self.log.clone(), run_id: RunId::from(uuid::Uuid::now_v7().to_string()), seq: 0 };
        run.emit(Started::new(agent.to_owned()));
        run
    }
}

impl RunWriter {
    /// Writes an event.
    pub fn emit<'a>(&mut self, kind: impl Into<EventKind<'a>>) {
        self.seq += 1;
        let (run_id, at) = (self.run_id.clone(), Some(now()));
        let event = Event { run_id, seq: self.seq, at, line: None, parent_tool_call_id: None, kind: kind.into() };
        self.log.event(&event);
    }

    /// Ends the run: writes its `exited` event.
    pub fn end(mut self, outcome: Outcome, cause: Option<Cause>) -> Completion {
        self.emit(Exited::new(outcome).cause(cause));
        Completion { outcome, cause, killed: false }
    }
}
