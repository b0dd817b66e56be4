//! The log as the events of its session.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use sabir_core::dialect::{End, Fact, Facts, Held, RecentIds, Said, Verdict};
use sabir_core::diff;
use sabir_core::event::{
    Activity, Cause, Change, ErrorEvent, FileChange, Final, Outcome, Plan, Prompt, Session, Text, TextDelta, ThinkingDelta,
    ToolEnd, ToolKind, ToolStart, ToolStatus, TurnEnd, TurnStart,
};
use sabir_core::history::{Spent, id_of};
use sabir_core::json::{self, JsonDialect, Str, TextOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::stream::{plan, shell_ending};
use super::{Entry, folder_in, is_furniture, text_of};

/// How many of the last messages may still grow.
const OPEN: usize = 16;

/// Reads the log of a session, its sub-agents' files after its own.
#[derive(Default)]
pub(super) struct Log {
    session: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    /// The call that started the sub-agent whose file is read.
    parent: Option<String>,
    /// The call that started each sub-agent.
    agents: BTreeMap<String, String>,
    /// The messages that came.
    messages: RecentIds,
    /// The last messages of models.
    open: VecDeque<Message>,
    in_turn: bool,
    /// What the main agent says since its last tool call.
    answer: Held,
    verdict: Option<Verdict>,
}

/// What was told of a message that may be written again.
#[derive(Default)]
struct Message {
    id: u64,
    at: Option<Timestamp>,
    parent: Option<String>,
    said: Said,
    thoughts: usize,
    /// Calls, and whether their end was told.
    calls: Vec<(String, bool)>,
    model: Option<String>,
    /// Told when the next message comes, since it may come later than the message.
    spent: Option<Spent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    result: Option<Vec<Answer<'a>>>,
    #[serde(borrow, default)]
    status: Option<Str<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    result_display: Option<TextOr<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<Str<'a>>,
}

/// What the model is given for a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow, default)]
    function_response: Option<FunctionResponse<'a>>,
}

#[derive(Deserialize)]
struct FunctionResponse<'a> {
    #[serde(borrow, default)]
    response: Option<Given<'a>>,
}

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    output: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Text<'a>>,
}

/// What people are shown for a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Display<'a> {
    #[serde(borrow, default)]
    file_diff: Option<Str<'a>>,
    #[serde(borrow, default)]
    file_path: Option<Str<'a>>,
    #[serde(borrow, default)]
    file_name: Option<Str<'a>>,
    #[serde(default)]
    is_new_file: bool,
}

#[derive(Deserialize)]
pub(super) struct Thought<'a> {
    #[serde(borrow, default)]
    subject: Option<Str<'a>>,
    #[serde(borrow, default)]
    description: Option<Str<'a>>,
}

impl JsonDialect for Log {
    type Wire<'a> = Entry<'a>;

    fn message<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        if entry.session_id.is_some() && entry.r#type.is_none() {
            self.head(&entry, facts);
            entry.messages.into_iter().flatten().for_each(|message| self.spoken(message, line, facts));
        } else if let Some(set) = entry.set {
            // Of a conversation that is told again, only what was never told is news.
            for message in set.messages.into_iter().flatten() {
                let known = message.id.as_deref().is_some_and(|id| self.messages.contains(id_of(id)));
                if !known {
                    self.spoken(message, line, facts);
                }
            }
        } else if entry.rewind_to.is_some() {
            facts.push(Activity::new("conversation cut back"));
            self.verdict = None;
        } else {
            self.spoken(entry, line, facts);
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.tell_usage(facts);
        self.end_turn(facts);
        let verdict = self.verdict.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        if verdict.outcome == Outcome::Completed && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        verdict
    }
}

impl Log {
    fn head<'a>(&mut self, entry: &Entry<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.start_time.as_deref().and_then(Timestamp::parse);
        let id = entry.session_id.as_deref().unwrap_or_default();
        if entry.kind.as_deref() == Some("subagent") && self.session.as_deref().is_some_and(|session| session != id) {
            self.end_turn(facts);
            self.parent = Some(self.agents.get(id).cloned().unwrap_or_else(|| id.to_owned()));
            return;
        }
        self.parent = None;
        // A session that goes on has another head.
        if self.session.as_deref() != Some(id) {
            self.session = Some(id.to_owned());
            self.cwd = entry.directories.as_ref().and_then(|folders| folders.first()).map(|folder| folder.to_string());
            self.tell_session(facts);
        }
    }

    fn tell_session(&self, facts: &mut Facts<'_>) {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(Session::default().session_id(owned(&self.session)).model(owned(&self.model)).cwd(owned(&self.cwd)));
    }

    fn spoken<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.timestamp.as_deref().and_then(Timestamp::parse);
        facts.parent = self.parent.clone().map(Cow::Owned);
        let (Some(id), Some(r#type)) = (entry.id.as_deref().map(id_of), entry.r#type.as_deref()) else {
            return json::unrecognized(line, facts);
        };
        let new = self.messages.insert(id);
        match r#type {
            "gemini" => self.gemini(id, new, entry, facts),
            _ if !new => {}
            "user" => self.user(&text_of(entry.content), facts),
            "error" => {
                let message = text_of(entry.content);
                let cause = Cause::of_error(None, &message);
                if self.parent.is_none() {
                    self.verdict = Some(Verdict::failed(Some(cause)));
                }
                let class = Some(cause).filter(|cause| *cause != Cause::Unknown);
                facts.push(ErrorEvent::new(message).class(class));
            }
            "info" | "warning" => facts.push(Activity::new(text_of(entry.content))),
            _ => json::unrecognized(line, facts),
        }
    }

    fn user(&mut self, text: &str, facts: &mut Facts<'_>) {
        if self.parent.is_some() {
            return;
        }
        if self.cwd.is_none()
            && let Some(folder) = folder_in(text)
        {
            self.cwd = Some(folder.to_owned());
            self.tell_session(facts);
        }
        if !is_furniture(text) {
            self.tell_usage(facts);
            self.end_turn(facts);
            self.verdict = None;
            self.answer.clear();
            facts.push(Prompt::new(text.to_owned()));
        }
    }

    fn gemini<'a>(&mut self, id: u64, new: bool, entry: Entry<'a>, facts: &mut Facts<'a>) {
        if new {
            self.begin(id, &entry, facts);
        }
        let text = text_of(entry.content);
        let Some(at) = self.open.iter().rposition(|message| message.id == id) else { return };
        let message = &mut self.open[at];
        let main = message.parent.is_none();
        facts.parent = message.parent.clone().map(Cow::Owned);
        message.model = entry.model.map(|model| model.0.into_owned()).or(message.model.take());
        message.spent = entry.tokens.map(super::Tokens::spent).or(message.spent);
        let thoughts = entry.thoughts.unwrap_or_default();
        for thought in thoughts.iter().skip(message.thoughts) {
            let parts = [&thought.subject, &thought.description].into_iter().flatten().map(|part| &**part);
            let delta = parts.collect::<Vec<_>>().join("\n") + "\n";
            facts.push(ThinkingDelta::new(delta));
        }
        message.thoughts = message.thoughts.max(thoughts.len());
        let news = message.said.rest(&text).to_owned();
        if !news.is_empty() {
            if main {
                self.answer.push(&news);
            }
            facts.push(TextDelta::new(news));
        }
        let calls = entry.tool_calls.unwrap_or_default();
        if main {
            if !calls.is_empty() {
                self.answer.clear();
            }
            let outcome = if calls.is_empty() { Outcome::Completed } else { Outcome::Incomplete };
            self.verdict = Some(Verdict::of(outcome));
        }
        for call in calls {
            if let Some(agent) = &call.agent_id {
                self.agents.insert(agent.to_string(), call.id.to_string());
            }
            told(&mut message.calls, call, facts);
        }
    }

    /// A new message of a model.
    fn begin(&mut self, id: u64, entry: &Entry<'_>, facts: &mut Facts<'_>) {
        self.tell_usage(facts);
        self.end_turn(facts);
        let model = entry.model.as_deref();
        if self.parent.is_none() {
            if model.is_some() && self.model.as_deref() != model {
                self.model = model.map(str::to_owned);
                self.tell_session(facts);
            }
            self.in_turn = true;
            facts.push(TurnStart::default());
        }
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Message { id, at: facts.at, parent: self.parent.clone(), ..Message::default() });
    }

    fn tell_usage(&mut self, facts: &mut Facts<'_>) {
        for message in &mut self.open {
            if let Some(spent) = message.spent.take() {
                let kind = spent.event(message.model.clone().map(Cow::Owned)).into();
                let parent = message.parent.clone().map(Cow::Owned);
                facts.push_fact(Fact { at: message.at, parent, kind });
            }
        }
    }

    fn end_turn(&mut self, facts: &mut Facts<'_>) {
        if std::mem::take(&mut self.in_turn) {
            let parent = facts.parent.take();
            facts.push(TurnEnd::default());
            facts.parent = parent;
        }
    }
}

/// Tells what is new of a call.
fn told<'a>(calls: &mut Vec<(String, bool)>, call: Call<'a>, facts: &mut Facts<'a>) {
    let tool_kind = ToolKind::of_name(&call.name);
    let place = calls.iter().position(|(id, _)| *id == *call.id).unwrap_or_else(|| {
        calls.push((call.id.to_string(), false));
        facts.push(ToolStart::of_kind(tool_kind, call.id.0.clone(), call.name.0.clone()).input(call.args.map(RawValue::get)));
        if let Some(items) = call.args.filter(|_| tool_kind == ToolKind::Plan).and_then(plan) {
            facts.push(Plan::new(items));
        }
        calls.len() - 1
    });
    let over = matches!(call.status.as_deref(), Some("success" | "error" | "cancelled"));
    if over && !std::mem::replace(&mut calls[place].1, true) {
        let at = call.timestamp.as_deref().and_then(Timestamp::parse);
        let before = facts.at;
        facts.at = at.or(before);
        tool_end(call, tool_kind, facts);
        facts.at = before;
    }
}

fn tool_end<'a>(call: Call<'a>, kind: ToolKind, facts: &mut Facts<'a>) {
    let mut given = call.result.into_iter().flatten().filter_map(|answer| answer.function_response?.response);
    let given = given.next();
    let problem = given.as_ref().and_then(|given| given.error.as_deref()).unwrap_or_default();
    // What the model is told of a command has its exit code; what people are shown mostly has not.
    let (exit_code, killed) = if kind == ToolKind::Execute {
        given.as_ref().and_then(|given| given.output.as_ref()).map_or((None, false), shell_ending)
    } else {
        (None, false)
    };
    let refused = problem.contains("denied by policy")
        // A tool of its own that this approval mode does not offer; of other names nothing is known.
        || kind != ToolKind::Other && problem.starts_with("Tool \"") && problem.contains("\" not found");
    let status = match call.status.as_deref() {
        Some("cancelled") => ToolStatus::Cancelled,
        Some("success") if exit_code.is_none_or(|code| code == 0) && !killed => ToolStatus::Ok,
        Some("error") if refused => ToolStatus::Denied,
        _ => ToolStatus::Error,
    };
    let shown = match call.result_display {
        Some(TextOr::Text(text)) => Some(text),
        Some(TextOr::Other(display)) => {
            if let Some(display) = json::parse(display.0).filter(|_| status == ToolStatus::Ok) {
                file_change(display, &call.id, facts);
            }
            None
        }
        None => None,
    };
    let output = shown.or_else(|| given.and_then(|given| given.output.or(given.error)));
    facts.push(ToolEnd::new(call.id.0, status).output(output).exit_code(exit_code));
}

fn file_change<'a>(display: Display<'a>, call: &Str<'a>, facts: &mut Facts<'a>) {
    let (Some(patch), Some(path)) = (display.file_diff, display.file_path.or(display.file_name)) else { return };
    let (added, removed) = diff::count(&patch);
    facts.push(
        FileChange::new(path, if display.is_new_file { Change::Create } else { Change::Update })
            .diff(patch.0)
            .added(added)
            .removed(removed)
            .tool_call_id(call.0.clone()),
    );
}
