//! `perstack`: the events and the checkpoint of Perstack, for runs that its own runtime did not execute.
//!
//! ```text
//! initializeRuntime → startRun → (callTools → resolveToolResults)* → completeRun
//!                                                                  | stopRunByExceededMaxSteps | stopRunByError
//! ```
//!
//! The checkpoint is the main agent's conversation. What a sub-agent says and does is the matter of the call that
//! started it, whose result is in the conversation; its tokens count. Calls are told when the first of them ends,
//! because only then it is sure which calls one message makes.

mod conversation;
mod records;

use conversation::{Conversation, Happened};
use records::{Checkpoint, Expert, Failure, InitializeRuntime, Message, Metadata, RunEvent, Step, Usage};
use sabir_core::event::{
    self, Cause, ErrorEvent, Event, EventKind, Exited, Final, Outcome, Session, Started, TextDelta, ThinkingDelta, ToolEnd,
    ToolStart, ToolUpdate, UsageScope,
};
use sabir_core::export::{Clock, Exporter, Ids, Options, record};
use sabir_core::fold::{Tokens, UsageTally};
use sabir_core::json::RawJson;
use serde::Serialize;

/// The runtimes that Perstack's schema knows, of those that are agents.
const RUNTIMES: &[&str] = &["cursor", "claude-code", "gemini"];

/// What of it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Show {
    Events,
    Checkpoint,
    /// Tool events in one object with the final output.
    Output,
}

/// The view of one run.
#[derive(Debug)]
pub(super) struct Perstack {
    show: Show,
    options: Options,
    clock: Clock,
    agent: String,
    agent_version: Option<String>,
    session_id: Option<String>,
    model: Option<String>,
    run_id: String,
    tally: UsageTally,
    /// What is fixed when the run is first told.
    run: Option<Run>,
    told: u64,
    answer: Option<String>,
    error: Option<String>,
    status: &'static str,
    failure: Option<Failure>,
    collected: Vec<u8>,
}

#[derive(Debug)]
struct Run {
    job_id: String,
    id: String,
    expert: Expert,
    ids: Ids,
    conversation: Conversation,
}

impl Exporter for Perstack {
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.clock.observe(event);
        self.tally.event(&event.kind);
        if self.run_id.is_empty() {
            event.run_id.as_str().clone_into(&mut self.run_id);
        }
        let inside_a_call = event.parent_tool_call_id.is_some();
        match &event.kind {
            EventKind::Started(Started { agent, agent_version, .. }) => {
                agent.as_ref().clone_into(&mut self.agent);
                self.agent_version = agent_version.as_deref().map(str::to_owned);
            }
            EventKind::Session(Session { session_id, model, agent_version, .. }) if !inside_a_call => {
                let learn = |known: &mut Option<String>, new: &Option<std::borrow::Cow<'_, str>>| {
                    if let Some(new) = new {
                        *known = Some(new.to_string());
                    }
                };
                learn(&mut self.session_id, session_id);
                learn(&mut self.model, model);
                learn(&mut self.agent_version, agent_version);
                // Without the model it is better to wait: some agents name it only with the first answer.
                if model.is_some() {
                    self.begin(out);
                }
            }
            EventKind::Usage(event::Usage { scope, .. }) => {
                self.begin(out);
                if *scope != UsageScope::Run
                    && let Some(run) = &mut self.run
                {
                    run.conversation.step.tally.event(&event.kind);
                }
            }
            EventKind::Final(Final { text, .. }) => {
                self.begin(out);
                self.answer = Some(text.to_string());
            }
            EventKind::Error(ErrorEvent { message, .. }) => self.error = Some(message.to_string()),
            EventKind::Exited(Exited { outcome, cause, .. }) => {
                self.begin(out);
                self.finish(*outcome, *cause, out);
            }
            _ if inside_a_call => {}
            kind => self.converse(kind, out),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.converse_with(out, |conversation, _| conversation.close());
        match self.show {
            Show::Events => {}
            Show::Checkpoint => {
                if let Some(run) = &self.run {
                    record(&self.checkpoint_of(run, self.status, &run.conversation.messages), out);
                }
            }
            Show::Output => self.write_output(out),
        }
    }
}

impl Perstack {
    /// All events.
    pub(super) fn events(options: &Options) -> Self {
        Self::new(Show::Events, options)
    }

    /// The checkpoint alone.
    pub(super) fn checkpoint(options: &Options) -> Self {
        Self::new(Show::Checkpoint, options)
    }

    /// The tool events and the final output.
    pub(super) fn output(options: &Options) -> Self {
        Self::new(Show::Output, options)
    }

    fn new(show: Show, options: &Options) -> Self {
        Self {
            show,
            options: options.clone(),
            clock: Clock::default(),
            agent: String::new(),
            agent_version: None,
            session_id: None,
            model: None,
            run_id: String::new(),
            tally: UsageTally::default(),
            run: None,
            told: 0,
            answer: None,
            error: None,
            status: "proceeding",
            failure: None,
            collected: Vec::new(),
        }
    }

    fn converse(&mut self, kind: &EventKind<'_>, out: &mut Vec<u8>) {
        match kind {
            EventKind::Text(TextDelta { delta, message_id, .. }) => {
                self.converse_with(out, |conversation, now| conversation.say(false, message_id.as_deref(), delta, now));
            }
            EventKind::Thinking(ThinkingDelta { delta, message_id, .. }) => {
                self.converse_with(out, |conversation, now| conversation.say(true, message_id.as_deref(), delta, now));
            }
            EventKind::ToolStart(ToolStart { tool_call_id, name, input, .. }) => {
                self.converse_with(out, |conversation, now| conversation.call(tool_call_id, name, input.as_deref(), now));
            }
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, input: Some(input), .. }) => {
                self.converse_with(out, |conversation, _| {
                    conversation.arguments(tool_call_id, input);
                    Vec::new()
                });
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, status, output, .. }) => {
                self.converse_with(out, |conversation, _| conversation.result(tool_call_id, *status, output.as_deref()));
            }
            EventKind::TurnStart(_) if self.run.is_some() => {
                self.converse_with(out, Conversation::next_turn);
            }
            EventKind::TurnEnd(_) => {
                self.converse_with(out, |conversation, _| conversation.close());
            }
            _ => {}
        }
    }

    /// Lets the conversation go on and tells what happened in it.
    fn converse_with(&mut self, out: &mut Vec<u8>, go_on: impl FnOnce(&mut Conversation, i64) -> Vec<Happened>) {
        self.begin(out);
        let now = self.clock.millis();
        let Some(mut run) = self.run.take() else { return };
        for happened in go_on(&mut run.conversation, now) {
            self.tell(&run, &happened, out);
        }
        self.run = Some(run);
    }

    fn tell(&mut self, run: &Run, happened: &Happened, out: &mut Vec<u8>) {
        let event = match happened {
            Happened::Called { step, message, calls, tokens } => RunEvent {
                new_message: Some(message),
                tool_calls: Some(calls),
                usage: Some(Usage::from(tokens)),
                ..self.head(run, "callTools", *step)
            },
            Happened::Resolved { step, results } => {
                RunEvent { tool_results: Some(results), ..self.head(run, "resolveToolResults", *step) }
            }
        };
        match self.show {
            Show::Events => record(&event, out),
            Show::Checkpoint => {}
            Show::Output => {
                if !self.collected.is_empty() {
                    self.collected.push(b',');
                }
                // Writing our own record to a vector cannot fail.
                let _ = serde_json::to_writer(&mut self.collected, &event);
            }
        }
    }

    fn head<'a>(&mut self, run: &'a Run, r#type: &'static str, step_number: u64) -> RunEvent<'a> {
        self.told += 1;
        RunEvent {
            r#type,
            id: run.ids.id("event", self.told),
            expert_key: &run.expert.key,
            timestamp: self.clock.millis(),
            job_id: &run.job_id,
            run_id: &run.id,
            step_number,
            ..RunEvent::default()
        }
    }

    /// Tells that there is a run, once.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.run.is_some() {
            return;
        }
        let options = &self.options;
        let agent = if self.agent.is_empty() { "unknown" } else { self.agent.as_str() };
        let run_id = options.run_id.clone().unwrap_or_else(|| self.run_id.clone());
        let job_id = options.job_id.clone().unwrap_or_else(|| run_id.clone());
        let key = options.expert_key.clone().unwrap_or_else(|| agent.to_owned());
        let version = options.expert_version.clone().or_else(|| self.agent_version.clone());
        let expert = Expert {
            name: options.expert_name.clone().unwrap_or_else(|| key.clone()),
            version: version.unwrap_or_else(|| "0.0.0".to_owned()),
            key,
        };
        let session = options.session_id.as_deref().or(self.session_id.as_deref()).unwrap_or("");
        let ids = Ids::of(&["perstack", &job_id, &run_id, session]);
        let conversation = Conversation::new(agent, ids, options.prompt.as_deref(), self.clock.millis());
        let run = Run { id: run_id, job_id, expert, ids, conversation };
        if self.show == Show::Events {
            let agent = agent.to_owned();
            self.told += 1;
            let initialize = InitializeRuntime {
                r#type: "initializeRuntime",
                id: run.ids.id("event", self.told),
                timestamp: self.clock.millis(),
                job_id: &run.job_id,
                run_id: &run.id,
                runtime_version: format!("external:{agent}"),
                runtime: runtime(&agent),
                expert_name: &run.expert.name,
                experts: [],
                model: self.model.clone().unwrap_or_else(|| format!("{agent}:default")),
                max_retries: 0,
                timeout: 0,
                query: self.options.prompt.as_deref(),
            };
            record(&initialize, out);
            let head = self.head(&run, "startRun", 0);
            let input = run.conversation.messages.as_slice();
            let start = RunEvent { initial_checkpoint: Some(self.initial_checkpoint(&run)), input_messages: Some(input), ..head };
            record(&start, out);
        }
        self.run = Some(run);
    }

    fn finish(&mut self, outcome: Outcome, cause: Option<Cause>, out: &mut Vec<u8>) {
        self.converse_with(out, |conversation, _| conversation.close());
        let Some(mut run) = self.run.take() else { return };
        if let Some(answer) = &self.answer {
            run.conversation.answer(answer);
        }
        let r#type = match (outcome, cause) {
            (Outcome::Completed, _) => {
                self.status = "completed";
                "completeRun"
            }
            (Outcome::Limited, Some(Cause::MaxTurns)) => {
                self.status = "stoppedByExceededMaxSteps";
                "stopRunByExceededMaxSteps"
            }
            _ => {
                self.status = "stoppedByError";
                self.failure = Some(Failure::new(outcome, cause, self.error.take()));
                "stopRunByError"
            }
        };
        if self.show == Show::Events {
            let head = self.head(&run, r#type, run.conversation.step.number);
            let completed = outcome == Outcome::Completed;
            let total = self.tally.total();
            let event = RunEvent {
                checkpoint: Some(self.checkpoint_of(&run, self.status, &run.conversation.messages)),
                step: Some(self.last_step(&run, &total)),
                text: completed.then(|| self.answer.as_deref().unwrap_or("")),
                usage: completed.then(|| Usage::from(&total)),
                error: self.failure.as_ref(),
                ..head
            };
            record(&event, out);
        }
        self.run = Some(run);
    }

    fn last_step<'a>(&self, run: &'a Run, total: &Tokens) -> Step<'a> {
        let conversation = &run.conversation;
        let step = &conversation.step;
        let own = step.tally.total();
        // The only step used what the run used, sub-agents and all.
        let tokens = if step.number == 1 { total } else { &own };
        Step {
            number: step.number,
            new_messages: conversation.messages.get(step.first_message..).unwrap_or_default(),
            tool_calls: &step.calls,
            tool_results: &step.results,
            usage: Usage::from(tokens),
            started_at: step.started_at,
            finished_at: self.clock.millis(),
        }
    }

    fn initial_checkpoint<'a>(&'a self, run: &'a Run) -> Checkpoint<'a> {
        Checkpoint {
            id: run.ids.id("checkpoint", 0),
            step_number: 0,
            usage: Usage::from(&Tokens::default()),
            ..self.checkpoint_of(run, "init", &[])
        }
    }

    /// Every step has a checkpoint id of its own, so that no two are stored as one.
    fn checkpoint_of<'a>(&'a self, run: &'a Run, status: &'static str, messages: &'a [Message]) -> Checkpoint<'a> {
        let total = self.tally.total();
        Checkpoint {
            id: run.ids.id("checkpoint", run.conversation.step.number),
            job_id: &run.job_id,
            run_id: &run.id,
            status,
            step_number: run.conversation.step.number,
            messages,
            expert: &run.expert,
            usage: Usage::from(&total),
            metadata: Metadata {
                runtime: runtime(&self.agent),
                external_execution: true,
                agent: &self.agent,
                agent_version: self.agent_version.as_deref(),
                session_id: self.session_id.as_deref(),
                model: self.model.as_deref(),
                usage_known: total.total().is_some(),
            },
            error: self.failure.as_ref(),
        }
    }

    fn write_output(&self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Output<'a> {
            events: RawJson,
            final_output: &'a str,
        }
        let events = RawJson::written(|out| {
            out.push(b'[');
            out.extend_from_slice(&self.collected);
            out.push(b']');
        });
        let said = || self.run.as_ref().and_then(|run| run.conversation.last_text()).map(str::trim);
        let final_output = self.answer.as_deref().or_else(said).unwrap_or("");
        record(&Output { events, final_output }, out);
    }
}

/// The name that the schema has for an agent, if it has one.
fn runtime(agent: &str) -> Option<&'static str> {
    RUNTIMES.iter().copied().find(|name| *name == agent)
}
