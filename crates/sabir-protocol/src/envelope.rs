//! `envelope`: the messages of a runner shell.
//!
//! | event | message |
//! |---|---|
//! | `started`, `session` | `init`, then `status` starting |
//! | `text`, `thinking` | `log`, one per message, `meta.role` assistant or thinking |
//! | `activity` | `log`, `meta.role` activity |
//! | tool calls that run a command | `command_start`, `command_output`, `command_end`; for git and `gh pr` also `git_event`, `pr_event` |
//! | other tool calls | `tool_event` start and end |
//! | `fileChange` | `file_change` |
//! | an open permission question | `prompt` |
//! | `usage`, `plan`, `retry` and what has no message of its own | `event`, with the event as `json` |
//! | `error` | `error` |
//! | `final`, `exited` | `result`, then `status` done |
//!
//! Agents' words are `log` because that is the one core type for text: a reader that knows only the core types sees the
//! whole conversation. The answer is in the log, where it was said, and is the summary of the result as well.
//! With [`Options::events`] every event is an `event` message too, before the others that it causes: [`read`] makes events
//! of those again.
//!
//! `heartbeat` comes from whoever has a clock: see [`Envelope::heartbeat`].
//!
//! A text longer than [`Options::partial_bytes`] is sent in fragments, each a message of its own with
//! `partial {id, index, total}` in its payload: the longest text field of the payload is what is split
//! (`meta.partialField` names it), between characters, and the pieces join to the same bytes. Of `args` and `json` the
//! JSON text is split, and the pieces are strings.

mod arguments;
mod calls;
mod deeds;
mod message;
pub mod notes;
pub mod overview;
pub mod read;
mod shell;
pub mod timeline;

use std::borrow::Cow;
use std::collections::BTreeMap;

use calls::OpenCall;
use message::{Level, Message, Meta, Origin, Payload};
use sabir_core::event::{
    Activity, Cause, ErrorEvent, Event, EventKind, Exited, FileChange, Final, Outcome, Permission, Plan, PlanStatus, Session,
    Started, TurnStart,
};
use sabir_core::export::calls::PendingCalls;
use sabir_core::export::messages::{self, MessageAssembler};
use sabir_core::export::{Clock, Exporter, Ids, Options, record};
use sabir_core::json::RawJson;
use sabir_core::time::Timestamp;

/// The view of one run.
#[derive(Debug)]
pub struct Envelope {
    options: Options,
    clock: Clock,
    seq: u64,
    /// Fixed with the first message.
    session: Option<(String, Ids)>,
    run_id: String,
    agent: String,
    agent_version: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    agent_session: Option<String>,
    turn: u32,
    phase: &'static str,
    progress: u8,
    messages: MessageAssembler,
    pending: PendingCalls,
    open: BTreeMap<String, OpenCall>,
    answer: Option<String>,
    failure_said: bool,
    /// The first event, which waits for the first message; and that, where the session has no name yet, for the agent's own.
    started: Option<RawJson>,
}

impl Exporter for Envelope {
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        self.clock.observe(event);
        if self.run_id.is_empty() {
            event.run_id.as_str().clone_into(&mut self.run_id);
        }
        if self.session.is_none() {
            match &event.kind {
                EventKind::Started(Started { agent, agent_version, .. }) => {
                    agent.as_ref().clone_into(&mut self.agent);
                    self.agent_version = agent_version.as_deref().map(str::to_owned);
                    self.started = self.options.events.then(|| json(event));
                    // Whose session has a name is not kept waiting by an agent that is silent at first.
                    if self.options.session_id.is_some() {
                        self.open(out);
                    }
                    return;
                }
                EventKind::Session(_) => {
                    self.learn(&event.kind);
                    self.open(out);
                    if self.options.events {
                        self.own_words(event, out);
                    }
                    return;
                }
                _ => self.open(out),
            }
        }
        if self.options.events {
            self.own_words(event, out);
        }
        for call in self.pending.take_before(event) {
            self.begin_call(&call, out);
        }
        self.tell(event, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.session.is_none() {
            self.open(out);
        }
        for call in self.pending.take_all() {
            self.begin_call(&call, out);
        }
        self.flush(out);
    }
}

impl Envelope {
    /// The view of a run that has not begun.
    pub fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            clock: Clock::default(),
            seq: options.after,
            session: None,
            run_id: String::new(),
            agent: String::new(),
            agent_version: None,
            model: None,
            cwd: None,
            agent_session: None,
            turn: 0,
            phase: "",
            progress: 0,
            messages: MessageAssembler::default(),
            pending: PendingCalls::default(),
            open: BTreeMap::new(),
            answer: None,
            failure_said: false,
            started: None,
        }
    }

    /// The number of the last message.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Appends a sign of life at that time.
    pub fn heartbeat(&mut self, at: Timestamp, out: &mut Vec<u8>) {
        self.clock.set(Some(at));
        if self.session.is_none() {
            self.open(out);
        }
        self.send("heartbeat", Level::Info, &Payload::default(), out);
    }

    fn tell(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let parent = event.parent_tool_call_id.as_deref();
        match &event.kind {
            EventKind::Text(_) | EventKind::Thinking(_) => {
                self.running(out);
                if let Some(message) = self.messages.push(event) {
                    self.log(&message, out);
                }
            }
            EventKind::ToolStart(_) => {
                self.running(out);
                self.flush_lane(parent, out);
                if let Some(call) = self.pending.start(event) {
                    self.begin_call(&call, out);
                }
            }
            EventKind::ToolUpdate(_) => self.update_call(event, out),
            EventKind::ToolEnd(_) => self.end_call(event, out),
            EventKind::FileChange(_) => self.file_change(event, out),
            EventKind::TurnStart(TurnStart { turn, .. }) => {
                self.turn = *turn;
                self.running(out);
            }
            EventKind::TurnEnd(_) => self.flush_lane(None, out),
            EventKind::Activity(Activity { message, .. }) => {
                let meta = Meta { role: Some("activity"), ..Meta::default() };
                let payload = Payload { text: Some(Cow::Borrowed(message)), meta: Some(meta), ..Payload::default() };
                self.send("log", Level::Info, &payload, out);
            }
            EventKind::Permission(Permission { title, decision: None, .. }) => {
                let payload = Payload { text: Some(Cow::Borrowed(title)), json: Some(json(event)), ..Payload::default() };
                self.send("prompt", Level::Info, &payload, out);
            }
            EventKind::Plan(Plan { items, .. }) => {
                self.other(event, out);
                let done = items.iter().filter(|item| item.status == PlanStatus::Completed).count();
                // A plan is most of the way from the beginning of the work to its end.
                if let Some(share) = (done * 80).checked_div(items.len()) {
                    self.status("running", u8::try_from(10 + share).unwrap_or(90), out);
                }
            }
            EventKind::Final(Final { text, .. }) => self.answer = Some(text.to_string()),
            EventKind::Error(ErrorEvent { message, class, fatal, .. }) => {
                self.failure_said |= fatal;
                self.error(class.unwrap_or(Cause::Unknown).as_str(), message, *fatal, out);
            }
            EventKind::Exited(_) => self.finish(&event.kind, out),
            EventKind::Session(_) => {
                self.learn(&event.kind);
                self.other(event, out);
            }
            _ => self.other(event, out),
        }
    }

    fn learn(&mut self, kind: &EventKind<'_>) {
        let EventKind::Session(Session { session_id, model, cwd, agent_version, .. }) = kind else { return };
        let learn = |known: &mut Option<String>, new: &Option<Cow<'_, str>>| {
            if let Some(new) = new {
                *known = Some(new.to_string());
            }
        };
        learn(&mut self.agent_session, session_id);
        learn(&mut self.model, model);
        learn(&mut self.cwd, cwd);
        learn(&mut self.agent_version, agent_version);
    }

    /// The first messages.
    fn open(&mut self, out: &mut Vec<u8>) {
        let session = self.options.session_id.as_ref().or(self.agent_session.as_ref()).unwrap_or(&self.run_id).clone();
        let ids = Ids::of(&["envelope", &session]);
        self.session = Some((session, ids));
        let options = self.options.clone();
        let (agent_version, model, cwd) = (self.agent_version.clone(), self.model.clone(), self.cwd.clone());
        let payload = Payload {
            runner_version: Some(env!("CARGO_PKG_VERSION")),
            adapter: Some(Cow::Owned(options.adapter.unwrap_or_else(|| self.agent.clone()))),
            repo: options.repo.map(Cow::Owned),
            branch: options.branch.map(Cow::Owned),
            meta: meta(Meta {
                workspace: options.workspace.map(Cow::Owned),
                agent_version: agent_version.map(Cow::Owned),
                model: model.map(Cow::Owned),
                cwd: cwd.map(Cow::Owned),
                agent_session_id: self.agent_session.clone().map(Cow::Owned),
                ..Meta::default()
            }),
            ..Payload::default()
        };
        self.send("init", Level::Info, &payload, out);
        if let Some(prompt) = options.prompt {
            let payload = Payload { text: Some(Cow::Owned(prompt)), ..Payload::default() };
            self.send_from(Origin::Backend, "prompt", Level::Info, &payload, out);
        }
        self.status("starting", 0, out);
        if let Some(started) = self.started.take() {
            let payload = Payload { name: Some(Cow::Borrowed("started")), json: Some(started), ..Payload::default() };
            self.send("event", Level::Info, &payload, out);
        }
    }

    fn running(&mut self, out: &mut Vec<u8>) {
        if self.phase == "starting" {
            self.status("running", 10, out);
        }
    }

    /// Progress never goes back, whatever a plan says.
    fn status(&mut self, phase: &'static str, progress: u8, out: &mut Vec<u8>) {
        let progress = progress.max(self.progress);
        if (phase, progress) == (self.phase, self.progress) {
            return;
        }
        (self.phase, self.progress) = (phase, progress);
        let payload = Payload { phase: Some(phase), progress: Some(progress), ..Payload::default() };
        self.send("status", Level::Info, &payload, out);
    }

    fn log(&mut self, message: &messages::Message, out: &mut Vec<u8>) {
        let payload = Payload {
            text: Some(Cow::Borrowed(&message.text)),
            meta: Some(Meta {
                role: Some(if message.thinking { "thinking" } else { "assistant" }),
                message_id: message.id.as_deref().map(Cow::Borrowed),
                parent_tool_call_id: message.parent.as_deref().map(Cow::Borrowed),
                ..Meta::default()
            }),
            ..Payload::default()
        };
        self.send("log", Level::Info, &payload, out);
    }

    fn flush_lane(&mut self, parent: Option<&str>, out: &mut Vec<u8>) {
        if let Some(message) = self.messages.close(parent) {
            self.log(&message, out);
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        for message in self.messages.close_all() {
            self.log(&message, out);
        }
    }

    fn file_change(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let EventKind::FileChange(FileChange { path, change, from, diff, added, removed, tool_call_id, source, .. }) =
            &event.kind
        else {
            return;
        };
        let payload = Payload {
            path: Some(Cow::Borrowed(path)),
            change: Some(*change),
            from: from.as_deref().map(Cow::Borrowed),
            diff: diff.as_deref().map(Cow::Borrowed),
            meta: Some(Meta {
                tool_call_id: tool_call_id.as_deref().map(Cow::Borrowed),
                parent_tool_call_id: event.parent_tool_call_id.as_deref().map(Cow::Borrowed),
                added: *added,
                removed: *removed,
                source: Some(*source),
                ..Meta::default()
            }),
            ..Payload::default()
        };
        self.send("file_change", Level::Info, &payload, out);
    }

    /// What has no message of its own is sent as it is.
    fn other(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if !self.options.events {
            self.own_words(event, out);
        }
    }

    fn own_words(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let level = if matches!(event.kind, EventKind::Retry(_)) { Level::Warn } else { Level::Info };
        let payload = Payload { name: Some(Cow::Borrowed(event.kind.tag())), json: Some(json(event)), ..Payload::default() };
        self.send("event", level, &payload, out);
    }

    fn error(&mut self, code: &'static str, message: &str, fatal: bool, out: &mut Vec<u8>) {
        let payload = Payload {
            code: Some(code),
            message: Some(Cow::Borrowed(message)),
            meta: Some(Meta { fatal: Some(fatal), ..Meta::default() }),
            ..Payload::default()
        };
        self.send("error", if fatal { Level::Error } else { Level::Warn }, &payload, out);
    }

    fn finish(&mut self, exited: &EventKind<'_>, out: &mut Vec<u8>) {
        let EventKind::Exited(Exited { outcome, cause, exit_code, duration_ms, stop_reason, .. }) = exited else { return };
        self.flush(out);
        self.status("finalizing", 95, out);
        let sentence = match cause {
            Some(cause) => format!("the run ended: {outcome} ({cause})"),
            None => format!("the run ended: {outcome}"),
        };
        let stopped_as_asked = matches!(outcome, Outcome::Completed | Outcome::Cancelled);
        if !stopped_as_asked && !self.failure_said {
            let code = cause.filter(|cause| *cause != Cause::Unknown).map_or(outcome.as_str(), Cause::as_str);
            self.error(code, &sentence, true, out);
        }
        let level = match outcome {
            Outcome::Completed => Level::Info,
            Outcome::Cancelled | Outcome::Limited => Level::Warn,
            _ => Level::Error,
        };
        let answer = self.answer.take();
        let payload = Payload {
            summary: Some(Cow::Owned(answer.unwrap_or(sentence))),
            artifacts: Some(Vec::new()),
            meta: Some(Meta {
                outcome: Some(*outcome),
                exit_code: *exit_code,
                duration_ms: *duration_ms,
                stop_reason: stop_reason.as_deref().map(Cow::Borrowed),
                ..Meta::default()
            }),
            ..Payload::default()
        };
        self.send("result", level, &payload, out);
        self.status("done", 100, out);
    }

    fn send(&mut self, r#type: &'static str, level: Level, payload: &Payload<'_>, out: &mut Vec<u8>) {
        self.send_from(Origin::Runner, r#type, level, payload, out);
    }

    fn send_from(&mut self, origin: Origin, r#type: &'static str, level: Level, payload: &Payload<'_>, out: &mut Vec<u8>) {
        let Some((session, ids)) = &self.session else { return };
        let fragments = payload.fragments(self.options.partial_bytes, || ids.id("partial", self.seq + 1));
        for payload in fragments.as_deref().unwrap_or(std::slice::from_ref(payload)) {
            self.seq += 1;
            let message = Message {
                id: ids.id("message", self.seq),
                session_id: session,
                ts: self.clock.now(),
                r#type,
                level,
                step: (self.turn > 0).then(|| format!("turn {}", self.turn)),
                origin,
                seq: self.seq,
                payload,
            };
            record(&message, out);
        }
    }
}

fn meta(meta: Meta<'_>) -> Option<Meta<'_>> {
    let Meta { workspace, agent_version, model, cwd, agent_session_id, .. } = &meta;
    let any = [workspace, agent_version, model, cwd, agent_session_id].into_iter().any(Option::is_some);
    any.then_some(meta)
}

/// The event as it is in our own words.
fn json(event: &Event<'_>) -> RawJson {
    RawJson::written(|out| event.write_json(out))
}
