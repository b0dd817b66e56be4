//! `runner`: thought, action, response, final, log and error, for orchestrators that post what an agent does to people.
//!
//! Reasoning and interim narration are thoughts, one per message. A tool call is an action, and one more when it fails.
//! The answer of a turn is held until it is clear what it was: a `response` if another turn follows, the `final` if it
//! was the last. An answer is said once, never as a thought and a final.

use std::collections::BTreeMap;

use sabir_core::event::{
    Activity, Cause, ErrorEvent, Event, EventKind, Exited, FileChange, Final, Outcome, Permission, Plan, PlanStatus, Prompt,
    Retry, Session, Started, SuggestedEdits, ToolEnd, ToolStatus, TurnEnd, TurnStart, Unrecognized, Usage,
};
use sabir_core::export::calls::{Call, PendingCalls, one_line};
use sabir_core::export::messages::{Message, MessageAssembler};
use sabir_core::export::{Exporter, Options, record};
use serde::Serialize;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Record<'a> {
    Thought {
        text: &'a str,
    },
    Action {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a str>,
    },
    Response {
        text: &'a str,
    },
    Final {
        text: &'a str,
    },
    Log {
        text: &'a str,
    },
    Error {
        error: Failure<'a>,
    },
}

#[derive(Serialize)]
struct Failure<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<Cause>,
    fatal: bool,
}

/// The view of one run.
#[derive(Debug)]
pub(super) struct Runner {
    logs: bool,
    messages: MessageAssembler,
    pending: PendingCalls,
    /// Names of the calls that have not ended.
    open: BTreeMap<String, String>,
    /// What the turn that just ended answered.
    answer: Option<String>,
    final_said: bool,
    failure_said: bool,
}

impl Exporter for Runner {
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        for call in self.pending.take_before(event) {
            self.action(&call, out);
        }
        let parent = event.parent_tool_call_id.as_deref();
        match &event.kind {
            EventKind::Text(_) | EventKind::Thinking(_) => {
                if parent.is_none() {
                    self.respond(out);
                }
                if let Some(message) = self.messages.push(event) {
                    thought(&message, out);
                }
            }
            EventKind::ToolStart(_) => {
                if parent.is_none() {
                    self.respond(out);
                }
                self.think(parent, out);
                if let Some(call) = self.pending.start(event) {
                    self.action(&call, out);
                }
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, output, status, exit_code, .. }) => {
                self.think(Some(tool_call_id), out);
                if let Some(name) = self.open.remove(tool_call_id.as_ref())
                    && *status != ToolStatus::Ok
                {
                    let detail = failed_detail(*status, *exit_code, output.as_deref());
                    record(&Record::Action { name: &name, detail: Some(&detail) }, out);
                }
            }
            EventKind::TurnStart(_) => {
                self.respond(out);
                self.log(&event.kind, out);
            }
            EventKind::TurnEnd(TurnEnd { stop_reason, .. }) => {
                self.end_turn(stop_reason.as_deref(), out);
                self.log(&event.kind, out);
            }
            EventKind::Retry(_) => {
                // What is tried again was no answer.
                if let Some(text) = self.answer.take() {
                    record(&Record::Thought { text: &text }, out);
                }
                self.log(&event.kind, out);
            }
            EventKind::Final(Final { text, .. }) => {
                self.answer_or_thought(text, out);
                if !self.final_said {
                    self.final_said = true;
                    record(&Record::Final { text }, out);
                }
            }
            EventKind::Error(ErrorEvent { message, class, fatal, .. }) => self.fail(message, *class, *fatal, out),
            EventKind::Exited(Exited { outcome, cause, .. }) => {
                self.rest(out);
                // Who waits for a final must not wait for ever. A stop that was asked for is no failure.
                if !matches!(outcome, Outcome::Completed | Outcome::Cancelled) && !self.failure_said {
                    let message = cause.map_or_else(
                        || format!("the run ended: {outcome}"),
                        |cause| format!("the run ended: {outcome} ({cause})"),
                    );
                    self.fail(&message, *cause, true, out);
                }
                self.log(&event.kind, out);
            }
            kind => self.log(kind, out),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        for call in self.pending.take_all() {
            self.action(&call, out);
        }
        self.rest(out);
    }
}

impl Runner {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            logs: options.logs,
            messages: MessageAssembler::default(),
            pending: PendingCalls::default(),
            open: BTreeMap::new(),
            answer: None,
            final_said: false,
            failure_said: false,
        }
    }

    fn action(&mut self, call: &Call, out: &mut Vec<u8>) {
        self.open.insert(call.id.clone(), call.name.clone());
        record(&Record::Action { name: &call.name, detail: call.detail().as_deref() }, out);
    }

    /// Ends what a lane was saying.
    fn think(&mut self, parent: Option<&str>, out: &mut Vec<u8>) {
        if let Some(message) = self.messages.close(parent) {
            thought(&message, out);
        }
    }

    /// The text that a turn ends with is its answer, unless the model stopped for another reason than being done.
    fn end_turn(&mut self, stop_reason: Option<&str>, out: &mut Vec<u8>) {
        let Some(message) = self.messages.close(None) else { return };
        if message.thinking || stop_reason.is_some_and(is_not_done) {
            thought(&message, out);
        } else {
            self.respond(out);
            self.answer = Some(message.text);
        }
    }

    /// More follows, so the answer that was held is not the last one.
    fn respond(&mut self, out: &mut Vec<u8>) {
        if let Some(text) = self.answer.take() {
            record(&Record::Response { text: &text }, out);
        }
    }

    /// The final is known: what was held is it, or was narration.
    fn answer_or_thought(&mut self, answer: &str, out: &mut Vec<u8>) {
        let said = |text: &str| text.trim() == answer.trim();
        if let Some(text) = self.answer.take().filter(|text| !said(text)) {
            record(&Record::Thought { text: &text }, out);
        }
        let messages = self.messages.close_all();
        for message in messages.iter().filter(|message| message.thinking || message.parent.is_some() || !said(&message.text)) {
            thought(message, out);
        }
    }

    fn rest(&mut self, out: &mut Vec<u8>) {
        if let Some(text) = self.answer.take() {
            record(&Record::Thought { text: &text }, out);
        }
        self.messages.close_all().iter().for_each(|message| thought(message, out));
    }

    fn fail(&mut self, message: &str, class: Option<Cause>, fatal: bool, out: &mut Vec<u8>) {
        if !self.final_said {
            self.failure_said |= fatal;
            record(&Record::Error { error: Failure { message, class, fatal } }, out);
        } else if self.logs {
            record(&Record::Log { text: &format!("error: {message}") }, out);
        }
    }

    fn log(&self, kind: &EventKind<'_>, out: &mut Vec<u8>) {
        if self.logs
            && let Some(text) = log_line(kind)
        {
            record(&Record::Log { text: &text }, out);
        }
    }
}

/// Whether a stop reason, in any agent's word, says that there was more to come.
fn is_not_done(reason: &str) -> bool {
    const WORDS: &[&str] = &["tool", "error", "abort", "cancel", "interrupt", "max", "length", "refus"];
    let reason = reason.to_ascii_lowercase();
    WORDS.iter().any(|word| reason.contains(word))
}

fn thought(message: &Message, out: &mut Vec<u8>) {
    record(&Record::Thought { text: &message.text }, out);
}

fn failed_detail(status: ToolStatus, exit_code: Option<i32>, output: Option<&str>) -> String {
    let how = match (status, exit_code) {
        (ToolStatus::Error, Some(code)) => format!("failed with exit code {code}"),
        (ToolStatus::Error, None) => "failed".to_owned(),
        (status, _) => status.to_string(),
    };
    match output.and_then(one_line) {
        Some(line) => format!("{how}: {line}"),
        None => how,
    }
}

/// A line for whoever debugs.
fn log_line(kind: &EventKind<'_>) -> Option<String> {
    let listed = |parts: Vec<Option<String>>| parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(match kind {
        EventKind::Started(Started { agent, agent_version, .. }) => {
            format!("started {agent}{}", agent_version.as_deref().map(|version| format!(" {version}")).unwrap_or_default())
        }
        EventKind::Session(Session { session_id, model, cwd, .. }) => listed(vec![
            session_id.as_ref().map(|id| format!("session {id}")),
            model.as_ref().map(|model| format!("model {model}")),
            cwd.as_ref().map(|cwd| format!("in {cwd}")),
        ]),
        EventKind::TurnStart(TurnStart { turn, .. }) => format!("turn {turn}"),
        EventKind::TurnEnd(TurnEnd { turn, stop_reason, .. }) => {
            format!("turn {turn} ended{}", stop_reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())
        }
        EventKind::Usage(Usage {
            input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, scope, ..
        }) => {
            let count = |what, count: &Option<u64>| count.map(|count| format!("{what} {count}"));
            let figures = listed(vec![
                count("input", input_tokens),
                count("cache read", cache_read_tokens),
                count("cache write", cache_write_tokens),
                count("output", output_tokens),
                cost_usd.map(|cost| format!("${cost}")),
            ]);
            format!("usage of the {scope}: {figures}")
        }
        EventKind::Activity(Activity { message, .. }) => message.to_string(),
        EventKind::Retry(Retry { attempt, max_attempts, message, .. }) => {
            format!("attempt {attempt}{} failed: {message}", max_attempts.map(|most| format!(" of {most}")).unwrap_or_default())
        }
        EventKind::FileChange(FileChange { path, change, .. }) => format!("{change} {path}"),
        EventKind::Prompt(Prompt { text, .. }) => format!("prompt: {text}"),
        EventKind::Plan(Plan { items, .. }) => {
            let done = items.iter().filter(|item| item.status == PlanStatus::Completed).count();
            format!("plan: {done} of {} done", items.len())
        }
        EventKind::Permission(Permission { title, decision, .. }) => {
            format!("permission: {title}{}", decision.as_deref().map(|word| format!(" ({word})")).unwrap_or_default())
        }
        EventKind::SuggestedEdits(SuggestedEdits { edits, .. }) => format!("{} suggested edits", edits.len()),
        EventKind::Unrecognized(Unrecognized { r#type, .. }) => format!("unrecognized {}", r#type.as_deref().unwrap_or("line")),
        EventKind::Exited(Exited { outcome, exit_code, .. }) => {
            format!("exited: {outcome}{}", exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default())
        }
        _ => return None,
    })
}
