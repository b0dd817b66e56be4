//! Adapter for agents of the registry.

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

use super::{Adapter, AdapterContext, AgentInput, Completion, InputRejected, RunFuture};
use crate::RunnerError;
use crate::session_log::SessionLog;

/// A prompt to be turned into a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRequest {
    /// Text of the prompt.
    pub prompt: String,
    /// The agent's session id to resume; `None` for what the command line requests.
    pub resume: Option<String>,
    /// Id of the run.
    pub run_id: RunId,
}

/// Configuration of a run, and an optional observer.
pub struct PlannedRun {
    /// Configuration of the run.
    pub config: RunConfig,
    /// Receives unredacted events and lines.
    pub observer: Option<Box<dyn RunSink>>,
}

/// Turns prompts into run configurations.
pub type RunPlanner = Box<dyn Fn(PromptRequest) -> Pin<Box<dyn Future<Output = Result<PlannedRun, RunnerError>>>>>;

/// Runs an agent of the registry: every prompt is one run of its CLI, and later prompts resume the conversation.
pub struct AgentAdapter {
    agent: Arc<Agent>,
    planner: Rc<RunPlanner>,
    cancel: CancelHandle,
    session_id: SharedSessionId,
    /// A prompt was accepted before.
    has_run: bool,
}

/// The agent's own session id, once known.
type SharedSessionId = Arc<Mutex<Option<String>>>;

impl AgentAdapter {
    /// An adapter for `agent`.
    pub fn new(agent: Arc<Agent>, planner: RunPlanner) -> Self {
        let (cancel, session_id) = (CancelHandle::default(), SharedSessionId::default());
        Self { agent, planner: Rc::new(planner), cancel, session_id, has_run: false }
    }

    fn session_id(&self) -> Option<String> {
        self.session_id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Adapter for AgentAdapter {
    fn name(&self) -> &str {
        self.agent.id.as_str()
    }

    /// Resumes the conversation of an earlier runner.
    fn on_init(&mut self, context: &AdapterContext) -> Result<(), RunnerError> {
        if let Some(run) = &context.recovered.run {
            self.has_run = true;
            self.session_id = Arc::new(Mutex::new(run.agent_session.clone()));
        }
        Ok(())
    }

    fn accepts(&self, context: &AdapterContext, input: AgentInput<'_>) -> Result<(), InputRejected> {
        let title = &self.agent.title;
        let reject = |reason: String| Err(InputRejected(reason));
        match input {
            AgentInput::Permission { .. } => reject(format!("{title} is run without questions; there is none to answer")),
            AgentInput::Prompt { .. } if context.busy => {
                reject(format!("{title} is at work and takes no prompt until it is done"))
            }
            AgentInput::Prompt { text, .. } if text.trim().is_empty() => reject("the prompt is empty".to_owned()),
            AgentInput::Prompt { text, .. } if text.contains('\0') => reject("the prompt holds a NUL character".to_owned()),
            AgentInput::Prompt { new: false, .. } if self.has_run && !self.agent.launch.capabilities.resume => {
                reject(format!("{title} can't take up an earlier conversation, so it takes no further prompt"))
            }
            AgentInput::Prompt { new: false, .. } if self.has_run && self.session_id().is_none() => {
                reject(format!("{title} did not say which conversation it was in, so it can't be taken up"))
            }
            AgentInput::Prompt { .. } => Ok(()),
        }
    }

    fn on_input(&mut self, context: &AdapterContext, input: AgentInput<'_>) -> Result<Option<RunFuture>, InputRejected> {
        self.accepts(context, input)?;
        let AgentInput::Prompt { text, new } = input else { return Ok(None) };
        if new {
            self.session_id = SharedSessionId::default();
        }
        let run_id = RunId::from(uuid::Uuid::now_v7().to_string());
        let request = PromptRequest { prompt: text.to_owned(), resume: self.session_id(), run_id };
        self.has_run = true;
        self.cancel = CancelHandle::default();
        let token = self.cancel.token();
        let (log, session_id) = (context.log.clone(), Arc::clone(&self.session_id));
        let sink = AdapterSink { log, observer: None, session_id, recheck: None };
        Ok(Some(Box::pin(run(Arc::clone(&self.agent), Rc::clone(&self.planner), request, token, sink))))
    }

    fn on_cancel(&mut self, _: &AdapterContext, _: Option<&str>) {
        self.cancel.cancel();
    }
}

async fn run(
    agent: Arc<Agent>,
    planner: Rc<RunPlanner>,
    request: PromptRequest,
    token: CancelToken,
    mut sink: AdapterSink,
) -> Completion {
    let run_id = request.run_id.clone();
    let result = match planner(request).await {
        Ok(PlannedRun { config, observer }) => {
            sink.observer = observer;
            sabir_run::run(config, token, &mut sink).await
        }
        Err(error) => sabir_run::supervisor::report_start_failure(agent, run_id, &error.to_string(), &mut sink),
    };
    Completion { outcome: result.outcome, cause: result.cause, killed: result.killed }
}

/// Writes events to the session log and the observer.
struct AdapterSink {
    log: SessionLog,
    observer: Option<Box<dyn RunSink>>,
    session_id: SharedSessionId,
    recheck: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// Interval at which a stalled disk is polled.
const DISK_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

impl RunSink for AdapterSink {
    fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Session(Session { session_id: Some(id), .. }) = &event.kind
            && event.parent_tool_call_id.is_none()
        {
            *self.session_id.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_string());
        }
        self.log.event(event);
        if let Some(observer) = &mut self.observer {
            observer.event(event);
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.observer.iter_mut().for_each(|observer| observer.raw(bytes));
    }

    fn line(&mut self, line: &RawLine<'_>, source: Source, at: Option<Timestamp>) {
        self.observer.iter_mut().for_each(|observer| observer.line(line, source, at));
    }

    fn flush(&mut self) {
        self.observer.iter_mut().for_each(|observer| observer.flush());
    }

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        while self.log.poll_ready(context).is_pending() {
            // A stalled disk does not wake the task.
            let timer = self.recheck.get_or_insert_with(|| Box::pin(tokio::time::sleep(DISK_RECHECK_INTERVAL)));
            ready!(timer.as_mut().poll(context));
            self.recheck = None;
        }
        self.recheck = None;
        self.observer.as_mut().map_or(Poll::Ready(()), |observer| observer.poll_ready(context))
    }
}
