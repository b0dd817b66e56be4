//! The events of `--mode json` and `--mode rpc`.
//!
//! A message comes in updates, then whole in `message_end`, then again in `turn_end` and `agent_end`; only the first two
//! are read. Pi exits with 0 whatever happened: how the run ended is what the last message of the model says, once
//! `agent_end` (or, later, `agent_settled`) has come.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Held, Said, Verdict};
use sabir_core::event::{
    Activity, Cause, ErrorEvent, EventKind, Final, Outcome, Permission, PermissionOption, Retry, Session, TextDelta,
    ThinkingDelta, TurnEnd, TurnStart,
};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use super::tools::Tools;
use super::wire::{Block, Message, State, Update, Wire};

/// Reads both modes.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) session_id: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) model: Option<String>,
    /// What was said of the open message.
    open: OpenMessage,
    /// The tool calls that run.
    pub(super) tools: Tools,
    /// How the last message of the model ended.
    pub(super) last: Option<Ending>,
    /// Its text, where it may be the answer.
    pub(super) answer: Held,
    /// Whether the agent said that it is done.
    pub(super) settled: bool,
}

#[derive(Default)]
struct OpenMessage {
    id: Option<String>,
    /// By place in the content.
    blocks: BTreeMap<u32, Said>,
}

/// How a message of the model ended.
pub(super) struct Ending {
    pub(super) reason: String,
    refused: bool,
    /// The failure, until it is told: it may be tried again.
    pub(super) error: Option<String>,
    cause: Option<Cause>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match &*wire.r#type {
            "message_update" => match wire.assistant_message_event {
                Some(update) => self.update(update, facts),
                None => json::unrecognized(line, facts),
            },
            "message_start" | "message_end" => match wire.message.and_then(|message| json::parse::<Message<'_>>(message.get())) {
                Some(message) if &*message.role != "assistant" => {}
                Some(message) if &*wire.r#type == "message_start" => self.message_start(&message, facts),
                Some(message) => {
                    let blocks = message.content().unwrap_or_default();
                    self.message_end(message, blocks, facts);
                }
                None => json::unrecognized(line, facts),
            },
            "tool_execution_start" | "tool_execution_update" | "tool_execution_end" => self.tools.read(wire, line, facts),
            "session" => {
                // Its time is when the session was made, which for a resumed one is long ago.
                self.session_id = wire.id.map(|id| id.0.into_owned());
                self.cwd = wire.cwd.map(|cwd| cwd.0.into_owned());
                self.say_session(facts);
            }
            "turn_start" => facts.push(TurnStart::default()),
            "turn_end" => {
                let stop_reason = self.last.as_ref().map(|last| Cow::Owned(last.reason.clone()));
                facts.push(TurnEnd::default().stop_reason(stop_reason));
            }
            "agent_start" => {
                self.tell_error(false, facts);
                self.settled = false;
            }
            "agent_end" => self.settled = wire.will_retry != Some(true),
            "agent_settled" => {
                if wire.aborted == Some(true) {
                    self.last = Some(Ending { reason: "aborted".into(), refused: false, error: None, cause: None });
                }
                self.settled = true;
                self.tell_error(true, facts);
            }
            "auto_retry_start" | "summarization_retry_scheduled" => {
                self.settled = false;
                if let Some(last) = &mut self.last {
                    last.error = None;
                }
                facts.push(
                    Retry::new(
                        wire.attempt.unwrap_or(1),
                        wire.error_message.map_or(Cow::Borrowed("the request failed"), Cow::from),
                    )
                    .max_attempts(wire.max_attempts)
                    .delay_ms(wire.delay_ms),
                );
            }
            "auto_retry_end" => {
                if wire.success == Some(false) {
                    self.settled = true;
                    self.tell_error(true, facts);
                }
            }
            "response" => self.response(wire, facts),
            "extension_ui_request" => extension_request(wire, facts),
            "extension_error" => {
                let message = wire.error.map_or(Cow::Borrowed("an extension failed"), Cow::from);
                facts.push(ErrorEvent::new(message));
            }
            "compaction_start" | "auto_compaction_start" => {
                let why = wire.reason.map(|reason| format!(" ({})", &*reason)).unwrap_or_default();
                facts.push(Activity::new(format!("compacting the conversation{why}")));
            }
            "compaction_end" | "auto_compaction_end" => {
                if let Some(message) = wire.error_message {
                    let message = Cow::Owned(format!("compaction failed: {}", &*message));
                    facts.push(Activity::new(message));
                }
            }
            "entry_appended"
            | "queue_update"
            | "bash_execution_update"
            | "session_info_changed"
            | "thinking_level_changed"
            | "summarization_retry_attempt_start"
            | "summarization_retry_finished" => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.settled)
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.tell_error(self.settled, facts);
        let Some(last) = &self.last else { return Verdict::of(Outcome::Incomplete) };
        let outcome = match last.reason.as_str() {
            _ if last.refused => Outcome::Refused,
            "error" if self.settled => Outcome::Failed,
            "aborted" => Outcome::Cancelled,
            _ if !self.settled => Outcome::Incomplete,
            // A tool may end the run; then its call is the last that the model said.
            "stop" | "toolUse" => Outcome::Completed,
            "length" => Outcome::Limited,
            _ => Outcome::Incomplete,
        };
        if matches!(outcome, Outcome::Completed | Outcome::Limited) && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        Verdict { cause: last.cause, stop_reason: Some(last.reason.clone()), ..Verdict::of(outcome) }
    }
}

impl Stream {
    pub(super) fn say_session(&self, facts: &mut Facts<'_>) {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(Session::default().session_id(owned(&self.session_id)).model(owned(&self.model)).cwd(owned(&self.cwd)));
    }

    fn message_start(&mut self, message: &Message<'_>, facts: &mut Facts<'_>) {
        facts.at = message.timestamp.and_then(Timestamp::from_millis);
        self.begin(message, facts);
        facts.at = None;
    }

    /// Opens a message of the model.
    pub(super) fn begin(&mut self, message: &Message<'_>, facts: &mut Facts<'_>) {
        self.open = OpenMessage { id: message.response_id.clone().map(|id| id.0.into_owned()), ..OpenMessage::default() };
        self.answer.clear();
        if let Some(model) = &message.model
            && self.model.as_deref() != Some(&**model)
        {
            self.model = Some(model.to_string());
            self.say_session(facts);
        }
    }

    fn update<'a>(&mut self, update: Update<'a>, facts: &mut Facts<'a>) {
        let Update { r#type, content_index, delta, content } = update;
        let thinking = r#type.starts_with("thinking_");
        if !thinking && !r#type.starts_with("text_") {
            // Calls are told when they run, with their arguments whole.
            return;
        }
        match (delta, content) {
            (Some(delta), _) => {
                self.open.blocks.entry(content_index).or_default().push(&delta);
                self.open.say(thinking, delta.0, facts);
            }
            (None, Some(content)) => self.open.say_rest(content_index, thinking, content, facts),
            (None, None) => {}
        }
    }

    pub(super) fn message_end<'a>(
        &mut self,
        message: Message<'a>,
        blocks: Vec<Block<'a>>,
        facts: &mut Facts<'a>,
    ) -> Vec<Block<'a>> {
        let mut others = Vec::new();
        let reason = message.stop_reason.map_or_else(String::new, |reason| reason.0.into_owned());
        self.answer.clear();
        for (index, mut block) in (0..).zip(blocks) {
            match (&*block.r#type, block.text.take(), block.thinking.take()) {
                ("text", Some(text), _) => {
                    // Before a tool call it is a preamble, and of a failed attempt it is withdrawn.
                    if matches!(reason.as_str(), "stop" | "length") {
                        self.answer.push(&text);
                    }
                    self.open.say_rest(index, false, text, facts);
                }
                ("thinking", _, Some(thinking)) => self.open.say_rest(index, true, thinking, facts),
                _ => others.push(block),
            }
        }
        if let Some(usage) = message.usage.and_then(|usage| usage.event(message.model.map(Cow::from))) {
            facts.push(usage);
        }
        let error = message.error.map(|error| error.0.into_owned());
        let refused = message.raw_stop_reason.is_some_and(|raw| is_refusal(&raw));
        let cause = match &error {
            _ if refused => Some(Cause::Refusal),
            Some(error) if reason == "error" => Some(cause_of(error)),
            None if reason == "error" => Some(Cause::Unknown),
            _ => None,
        };
        let error = error.filter(|_| reason == "error");
        self.last = Some(Ending { reason, refused, error, cause });
        self.open = OpenMessage::default();
        others
    }

    /// Tells the failure of the last message, once it is known that it is not tried again.
    pub(super) fn tell_error(&mut self, fatal: bool, facts: &mut Facts<'_>) {
        let Some(last) = &mut self.last else { return };
        if let Some(message) = last.error.take() {
            facts.push(ErrorEvent::new(message).class(last.cause).fatal(fatal));
        }
    }

    fn response(&mut self, wire: Wire<'_>, facts: &mut Facts<'_>) {
        let command = wire.command.as_deref().unwrap_or("");
        if wire.success == Some(false) {
            let error = wire.error.map_or_else(|| format!("{command} failed"), |error| error.0.into_owned());
            let cause = cause_of(&error);
            if command == "prompt" {
                // The run never starts, so nothing else will say that it failed.
                self.last = Some(Ending { reason: "error".into(), refused: false, error: None, cause: Some(cause) });
                self.settled = true;
            }
            facts.push(ErrorEvent::new(error).class(cause).fatal(command == "prompt"));
        } else if command == "get_state"
            && let Some(state) = wire.data.and_then(|data| json::parse::<State<'_>>(data.get()))
        {
            self.session_id = state.session_id.map(|id| id.0.into_owned()).or(self.session_id.take());
            self.model = state.model.map(|model| model.id.0.into_owned()).or(self.model.take());
            self.say_session(facts);
        }
    }
}

impl OpenMessage {
    fn say<'a>(&self, thinking: bool, delta: Cow<'a, str>, facts: &mut Facts<'a>) {
        let message_id = self.id.clone().map(Cow::Owned);
        facts.push(if thinking {
            EventKind::Thinking(ThinkingDelta::new(delta).message_id(message_id))
        } else {
            EventKind::Text(TextDelta::new(delta).message_id(message_id))
        });
    }

    /// Says what a whole copy has beyond the pieces before it.
    fn say_rest<'a>(&mut self, index: u32, thinking: bool, whole: Str<'a>, facts: &mut Facts<'a>) {
        let said = self.blocks.entry(index).or_default();
        let rest = match whole.0 {
            Cow::Borrowed(whole) => Cow::Borrowed(said.rest(whole)),
            Cow::Owned(whole) => Cow::Owned(said.rest(&whole).to_owned()),
        };
        if !rest.is_empty() {
            self.say(thinking, rest, facts);
        }
    }
}

/// What an extension asks of the person, or tells.
fn extension_request<'a>(wire: Wire<'a>, facts: &mut Facts<'a>) {
    let message = wire.message.and_then(|message| json::parse::<Str<'a>>(message.get()));
    match wire.method.as_deref() {
        Some("select" | "confirm" | "input" | "editor") => {
            let option = |label: Str<'a>| PermissionOption { id: label.0.clone(), label: label.0 };
            facts.push(
                Permission::new(
                    wire.id.map_or(Cow::Borrowed(""), Cow::from),
                    wire.title.or(message).map_or(Cow::Borrowed("an extension asks"), Cow::from),
                )
                .options(wire.options.map(|options| options.into_iter().map(option).collect())),
            );
        }
        Some("notify") => {
            if let Some(message) = message {
                facts.push(Activity::new(message.0));
            }
        }
        _ => {}
    }
}

/// The class of a failure; providers' errors begin with their HTTP status.
fn cause_of(error: &str) -> Cause {
    // The HTTP client's word for a connection that broke while the answer came.
    if error == "terminated" {
        return Cause::Network;
    }
    let status = error.split(|c: char| !c.is_ascii_digit()).next().filter(|digits| digits.len() == 3);
    Cause::of_error(status.and_then(|status| status.parse().ok()), error)
}

pub(super) fn is_refusal(raw_stop_reason: &str) -> bool {
    matches!(raw_stop_reason, "refusal" | "content_filter" | "content-filter" | "safety" | "SAFETY" | "PROHIBITED_CONTENT")
}

#[cfg(test)]
mod tests {
    use super::{Cause, cause_of};

    #[test]
    fn failures_are_classed_by_the_status_they_begin_with() {
        assert_eq!(cause_of("401 {\"type\":\"error\"}"), Cause::Auth);
        assert_eq!(cause_of("529 {\"type\":\"error\"}"), Cause::Overloaded);
        assert_eq!(cause_of("terminated"), Cause::Network);
        assert_eq!(cause_of("An unknown error occurred"), Cause::Unknown);
    }
}
