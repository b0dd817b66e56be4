//! The messages themselves.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::event::{
    Activity, Plan, PlanItem, PlanStatus, Session, TextDelta, ThinkingDelta, TurnEnd, TurnStart, UsageScope,
};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Ending, Legacy};
use crate::codex::counter::Figures;

/// All fields of all types of messages.
#[derive(Deserialize)]
pub(super) struct Msg<'a> {
    #[serde(borrow)]
    r#type: Option<Str<'a>>,
    // agent_message, background_event, stream_error, error, warning
    #[serde(borrow)]
    message: Option<Str<'a>>,
    // agent_reasoning
    #[serde(borrow)]
    text: Option<Str<'a>>,
    // agent_message_delta, agent_reasoning_delta
    #[serde(borrow)]
    delta: Option<Str<'a>>,
    // session_configured
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    session_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    model: Option<Str<'a>>,
    // task_complete
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    last_agent_message: Option<Str<'a>>,
    // token_count: flat figures of one response, or totals in `info`
    input_tokens: Option<u64>,
    cached_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    reasoning_output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    info: Option<Info>,
    // plan_update
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    plan: Option<Vec<Step<'a>>>,
    // deprecation_notice
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    summary: Option<Str<'a>>,
    // tools
    #[serde(borrow)]
    pub(super) call_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) command: Option<Vec<Str<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) cwd: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) stream: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) chunk: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stdout: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) stderr: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) aggregated_output: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) exit_code: Option<i32>,
    #[serde(default, deserialize_with = "json::lenient")]
    pub(super) duration: Option<Elapsed>,
    #[serde(borrow)]
    pub(super) changes: Option<&'a RawValue>,
    pub(super) success: Option<bool>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) invocation: Option<Invocation<'a>>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) query: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) path: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    pub(super) reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Info {
    total_token_usage: Option<Figures>,
    last_token_usage: Option<Figures>,
}

#[derive(Deserialize)]
struct Step<'a> {
    #[serde(borrow)]
    step: Str<'a>,
    #[serde(borrow)]
    status: Option<Str<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Elapsed {
    secs: u64,
    nanos: u32,
}

impl Elapsed {
    pub(super) fn millis(&self) -> u64 {
        self.secs.saturating_mul(1_000).saturating_add(u64::from(self.nanos / 1_000_000))
    }
}

#[derive(Deserialize)]
pub(super) struct Invocation<'a> {
    #[serde(borrow)]
    pub(super) server: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Legacy {
    pub(super) fn msg<'a>(&mut self, mut msg: Msg<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(r#type) = msg.r#type.take() else { return json::unrecognized(line, facts) };
        match r#type.as_ref() {
            "session_configured" => facts.push(Session::default().session_id(msg.session_id).model(msg.model).cwd(msg.cwd)),
            "task_started" => {
                self.ending = Ending::None;
                self.answer.clear();
                self.trouble.clear();
                facts.push(TurnStart::default());
            }
            "task_complete" => {
                self.ending = Ending::Completed;
                if let Some(text) = msg.last_agent_message {
                    self.answer.message(text.into());
                }
                facts.push(TurnEnd::default());
            }
            "turn_aborted" => {
                self.ending = Ending::Aborted;
                facts.push(TurnEnd::default().stop_reason(msg.reason));
            }
            "agent_message_delta" => {
                let delta = msg.delta.map(Cow::from).unwrap_or_default();
                if self.said.as_str().is_empty() {
                    self.next_message();
                }
                self.said.push(&delta);
                facts.push(TextDelta::new(delta).message_id(self.message_id()));
            }
            "agent_message" => self.agent_message(msg.message.map(Cow::from).unwrap_or_default(), facts),
            "agent_reasoning_delta" | "agent_reasoning_raw_content_delta" => {
                let delta = msg.delta.map(Cow::from).unwrap_or_default();
                if self.thought.as_str().is_empty() {
                    self.next_message();
                }
                self.thought.push(&delta);
                facts.push(ThinkingDelta::new(delta).message_id(self.message_id()));
            }
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                // The copy of what came in pieces is not said again.
                if self.thought.take().is_empty() {
                    self.next_message();
                    let delta = msg.text.map(Cow::from).unwrap_or_default();
                    facts.push(ThinkingDelta::new(delta).message_id(self.message_id()));
                }
            }
            "token_count" => self.token_count(&msg, facts),
            "plan_update" => {
                self.tool_ran();
                let items = msg.plan.unwrap_or_default().into_iter().map(step).collect();
                facts.push(Plan::new(items));
            }
            "stream_error" | "error" | "background_event" => {
                let message = msg.message.map(Cow::from).unwrap_or_default();
                if let Some(retry) = self.trouble.retry(&message) {
                    facts.push(retry);
                } else if &*r#type != "error" {
                    facts.push(Activity::new(message));
                } else if let Some(error) = self.trouble.fatal(message) {
                    facts.push(error);
                }
            }
            "warning" | "deprecation_notice" => {
                let message = msg.message.or(msg.summary).map(Cow::from).unwrap_or_default();
                facts.push(Activity::new(message));
            }
            // `turn_diff` is the diff of the whole turn, repeated after every response; the patches have said it.
            "turn_diff"
            | "agent_reasoning_section_break"
            | "user_message"
            | "shutdown_complete"
            | "entered_review_mode"
            | "exited_review_mode"
            | "mcp_list_tools_response"
            | "list_custom_prompts_response"
            | "get_history_entry_response"
            | "conversation_history"
            | "conversation_path" => {}
            tool => {
                if !self.tool(tool, msg, facts) {
                    facts.unrecognized(Some(Cow::Owned(tool.to_owned())), line);
                }
            }
        }
    }

    fn agent_message<'a>(&mut self, message: Cow<'a, str>, facts: &mut Facts<'a>) {
        self.ending = Ending::None;
        let said = self.said.take();
        let message = self.answer.message(message);
        if said.is_empty() {
            self.next_message();
        }
        let delta = match message.strip_prefix(said.as_str()) {
            Some(_) if said.is_empty() => message,
            Some(rest) => Cow::Owned(rest.to_owned()),
            // The copy says it in other words than the pieces did; it was said.
            None => return,
        };
        facts.push(TextDelta::new(delta).message_id(self.message_id()));
    }

    fn token_count(&mut self, msg: &Msg<'_>, facts: &mut Facts<'_>) {
        if self.answer.stands() && self.ending == Ending::None {
            self.ending = Ending::Answered;
        }
        let added = match &msg.info {
            Some(Info { total_token_usage: Some(total), last_token_usage }) => {
                self.counter.add_response(*total, *last_token_usage)
            }
            Some(Info { total_token_usage: None, last_token_usage }) => *last_token_usage,
            // Up to 0.28 the figures are those of one response.
            None => msg.input_tokens.map(|input| Figures {
                input: Some(input),
                cached: msg.cached_input_tokens,
                cache_write: None,
                output: msg.output_tokens,
                reasoning: msg.reasoning_output_tokens,
            }),
        };
        if let Some(figures) = added {
            facts.push(figures.usage(UsageScope::Message));
        }
    }

    /// A tool ran, so the message before it was not the last word.
    pub(super) fn tool_ran(&mut self) {
        self.ending = Ending::None;
        self.answer.overtake();
    }

    fn next_message(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    fn message_id(&self) -> Cow<'static, str> {
        Cow::Owned(format!("message_{}", self.messages))
    }
}

fn step(step: Step<'_>) -> PlanItem<'_> {
    let status = match step.status.as_deref() {
        Some("completed") => PlanStatus::Completed,
        Some("in_progress") => PlanStatus::InProgress,
        _ => PlanStatus::Pending,
    };
    PlanItem { text: step.step.into(), status }
}
