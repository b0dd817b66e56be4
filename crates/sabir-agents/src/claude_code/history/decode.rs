//! Decodes the log to the events of its session.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, HeldTexts, RecentIds, Verdict};
use sabir_core::event::{Activity, Cause, EventKind, Final, Outcome, Prompt, Retry, Session, Text, Usage};
use sabir_core::history::Spent;
use sabir_core::json::{self, JsonDialect, Str, StringOr, Unread};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::response::LineIds;
use super::super::stream::ClaudeCode;
use super::super::tools::tool_results;
use super::super::wire::{ModelUsage, PermissionDecision};
use super::{INTERRUPTED, is_furniture};
use crate::family::anthropic::wire::{ApiMessage, Structured};
use crate::family::anthropic::{StreamJson, Variant};

/// Parses the log of a session, followed by the files of its sub-agents.
#[derive(Default)]
pub(super) struct LogDialect {
    /// Tracks messages and tool calls of all agents.
    stream: StreamJson<ClaudeCode>,
    has_session: bool,
    /// Tool call that started each sub-agent, by agent id.
    agents: BTreeMap<String, String>,
    /// Messages of the main agent. A file of a sub-agent may begin with a copy of one.
    messages: RecentIds,
    /// Text of the current message of the main agent.
    answer: HeldTexts,
    verdict: Option<Verdict>,
    /// Usage by model that was reported in events.
    reported: BTreeMap<String, Spent>,
    /// Usage of the session by model, as the agent sums it up.
    session_usage: BTreeMap<String, Spent>,
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct Entry<'a> {
    r#type: Str<'a>,
    subtype: Option<Str<'a>>,
    message: Option<StringOr<'a, Box<ApiMessage<'a>>>>,
    timestamp: Option<Str<'a>>,
    #[serde(default, alias = "request_id", deserialize_with = "json::lenient")]
    request_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    uuid: Option<Str<'a>>,
    session_id: Option<Str<'a>>,
    cwd: Option<Str<'a>>,
    version: Option<Str<'a>>,
    permission_mode: Option<Str<'a>>,
    agent_id: Option<Str<'a>>,
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_api_error_message: bool,
    #[serde(default, deserialize_with = "json::fitting")]
    tool_use_result: Option<Structured<'a>>,
    tool_denial_kind: Option<Unread<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    permission_decision: Option<PermissionDecision<'a>>,
    content: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "json::lenient")]
    attachment: Option<Attachment<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    error: Option<RequestError<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    retry_attempt: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    max_retries: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    retry_in_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    model_usage: Option<BTreeMap<Str<'a>, ModelUsage>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Attachment<'a> {
    r#type: Str<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct RequestError<'a> {
    status: Option<u16>,
    formatted: Option<Str<'a>>,
    message: Option<Str<'a>>,
}

impl JsonDialect for LogDialect {
    type Wire<'a> = Entry<'a>;

    fn message<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.timestamp.as_deref().and_then(Timestamp::parse);
        self.session(&entry, facts);
        if entry.is_sidechain {
            let agent = entry.agent_id.as_deref().unwrap_or("side");
            let call = self.agents.get(agent).cloned().unwrap_or_else(|| agent.to_owned());
            facts.parent = Some(Cow::Owned(call));
        }
        match &*entry.r#type {
            "assistant" => self.assistant(entry, line, facts),
            "user" => self.user(entry, facts),
            "system" => Self::system(entry, facts),
            "cost-state" => {
                for (model, usage) in entry.model_usage.into_iter().flatten() {
                    self.session_usage.insert(model.to_string(), super::note::spent_by(&usage));
                }
            }
            "attachment" => {
                let is_out_of_turns = entry.attachment.is_some_and(|attachment| &*attachment.r#type == "max_turns_reached");
                if is_out_of_turns && facts.parent.is_none() {
                    self.verdict = Some(Verdict { cause: Some(Cause::MaxTurns), ..Verdict::of(Outcome::Limited) });
                }
            }
            // State of the user interface, and copies of other lines and of requests to the model.
            "summary"
            | "progress"
            | "queue-operation"
            | "last-prompt"
            | "tools-used"
            | "mode"
            | "permission-mode"
            | "file-history-snapshot"
            | "file-history-delta"
            | "api-request"
            | "api-request-shape"
            | "api-request-blob"
            | "atis-latch"
            | "custom-title"
            | "ai-title"
            | "agent-name"
            | "agent-color"
            | "agent-setting"
            | "tag"
            | "pr-link"
            | "worktree-state"
            | "content-replacement"
            | "marble-origami-commit"
            | "marble-origami-snapshot" => {}
            _ => json::unrecognized(line, facts),
        }
        self.add_usage(facts);
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        ClaudeCode::flush_usage(&mut self.stream, facts);
        self.add_usage(facts);
        for (model, total) in &self.session_usage {
            // A response without visible content is only in the sum of the agent.
            let unlogged = total.beyond(self.reported.get(model).unwrap_or(&Spent::default()));
            if unlogged.total() > 0 {
                facts.push(unlogged.event(Some(Cow::Owned(model.clone()))));
            }
        }
        let verdict = self.verdict.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        let mut answer = self.answer.take();
        if verdict.outcome == Outcome::Completed && !answer.is_blank() {
            facts.push(Final::new(answer.take()));
        }
        verdict
    }
}

impl LogDialect {
    fn session<'a>(&mut self, entry: &Entry<'a>, facts: &mut Facts<'a>) {
        if self.has_session || entry.cwd.is_none() {
            return;
        }
        let model = match &entry.message {
            Some(StringOr::Other(message)) => message.model.clone(),
            _ => None,
        };
        // The model is known from the first response on.
        self.has_session = model.is_some();
        facts.push(
            Session::default()
                .session_id(entry.session_id.clone())
                .model(model)
                .cwd(entry.cwd.clone())
                .agent_version(entry.version.clone())
                .permission_mode(entry.permission_mode.clone()),
        );
    }

    fn assistant<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(StringOr::Other(message)) = entry.message else { return json::unrecognized(line, facts) };
        if entry.is_api_error_message {
            let text: String = texts_of(&message).map(Text::into_string).collect();
            let status = entry.error.and_then(|error| error.status);
            self.stream.error_message(&message, status, facts);
            if facts.parent.is_none() {
                self.verdict = Some(Verdict::failed(Some(Cause::of_error(status, &text))));
            }
            return;
        }
        let ids = LineIds { request_id: entry.request_id, uuid: entry.uuid };
        let id = ids.response_line(&message, facts.at).id(|| line.number);
        let is_known = self.messages.contains(id);
        // The file of a side question starts with a copy of a message of the main agent.
        if facts.parent.is_some() && is_known {
            return;
        }
        let is_new = self.stream.enter_response(&message, &ids, line.number, facts).is_new;
        if facts.parent.is_none() {
            self.messages.insert(id);
            self.main_message(is_new, &message);
        }
        let (usage, stop_reason) = (message.usage, message.stop_reason.as_deref().map(str::to_owned));
        self.stream.content(*message, line, facts);
        let state = self.stream.current(facts);
        state.response.is_counted |= is_new && is_known;
        if let Some(usage) = usage {
            state.log_usage(usage);
        }
        state.stop_reason = stop_reason.or(state.stop_reason.take());
    }

    /// Records the text and the stop reason of a message of the main agent.
    fn main_message(&mut self, is_new: bool, message: &ApiMessage<'_>) {
        if is_new {
            self.answer.clear();
        }
        texts_of(message).for_each(|text| self.answer.push(text));
        let stop_reason = message.stop_reason.as_deref();
        let verdict = match stop_reason {
            Some("end_turn" | "stop_sequence") => Verdict::of(Outcome::Completed),
            Some("refusal") => Verdict { cause: Some(Cause::Refusal), ..Verdict::of(Outcome::Refused) },
            _ => Verdict::of(Outcome::Incomplete),
        };
        self.verdict = Some(Verdict { stop_reason: stop_reason.map(str::to_owned), ..verdict });
    }

    fn user<'a>(&mut self, entry: Entry<'a>, facts: &mut Facts<'a>) {
        let Some(StringOr::Other(message)) = entry.message else { return };
        self.stream.record_sent(&message, facts);
        let blocks = match message.content {
            Some(StringOr::String(text)) => return self.prompt(text.into(), entry.is_meta, facts),
            Some(StringOr::Other(blocks)) => blocks,
            None => return,
        };
        if let Some(call) = blocks.iter().find_map(|block| block.tool_use_id.as_deref())
            && let Some(agent) = entry.tool_use_result.and_then(|result| json::parse::<Str<'_>>(result.agent_id?.0))
        {
            self.agents.insert(agent.to_string(), call.to_owned());
        }
        let is_denied =
            entry.tool_denial_kind.is_some() || entry.permission_decision.as_ref().is_some_and(PermissionDecision::is_rejection);
        let others = blocks.iter().filter(|block| block.tool_use_id.is_none());
        let text: String = others.filter_map(|block| block.text.as_deref()).collect();
        tool_results(blocks, entry.tool_use_result, |_| is_denied, facts);
        self.prompt(Cow::Owned(text), entry.is_meta, facts);
    }

    fn prompt<'a>(&mut self, text: Cow<'a, str>, meta: bool, facts: &mut Facts<'a>) {
        if facts.parent.is_some() || text.trim().is_empty() {
            return;
        }
        if text.trim_start().starts_with(INTERRUPTED) {
            self.verdict = Some(Verdict::of(Outcome::Cancelled));
        } else if !meta && !is_furniture(&text) {
            self.verdict = None;
            self.answer.clear();
            facts.push(Prompt::new(text));
        }
    }

    fn system<'a>(entry: Entry<'a>, facts: &mut Facts<'a>) {
        match entry.subtype.as_deref() {
            Some("api_error") => {
                let message = entry.error.and_then(|error| error.formatted.or(error.message)).map(Cow::from);
                facts.push(
                    Retry::new(entry.retry_attempt.unwrap_or(1), message.unwrap_or(Cow::Borrowed("the request failed")))
                        .max_attempts(entry.max_retries)
                        .delay_ms(entry.retry_in_ms),
                );
            }
            Some("compact_boundary") => facts.push(Activity::new("conversation compacted")),
            // Durations, hooks and hints; those of interest have a text.
            _ => {
                if let Some(text) = entry.content.and_then(|content| json::parse::<Str<'a>>(content.get())) {
                    facts.push(Activity::new(text));
                }
            }
        }
    }

    /// Adds up the usage of the pushed events.
    fn add_usage(&mut self, facts: &Facts<'_>) {
        for fact in facts.iter() {
            if let (EventKind::Usage(Usage { model: Some(model), .. }), Some(spent)) = (&fact.kind, Spent::of_event(&fact.kind)) {
                match self.reported.get_mut(&**model) {
                    Some(total) => total.add(&spent),
                    None => drop(self.reported.insert(model.to_string(), spent)),
                }
            }
        }
    }
}

/// Returns the text blocks of a message.
fn texts_of<'m>(message: &'m ApiMessage<'_>) -> impl Iterator<Item = Text<'m>> {
    let (alone, blocks) = match &message.content {
        Some(StringOr::String(text)) => (Some(Text::from(&**text)), &[][..]),
        Some(StringOr::Other(blocks)) => (None, blocks.as_slice()),
        None => (None, &[][..]),
    };
    let texts = blocks.iter().filter(|block| &*block.r#type == "text");
    alone.into_iter().chain(texts.filter_map(|block| block.text.clone()))
}
