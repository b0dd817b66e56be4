//! The agents of the table, as adapters.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use sabir_core::agent::Agent;
use sabir_core::event::{Event, EventKind, RunId, Session};
use sabir_core::line::{RawLine, Source};
use sabir_core::time::Timestamp;
use sabir_run::{CancelHandle, CancelToken, RunConfig, RunSink};

use super::{Adapter, Context, Done, Input, Refused, Work};
use crate::Failure;
use crate::log::Log;

/// What is asked of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// What the agent is to do.
    pub prompt: String,
    /// The conversation that it belongs to, in the agent's own id; `None` for what the command line says.
    pub resume: Option<String>,
    /// The id of the run.
    pub run_id: RunId,
}

/// A plan, and who else wants to hear of the run.
pub struct Planned {
    /// What is executed, and how.
    pub config: RunConfig,
    /// Hears events and lines as they are, with their secrets.
    pub also: Option<Box<dyn RunSink>>,
}

/// Makes plans.
pub type Planner = Box<dyn Fn(Ask) -> Pin<Box<dyn Future<Output = Result<Planned, Failure>>>>>;

/// An agent of the table: each prompt is a run of its command line, later ones take up the conversation.
pub struct AgentAdapter {
    agent: Arc<Agent>,
    planner: Rc<Planner>,
    cancel: CancelHandle,
    conversation: Conversation,
    /// A prompt was taken.
    began: bool,
}

/// The agent's own id of the conversation, once it is known.
type Conversation = Arc<Mutex<Option<String>>>;

impl AgentAdapter {
    /// The adapter of an agent.
    pub fn new(agent: Arc<Agent>, planner: Planner) -> Self {
        let (cancel, conversation) = (CancelHandle::default(), Conversation::default());
        Self { agent, planner: Rc::new(planner), cancel, conversation, began: false }
    }

    fn known(&self) -> Option<String> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Adapter for AgentAdapter {
    fn name(&self) -> &str {
        self.agent.id.as_str()
    }

    /// A conversation of an earlier shell goes on.
    fn on_init(&mut self, context: &Context) -> Result<(), Failure> {
        if let Some(run) = &context.found.run {
            self.began = true;
            self.conversation = Arc::new(Mutex::new(run.agent_session.clone()));
        }
        Ok(())
    }

    fn accepts(&self, context: &Context, input: Input<'_>) -> Result<(), Refused> {
        let title = &self.agent.title;
        let refuse = |why: String| Err(Refused(why));
        match input {
            Input::Permission { .. } => refuse(format!("{title} is run without questions; there is none to answer")),
            Input::Prompt { .. } if context.busy => refuse(format!("{title} is at work and takes no prompt until it is done")),
            Input::Prompt { text, .. } if text.trim().is_empty() => refuse("the prompt is empty".to_owned()),
            Input::Prompt { text, .. } if text.contains('\0') => refuse("the prompt holds a NUL character".to_owned()),
            Input::Prompt { new: false, .. } if self.began && !self.agent.launch.capabilities.resume => {
                refuse(format!("{title} can't take up an earlier conversation, so it takes no further prompt"))
            }
            Input::Prompt { new: false, .. } if self.began && self.known().is_none() => {
                refuse(format!("{title} did not say which conversation it was in, so it can't be taken up"))
            }
            Input::Prompt { .. } => Ok(()),
        }
    }

    fn on_input(&mut self, context: &Context, input: Input<'_>) -> Result<Option<Work>, Refused> {
        self.accepts(context, input)?;
        let Input::Prompt { text, new } = input else { return Ok(None) };
        if new {
            self.conversation = Conversation::default();
        }
        let run_id = RunId::from(uuid::Uuid::now_v7().to_string());
        let ask = Ask { prompt: text.to_owned(), resume: self.known(), run_id };
        self.began = true;
        self.cancel = CancelHandle::default();
        let token = self.cancel.token();
        let (log, conversation) = (context.log.clone(), Arc::clone(&self.conversation));
        let told = Told { log, also: None, conversation, look_again: None };
        Ok(Some(Box::pin(run(Arc::clone(&self.agent), Rc::clone(&self.planner), ask, token, told))))
    }

    fn on_cancel(&mut self, _: &Context, _: Option<&str>) {
        self.cancel.cancel();
    }
}

async fn run(agent: Arc<Agent>, planner: Rc<Planner>, ask: Ask, token: CancelToken, mut told: Told) -> Done {
    let run_id = ask.run_id.clone();
    let ended = match planner(ask).await {
        Ok(Planned { config, also }) => {
            told.also = also;
            sabir_run::run(config, token, &mut told).await
        }
        Err(failure) => sabir_run::supervisor::report_start_failure(agent, run_id, &failure.what, &mut told),
    };
    Done { outcome: ended.outcome, cause: ended.cause, killed: ended.killed }
}

/// Tells what a run tells to the log, and to whoever else wants it.
struct Told {
    log: Log,
    also: Option<Box<dyn RunSink>>,
    conversation: Conversation,
    look_again: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// How often a disk that takes nothing is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl RunSink for Told {
    fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Session(Session { session_id: Some(id), .. }) = &event.kind
            && event.parent_tool_call_id.is_none()
        {
            *self.conversation.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_string());
        }
        self.log.event(event);
        if let Some(also) = &mut self.also {
            also.event(event);
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.also.iter_mut().for_each(|also| also.raw(bytes));
    }

    fn line(&mut self, line: &RawLine<'_>, source: Source, at: Option<Timestamp>) {
        self.also.iter_mut().for_each(|also| also.line(line, source, at));
    }

    fn flush(&mut self) {
        self.also.iter_mut().for_each(|also| also.flush());
    }

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        while self.log.poll_room(context).is_pending() {
            // A disk that does not answer wakes nobody.
            let timer = self.look_again.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_AGAIN)));
            ready!(timer.as_mut().poll(context));
            self.look_again = None;
        }
        self.look_again = None;
        self.also.as_mut().map_or(Poll::Ready(()), |also| also.poll_ready(context))
    }
}
