//! Decodes the rows to the events of their session.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{self, Activity, Prompt, Session, TextDelta, ThinkingDelta, ToolStatus, TurnEnd, TurnStart};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;

use super::{Message, Row};
use crate::family::opencode::outcome::{self, OutcomeTracker};
use crate::family::opencode::tool::ToolCall;
use crate::family::opencode::wire::{Failure, FailureData, Part, Span, Tokens};

/// Parses the rows of a session, followed by those of its sub-agents.
#[derive(Default)]
pub(super) struct Rows {
    main: Option<SessionRow>,
    /// Tool call that started each sub-agent, by session id.
    agents: BTreeMap<String, String>,
    message: OpenMessage,
    outcome: OutcomeTracker,
}

#[derive(Default)]
struct SessionRow {
    id: String,
    cwd: Option<String>,
    version: Option<String>,
    model: Option<String>,
}

/// The message whose parts are being read.
#[derive(Default)]
struct OpenMessage {
    id: String,
    /// Tool call that started its sub-agent; `None` for the main session.
    parent: Option<String>,
    is_user: bool,
    /// Whether it is a summary of the conversation for the model.
    is_summary: bool,
    model: Option<String>,
    /// Usage and cost of the message, until a step reports its own.
    usage: Option<(Tokens, Option<f64>)>,
    failure: Option<Failure<'static>>,
    at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Text {
    /// Whether the CLI wrote it instead of the user.
    #[serde(default)]
    synthetic: bool,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Retry<'a> {
    attempt: Option<u32>,
    #[serde(default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
}

impl JsonDialect for Rows {
    type Wire<'a> = Row<'a>;

    fn message<'a>(&mut self, row: Row<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = row.created.and_then(Timestamp::from_millis);
        let read = match (&*row.table, row.data) {
            ("session", _) => {
                self.session(&row, facts);
                Some(())
            }
            ("message", Some(data)) => json::parse(data.0).map(|message| self.begin(&row, message, facts)),
            ("part", Some(data)) => self.part(&row, data.0, facts),
            _ => None,
        };
        if read.is_none() {
            json::unrecognized(line, facts);
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.finish(facts);
        facts.parent = None;
        self.outcome.verdict(true, facts)
    }
}

impl Rows {
    fn session(&mut self, row: &Row<'_>, facts: &mut Facts<'_>) {
        self.finish(facts);
        if self.main.is_none() {
            let owned = |text: &Option<Str<'_>>| text.as_deref().map(str::to_owned);
            let (cwd, version) = (owned(&row.directory), owned(&row.version));
            self.main = Some(SessionRow { id: row.id.to_string(), cwd, version, model: None });
            self.push_session(facts);
        }
    }

    fn push_session(&self, facts: &mut Facts<'_>) {
        let Some(main) = &self.main else { return };
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(
            Session::default()
                .session_id(main.id.clone())
                .model(owned(&main.model))
                .cwd(owned(&main.cwd))
                .agent_version(owned(&main.version)),
        );
    }

    /// Returns the tool call that started the sub-agent of a session; `None` for the main session.
    fn parent(&self, session: Option<&str>) -> Option<String> {
        let session = session?;
        match &self.main {
            Some(main) if main.id != session => Some(self.agents.get(session).cloned().unwrap_or_else(|| session.to_owned())),
            _ => None,
        }
    }

    fn begin(&mut self, row: &Row<'_>, message: Message<'_>, facts: &mut Facts<'_>) {
        self.finish(facts);
        let is_user = &*message.role == "user";
        let model = message.model_id.map(|model| model.to_string());
        let at = message.time.and_then(|time| time.completed.or(time.created)).and_then(Timestamp::from_millis);
        let parent = self.parent(row.session.as_deref());
        if let (None, Some(main)) = (&parent, &mut self.main)
            && model.is_some()
            && main.model != model
        {
            main.model.clone_from(&model);
            self.push_session(facts);
        }
        self.message = OpenMessage {
            id: row.id.to_string(),
            parent,
            is_user,
            is_summary: message.summary == Some(true),
            model,
            usage: message.tokens.map(|tokens| (tokens, message.cost)),
            failure: message.error.map(owned),
            at,
        };
    }

    /// Finishes the open message: pushes its usage and its error.
    fn finish(&mut self, facts: &mut Facts<'_>) {
        let message = std::mem::take(&mut self.message);
        let at = facts.at;
        facts.at = message.at.or(at);
        facts.parent = message.parent.clone().map(Cow::Owned);
        if let Some((tokens, cost)) = message.usage {
            let usage = tokens.event(cost, message.model.map(Cow::Owned));
            usage.into_iter().for_each(|usage| facts.push(usage));
        }
        match message.failure {
            Some(failure) if message.parent.is_none() => self.outcome.fail(failure, facts),
            Some(failure) => {
                let (_, cause) = outcome::classify_error(&failure);
                facts.push(outcome::error(failure, cause, false));
            }
            None => {}
        }
        facts.parent = None;
        facts.at = at;
    }

    fn part<'a>(&mut self, row: &Row<'a>, data: &'a str, facts: &mut Facts<'a>) -> Option<()> {
        let part: Part<'a> = json::parse(data)?;
        if row.message.as_deref() != Some(&*self.message.id) {
            return None;
        }
        let message_id = Some(Cow::Owned(self.message.id.clone()));
        let main = self.message.parent.is_none();
        facts.parent = self.message.parent.clone().map(Cow::Owned);
        match &*part.r#type {
            "text" if self.message.is_user => {
                let typed = !json::parse::<Text>(data).is_some_and(|text| text.synthetic);
                if main && typed {
                    self.outcome.step_start();
                    facts.push(Prompt::new(part.text?));
                }
            }
            _ if self.message.is_user => {}
            "step-start" => {
                if main {
                    self.outcome.step_start();
                    facts.push(TurnStart::default());
                }
            }
            "text" if self.message.is_summary => {}
            "text" => {
                let text = part.text?;
                if main {
                    self.outcome.text(&text);
                }
                facts.at = part.time.and_then(Span::end).or(facts.at);
                facts.push(TextDelta::new(text.0).message_id(message_id));
            }
            "reasoning" => {
                facts.at = part.time.and_then(Span::end).or(facts.at);
                facts.push(ThinkingDelta::new(part.text?.0).message_id(message_id));
            }
            "tool" => {
                let call = ToolCall::of(part)?;
                if let Some(session) = &call.metadata.session_id {
                    self.agents.insert(session.to_string(), call.id.to_string());
                }
                call.push_start(facts);
                if call.is_over() && call.push_end(facts) == ToolStatus::Denied && main {
                    self.outcome.denied();
                }
            }
            "step-finish" => {
                self.message.usage = None;
                let model = self.message.model.clone().map(Cow::Owned);
                let usage = part.tokens.and_then(|tokens| tokens.event(part.cost, model));
                usage.into_iter().for_each(|usage| facts.push(usage));
                if main {
                    self.outcome.step_finish(part.reason.as_deref());
                    facts.push(TurnEnd::default().stop_reason(part.reason));
                }
            }
            "retry" => {
                let retry: Retry<'a> = json::parse(data)?;
                let message = retry.error.map_or(Cow::Borrowed("the request failed"), |failure| {
                    failure.data.and_then(|data| data.message).unwrap_or(failure.name).into()
                });
                let attempt = retry.attempt.unwrap_or(1);
                facts.push(event::Retry::new(attempt, message));
            }
            "compaction" => facts.push(Activity::new("conversation compacted")),
            // Snapshots of files, and input of the model.
            "snapshot" | "patch" | "file" | "agent" | "subtask" => {}
            _ => return None,
        }
        Some(())
    }
}

fn owned(failure: Failure<'_>) -> Failure<'static> {
    let copy = |text: Str<'_>| Str(Cow::Owned(text.0.into_owned()));
    let data = failure.data.map(|data| FailureData { message: data.message.map(copy), status_code: data.status_code });
    Failure { name: copy(failure.name), data }
}
