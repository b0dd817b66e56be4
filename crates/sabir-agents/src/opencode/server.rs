//! The server's event stream: `data:` lines, each a change of one session.
//!
//! Text comes as deltas and again whole when its part is complete; a tool call comes whole each time anything of it
//! changes. The stream does not end with the run: the main session is idle then.

mod asked;
mod changes;
mod wire;

use std::borrow::Cow;

use asked::Asked;
use changes::Changes;
use sabir_core::dialect::{Dialect, End, Facts, Verdict};
use sabir_core::event::{Activity, EventKind, Retry, Session, ToolStatus, ToolUpdate, TurnEnd, TurnStart, Unrecognized};
use sabir_core::json::{self, JsonDialect};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use wire::{
    Delta, FileEvent, MessageEvent, MessageInfo, Of, PartUpdated, Removed, SessionError, SessionEvent, SessionInfo, Status,
    StatusEvent, TodoEvent, Wire,
};

use super::session::{PartKind, Role, Sessions};
use crate::family::opencode::outcome::{self, OutcomeTracker};
use crate::family::opencode::tool::ToolCall;
use crate::family::opencode::wire::{Failure, Part, plan};

/// The JSON of a line, when it has any.
pub(super) fn payload(line: &str) -> Option<&str> {
    // Some clients keep only the data of the events.
    line.strip_prefix("data:").or(line.starts_with('{').then_some(line)).map(str::trim_start)
}

/// Takes the lines of the stream apart.
#[derive(Default)]
pub(super) struct Server {
    events: Events,
}

impl Dialect for Server {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let text = match &line.text {
            Cow::Borrowed(text) => payload(text).map(Cow::Borrowed),
            Cow::Owned(text) => payload(text).map(|payload| Cow::Owned(payload.to_owned())),
        };
        let Some(text) = text else {
            let field = ["event:", "id:", "retry:", ":"].iter().any(|field| line.text.starts_with(field));
            if !field && !line.text.trim().is_empty() {
                json::unrecognized(line, facts);
            }
            return;
        };
        Dialect::line(&mut self.events, &Line { text, ..line.clone() }, facts);
        if facts.iter().any(|fact| matches!(fact.kind, EventKind::Unrecognized(_))) {
            // What is kept is the line as it came.
            let told: Vec<_> = facts.drain().collect();
            for mut fact in told {
                if let EventKind::Unrecognized(Unrecognized { raw, .. }) = &mut fact.kind {
                    raw.clone_from(&line.text);
                }
                facts.push_fact(fact);
            }
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        Dialect::end(&mut self.events, end, facts)
    }
}

/// Reads the events.
#[derive(Default)]
struct Events {
    sessions: Sessions,
    cwd: Option<String>,
    version: Option<String>,
    model: Option<String>,
    asked: Asked,
    changes: Changes,
    outcome: OutcomeTracker,
    /// Whether the main session waits for the next prompt.
    idle: bool,
}

impl JsonDialect for Events {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        // `/global/event` wraps each event, and tells most of them again in another form.
        let (name, properties) = match wire.payload {
            Some(event) => (event.r#type, event.properties),
            None => (wire.r#type, wire.properties),
        };
        let name = name.as_deref().unwrap_or("");
        let body = properties.map_or("{}", |properties| properties.get());
        let read = match name {
            "message.part.delta" => json::parse(body).map(|delta| self.delta(delta, facts)),
            "message.part.updated" => json::parse(body).and_then(|updated| self.part(updated, facts)),
            "message.updated" => json::parse(body).map(|event: MessageEvent<'_>| self.message_info(event.info, facts)),
            "session.created" => json::parse(body).map(|event: SessionEvent<'_>| self.session_info(event.info, true, facts)),
            "session.updated" => json::parse(body).map(|event: SessionEvent<'_>| self.session_info(event.info, false, facts)),
            "session.status" => json::parse(body).map(|event| self.status(event, line.at, facts)),
            "session.idle" => json::parse(body).map(|event: Of<'_>| self.idle(&event.session_id, true)),
            "session.error" => json::parse(body).map(|event| self.error(event, facts)),
            "session.compacted" => json::parse(body).map(|event: Of<'_>| {
                if self.sessions.enter(&event.session_id, facts).is_some() {
                    facts.push(Activity::new("compacted the conversation"));
                }
            }),
            "session.deleted" => json::parse(body).map(|event: SessionEvent<'_>| self.sessions.forget(&event.info.id)),
            "todo.updated" => json::parse(body).map(|event: TodoEvent<'_>| {
                if self.sessions.enter(&event.session_id, facts).is_some() {
                    facts.push(plan(event.todos));
                }
            }),
            "message.removed" | "message.part.removed" => json::parse(body).map(|removed| self.removed(&removed)),
            "file.watcher.updated" => json::parse(body).map(|event: FileEvent<'_>| self.changes.watched(&event)),
            _ if name.starts_with("permission.") || name.starts_with("question.") => {
                self.asked.read(name, body, &mut self.sessions, facts)
            }
            "sync" => Some(()),
            _ => is_housekeeping(name).then_some(()),
        };
        if read.is_none() {
            json::unrecognized(line, facts);
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.outcome.verdict(self.idle, facts)
    }
}

/// Events about the server itself, its screens and its surroundings. What tools do to files, their calls tell better.
fn is_housekeeping(name: &str) -> bool {
    const TOPICS: &[&str] = &[
        "catalog",
        "command",
        "global",
        "ide",
        "installation",
        "integration",
        "lsp",
        "mcp",
        "models-dev",
        "plugin",
        "project",
        "pty",
        "reference",
        "server",
        "storage",
        "tui",
        "vcs",
        "workspace",
        "worktree",
    ];
    let topic = name.split('.').next().unwrap_or("");
    TOPICS.contains(&topic) || matches!(name, "session.diff" | "file.edited")
}

impl Events {
    fn say_session(&self, facts: &mut Facts<'_>) {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(
            Session::default()
                .session_id(self.sessions.main().map(std::borrow::ToOwned::to_owned))
                .model(owned(&self.model))
                .cwd(owned(&self.cwd))
                .agent_version(owned(&self.version)),
        );
    }

    fn session_info(&mut self, info: SessionInfo<'_>, created: bool, facts: &mut Facts<'_>) {
        let before = self.sessions.main() == Some(&*info.id);
        if created || info.parent_id.is_some() {
            self.sessions.created(&info.id, info.parent_id.as_deref());
        }
        // The version is that of the program which made the session; only when it is new that is the one that runs.
        if created && !before && self.sessions.main() == Some(&*info.id) {
            self.cwd = info.directory.map(|directory| directory.0.into_owned());
            self.version = info.version.map(|version| version.0.into_owned());
            self.say_session(facts);
        }
    }

    fn message_info(&mut self, info: MessageInfo<'_>, facts: &mut Facts<'_>) {
        let Some(role) = self.sessions.enter(&info.session_id, facts) else { return };
        let writes = &*info.role == "assistant";
        if writes && info.time.is_some_and(|time| time.completed.is_some()) {
            return self.sessions.complete(&info.session_id, &info.id);
        }
        let model = info.model_id.map(|model| model.0.into_owned());
        if let Some(message) = self.sessions.announce(&info.session_id, writes.then_some(&*info.id)) {
            message.summary = info.summary == Some(true);
            message.model.clone_from(&model);
            if role == Role::Main && model.is_some() && (self.model != model || self.cwd.is_none()) {
                self.model = model;
                self.cwd = self.cwd.take().or(info.path.map(|path| path.cwd.0.into_owned()));
                self.say_session(facts);
            }
        }
    }

    fn delta<'a>(&mut self, delta: Delta<'a>, facts: &mut Facts<'a>) {
        let Delta { session_id, message_id, part_id, field, piece } = delta;
        if &*field != "text" || self.sessions.enter(&session_id, facts).is_none() {
            return;
        }
        let Some(message) = self.sessions.message(&session_id, &message_id).filter(|message| !message.summary) else { return };
        // Reasoning has the same field as text. A part that was never announced comes whole when it is complete.
        if let Some(part) = message.part(&part_id) {
            part.said.push(&piece);
            part.text.push(&piece);
            part.say(piece.0, message_id.0, facts);
        }
    }

    fn part<'a>(&mut self, updated: PartUpdated<'a>, facts: &mut Facts<'a>) -> Option<()> {
        let PartUpdated { session_id, part, time } = updated;
        let session_id = session_id.or_else(|| part.session_id.clone())?;
        let (Some(id), Some(message_id)) = (&part.id, &part.message_id) else { return None };
        let Some(role) = self.sessions.enter(&session_id, facts) else { return Some(()) };
        facts.at = time.and_then(Timestamp::from_millis);
        let part_type = &*part.r#type;
        if part_type != "text" || part.time.is_some() {
            // What the person says has no time.
            self.sessions.join(&session_id, message_id);
        }
        let Some(message) = self.sessions.message(&session_id, message_id) else { return Some(()) };
        match part_type {
            "text" | "reasoning" => {
                let kind = if part_type == "text" { PartKind::Text } else { PartKind::Thinking };
                let (open, _) = message.part_or_new(id, kind);
                let text = part.text?;
                open.text.set(&text);
                let rest = match text.0 {
                    Cow::Borrowed(text) => Cow::Borrowed(open.said.rest(text)),
                    Cow::Owned(text) => Cow::Owned(open.said.rest(&text).to_owned()),
                };
                let message_id = message_id.0.clone();
                if !rest.is_empty() && !message.summary {
                    message.part(id)?.say(rest, message_id, facts);
                }
            }
            "step-start" => {
                if message.part(id).is_some() {
                    return Some(());
                }
                // Older versions write all steps into one message; what is over is forgotten.
                message.parts.clear();
                message.part_or_new(id, PartKind::Step);
                if role == Role::Main {
                    self.sessions.works();
                    self.changes.step_start();
                    self.outcome.step_start();
                    facts.push(TurnStart::default());
                }
            }
            "step-finish" => {
                let (_, new) = message.part_or_new(id, PartKind::Step);
                if !new {
                    return Some(());
                }
                let model = message.model.clone().map(Cow::Owned);
                if let Some(usage) = part.tokens.and_then(|tokens| tokens.event(part.cost, model)) {
                    facts.push(usage);
                }
                if role == Role::Main {
                    if !message.summary {
                        message.texts().for_each(|text| self.outcome.text(text));
                    }
                    self.outcome.step_finish(part.reason.as_deref());
                    facts.push(TurnEnd::default().stop_reason(part.reason));
                }
            }
            "tool" => return self.tool(&session_id, role, part, facts),
            "patch" => self.changes.patch(part.files.unwrap_or_default(), facts),
            "agent" | "compaction" | "file" | "retry" | "snapshot" | "subtask" => {}
            _ => return None,
        }
        Some(())
    }

    fn tool<'a>(&mut self, session_id: &str, role: Role, part: Part<'a>, facts: &mut Facts<'a>) -> Option<()> {
        let message_id = part.message_id.as_deref()?.to_owned();
        let mut call = ToolCall::of(part)?;
        // The plan has an event of its own.
        call.metadata.todos = None;
        if let Some(child) = &call.metadata.session_id {
            self.sessions.started_by(child, &call.id);
        }
        if &*call.state.status == "pending" {
            // Its arguments are still being written.
            return Some(());
        }
        let message = self.sessions.message(session_id, &message_id)?;
        if !message.tools.contains_key(&*call.id) {
            call.push_start(facts);
        }
        if call.is_over() {
            message.tools.remove(&*call.id);
            let status = call.push_end(facts);
            self.changes.reported(facts);
            if role == Role::Main && status == ToolStatus::Denied {
                self.outcome.denied();
            }
            return Some(());
        }
        let told = message.tools.entry(call.id.clone().into_owned()).or_default();
        if let Some(output) = call.metadata.output {
            let news = told.news(&output).to_owned();
            facts.push(ToolUpdate::new(call.id).output_delta(news));
        }
        Some(())
    }

    fn status<'a>(&mut self, event: StatusEvent<'a>, now: Option<Timestamp>, facts: &mut Facts<'a>) {
        let StatusEvent { session_id, status } = event;
        if self.sessions.enter(&session_id, facts).is_none() {
            return;
        }
        let Status { r#type, attempt, message, next } = status;
        self.idle(&session_id, &*r#type == "idle");
        if &*r#type == "retry" {
            let next = next.and_then(Timestamp::from_millis);
            facts.push(
                Retry::new(attempt.unwrap_or(1), message.map_or(Cow::Borrowed("the request failed"), Cow::from))
                    .delay_ms(next.zip(now).and_then(|(next, now)| next.millis_since(now))),
            );
        }
    }

    fn idle(&mut self, session_id: &str, idle: bool) {
        // A sub-agent that is done does not end the run.
        if self.sessions.main() == Some(session_id) {
            self.idle = idle;
        }
    }

    fn error<'a>(&mut self, event: SessionError<'a>, facts: &mut Facts<'a>) {
        let Some(failure): Option<Failure<'a>> = event.error else { return };
        let role = match &event.session_id {
            Some(id) => self.sessions.enter(id, facts),
            None => Some(Role::Main),
        };
        match role {
            Some(Role::Main) => self.outcome.fail(failure, facts),
            Some(Role::Child) => {
                let (_, cause) = outcome::classify_error(&failure);
                facts.push(outcome::error(failure, cause, false));
            }
            None => {}
        }
    }

    /// What was said is taken back.
    fn removed(&mut self, removed: &Removed<'_>) {
        let Some(message) = self.sessions.message(&removed.session, &removed.message) else { return };
        match &removed.part {
            Some(part) => message.parts.retain(|open| open.id != **part),
            None => self.sessions.complete(&removed.session, &removed.message),
        }
    }
}
