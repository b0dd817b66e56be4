//! The log as the events of its session.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{
    Activity, Cause, ErrorEvent, Final, Outcome, Plan, PlanItem, Prompt, Session, Text, TextDelta, ThinkingDelta, ToolEnd,
    ToolKind, ToolStart, ToolStatus, TurnEnd, TurnStart, UsageScope,
};
use sabir_core::json::{self, JsonDialect, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use super::super::{ending, tools};
use super::note::outcome_of;
use super::{Block, Entry, Message, is_furniture};

/// Reads the log of a session, its settings after it.
#[derive(Default)]
pub(super) struct Log {
    session: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    /// Calls that are open: what they do, and the plan that they would make.
    open: BTreeMap<String, (ToolKind, Option<Vec<PlanItem<'static>>>)>,
    in_turn: bool,
    /// What the last message of the assistant says after its last call.
    answer: Held,
    failure: Option<(Outcome, Cause)>,
    verdict: Option<Verdict>,
}

impl JsonDialect for Log {
    type Wire<'a> = Entry<'a>;

    fn message<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.timestamp.as_deref().and_then(Timestamp::parse);
        match entry.r#type.as_deref() {
            Some("session_start") => {
                self.session = entry.id.map(|id| id.0.into_owned());
                self.cwd = entry.cwd.map(|cwd| cwd.0.into_owned());
                self.tell_session(facts);
            }
            Some("message") => match entry.message {
                Some(message) if &*message.role == "assistant" => self.assistant(message, entry.id.map(Cow::from), facts),
                Some(message) if &*message.role == "user" => self.user(message, facts),
                _ => json::unrecognized(line, facts),
            },
            Some("agent_turn_outcome") => {
                let reason = entry.reason.as_deref().unwrap_or_default();
                let (outcome, cause) = match (outcome_of(reason), self.failure.take()) {
                    (Outcome::Failed, Some((outcome, cause))) => (outcome, Some(cause)),
                    (Outcome::Failed, None) => (Outcome::Failed, Some(cause_of(reason))),
                    (outcome, _) => (outcome, None),
                };
                self.verdict = Some(Verdict { cause, ..Verdict::of(outcome) });
                self.end_turn(facts);
            }
            // What the model was told to forget, and lists that the user interface keeps.
            Some("compaction_state") => {
                facts.push(Activity::new("conversation compacted"));
            }
            Some("todo_state" | "session_end" | "session_title_updated") => {}
            None if entry.token_usage.is_some() || entry.model.is_some() => self.settings(&entry, facts),
            _ => json::unrecognized(line, facts),
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.end_turn(facts);
        let mut verdict = self.verdict.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        if let Some((outcome, cause)) = self.failure {
            verdict = Verdict { cause: Some(cause), ..Verdict::of(outcome) };
        }
        if verdict.outcome == Outcome::Completed && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        verdict
    }
}

impl Log {
    fn tell_session(&self, facts: &mut Facts<'_>) {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(Session::default().session_id(owned(&self.session)).model(owned(&self.model)).cwd(owned(&self.cwd)));
    }

    fn settings(&self, entry: &Entry<'_>, facts: &mut Facts<'_>) {
        let Some(spent) = entry.token_usage.map(super::TokenUsage::spent).filter(|spent| spent.total() > 0) else { return };
        let model = entry.model.as_deref().map(str::to_owned).or_else(|| self.model.clone());
        facts.push(spent.event(model.map(Cow::Owned)).scope(UsageScope::Run));
    }

    fn user<'a>(&mut self, message: Message<'a>, facts: &mut Facts<'a>) {
        let blocks = match message.content {
            Some(StringOr::String(text)) => return self.told(text.into(), message.visibility.as_deref(), facts),
            Some(StringOr::Other(blocks)) => blocks,
            None => return,
        };
        let mut texts = Vec::new();
        for block in blocks {
            match &*block.r#type {
                "tool_result" => self.tool_end(block, facts),
                _ => texts.extend(block.text.and_then(Text::from_json).map(Text::into_string).filter(|text| !is_furniture(text))),
            }
        }
        self.told(Cow::Owned(texts.join("\n")), message.visibility.as_deref(), facts);
    }

    /// What is said in the user's name.
    fn told<'a>(&mut self, text: Cow<'a, str>, visibility: Option<&str>, facts: &mut Facts<'a>) {
        match visibility {
            _ if is_furniture(&text) => {}
            Some("llm_only") => {}
            // What went wrong, for people.
            Some("user_only") => {
                let (message, ending) = failure(&text);
                self.failure = Some(ending);
                facts.push(ErrorEvent::new(message.to_owned()).class(ending.1).fatal(true));
            }
            _ => {
                self.end_turn(facts);
                self.verdict = None;
                self.failure = None;
                self.answer.clear();
                facts.push(Prompt::new(text));
            }
        }
    }

    fn assistant<'a>(&mut self, message: Message<'a>, id: Option<Cow<'a, str>>, facts: &mut Facts<'a>) {
        self.end_turn(facts);
        if message.model_id.is_some() && self.model.as_deref() != message.model_id.as_deref() {
            self.model = message.model_id.map(|model| model.0.into_owned());
            self.tell_session(facts);
        }
        facts.push(TurnStart::default());
        self.in_turn = true;
        self.verdict = None;
        self.failure = None;
        self.answer.clear();
        if let Some(thought) = message.chat_completion_reasoning_content.filter(|thought| !thought.is_empty()) {
            facts.push(ThinkingDelta::new(thought.0).message_id(id.clone()));
        }
        let blocks = match message.content {
            Some(StringOr::String(text)) => {
                self.answer.set(&text);
                facts.push(TextDelta::new(text.0).message_id(id));
                return;
            }
            Some(StringOr::Other(blocks)) => blocks,
            None => return,
        };
        for block in blocks {
            match (&*block.r#type, block.text.and_then(Text::from_json), block.thinking.and_then(Text::from_json)) {
                ("text", Some(delta), _) => {
                    self.answer.push(&delta);
                    facts.push(TextDelta::new(delta).message_id(id.clone()));
                }
                ("thinking", _, Some(delta)) => facts.push(ThinkingDelta::new(delta).message_id(id.clone())),
                ("tool_use", ..) => {
                    self.answer.clear();
                    self.tool_start(block, facts);
                }
                _ => {}
            }
        }
    }

    fn tool_start<'a>(&mut self, block: Block<'a>, facts: &mut Facts<'a>) {
        let id: Cow<'a, str> = block.id.map(Cow::from).unwrap_or_default();
        let name: Cow<'a, str> = block.name.map(Cow::from).unwrap_or_default();
        let tool_kind = ToolKind::of_name(&name);
        let input = block.input.map(serde_json::value::RawValue::get);
        let plan = input.filter(|_| tool_kind == ToolKind::Plan).and_then(tools::plan).filter(|items| !items.is_empty());
        self.open.insert(id.clone().into_owned(), (tool_kind, plan));
        facts.push(ToolStart::of_kind(tool_kind, id, name).input(input));
    }

    fn tool_end<'a>(&mut self, block: Block<'a>, facts: &mut Facts<'a>) {
        let id: Cow<'a, str> = block.tool_use_id.map(Cow::from).unwrap_or_default();
        let (tool_kind, plan) = self.open.remove(&*id).unwrap_or((ToolKind::Other, None));
        let output = block.content.map(|content| Text::from_json(content).unwrap_or_else(|| joined(content)));
        let shown = output.as_deref().unwrap_or_default();
        let exit_code = (tool_kind == ToolKind::Execute).then(|| tools::exit_code(shown)).flatten();
        let status = tools::status(block.is_error == Some(true), exit_code, shown);
        if status == ToolStatus::Ok {
            if let Some(change) = Some(shown).filter(|_| tool_kind == ToolKind::Edit).and_then(|it| tools::file_change(it, &id)) {
                facts.push(change);
            }
            if let Some(items) = plan {
                facts.push(Plan::new(items));
            }
        }
        facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
    }

    fn end_turn(&mut self, facts: &mut Facts<'_>) {
        if std::mem::take(&mut self.in_turn) {
            facts.push(TurnEnd::default());
        }
    }
}

/// The texts of a result in blocks.
fn joined(content: &serde_json::value::RawValue) -> Text<'_> {
    let Some(blocks) = json::parse::<Vec<Block<'_>>>(content.get()) else { return Text::from(content.get()) };
    let texts: Vec<String> = blocks.iter().filter_map(|block| Text::from_json(block.text?)).map(Text::into_string).collect();
    Text::from(texts.join("\n"))
}

/// The class of a failure that only the outcome tells.
fn cause_of(reason: &str) -> Cause {
    match reason {
        "model_provider_unreachable" => Cause::Network,
        "model_request_rejected" => Cause::InvalidRequest,
        _ => Cause::Unknown,
    }
}

/// What a text for people says of an error: the error, and how it ends a turn.
pub(super) fn failure(text: &str) -> (&str, (Outcome, Cause)) {
    let message = text.strip_prefix("BYOK Error: ").unwrap_or(text).lines().next().unwrap_or_default();
    let is_refusal = message.contains("safety checks");
    (message, if is_refusal { (Outcome::Refused, Cause::Refusal) } else { ending::of_message(message) })
}
