//! The log as the events of its session.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::diff;
use sabir_core::event::{
    Activity, Cause, Change, ErrorEvent, EventKind, FileChange, Final, Outcome, Plan, Prompt, Retry, Session, Text, TextDelta,
    ThinkingDelta, ToolEnd, ToolKind, ToolStart, ToolStatus, TurnEnd, TurnStart,
};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::tools::{exit_code, is_denied};
use super::{Call, Entry, Telemetry, Topic, is_typed};
use crate::family::anthropic::tools::plan;

/// Reads the log of a session.
#[derive(Default)]
pub(super) struct LogDialect {
    session: Option<(String, Option<String>)>,
    /// Calls whose end is not told: how long they took, once that is known.
    open: BTreeMap<String, Option<u64>>,
    /// Calls that may have started a sub-agent.
    calls: Vec<String>,
    /// Telemetry tells the responses.
    itemized: bool,
    in_turn: bool,
    /// What the model says since its last tool call.
    answer: Held,
    verdict: Option<Verdict>,
    /// The failure of the last request, until it is told: it may be tried again.
    failed: Option<(String, Cause)>,
    attempts: u32,
    /// What the response used whose message comes next.
    usage: Option<EventKind<'static>>,
}

/// What became of a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Ended<'a> {
    call_id: Option<Str<'a>>,
    status: Option<Str<'a>>,
    error_type: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    result_display: Option<Display<'a>>,
}

/// What people are shown for a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Display<'a> {
    #[serde(default, deserialize_with = "json::lenient")]
    exit_code: Option<i32>,
    #[serde(default, deserialize_with = "json::lenient")]
    file_diff: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    file_path: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    file_name: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    original_content: Option<&'a RawValue>,
    /// What a command printed.
    #[serde(default, deserialize_with = "json::lenient")]
    output: Option<Text<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    truncated: Option<bool>,
}

/// What the model is given for a call.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Answer<'a> {
    id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    response: Option<Given<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Given<'a> {
    output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl JsonDialect for LogDialect {
    type Wire<'a> = Entry<'a>;

    fn message<'a>(&mut self, entry: Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = entry.timestamp.as_deref().and_then(Timestamp::parse);
        self.session(&entry, facts);
        match (&*entry.r#type, entry.subtype.as_deref()) {
            ("user", _) if is_typed(&entry) => self.prompt(&entry, facts),
            // What the CLI tells the model by itself.
            ("user", _) => {
                if let Some(text) = entry.system_payload.and_then(|payload| payload.display_text) {
                    facts.push(Activity::new(text));
                }
            }
            ("assistant", _) => self.assistant(entry, facts),
            ("tool_result", _) => self.tool_result(&entry, line, facts),
            ("system", Some("ui_telemetry")) => match entry.system_payload.and_then(|payload| payload.ui_event) {
                Some(event) => self.telemetry(event, facts),
                None => json::unrecognized(line, facts),
            },
            ("system", Some("chat_compression")) => {
                facts.push(Activity::new("conversation compacted"));
            }
            ("system", Some("rewind")) => {
                facts.push(Activity::new("conversation cut back"));
            }
            ("system", Some(subtype)) if is_housekeeping(subtype) => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        if let Some(cause) = self.tell_failure(true, facts) {
            self.verdict = Some(Verdict::failed(Some(cause)));
        }
        self.tell_usage(facts);
        self.end_turn(facts);
        let verdict = self.verdict.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        if verdict.outcome == Outcome::Completed && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        verdict
    }
}

impl LogDialect {
    fn session<'a>(&mut self, entry: &Entry<'a>, facts: &mut Facts<'a>) {
        let Some(id) = entry.session_id.as_deref() else { return };
        let told = self
            .session
            .as_ref()
            .is_some_and(|(known, model)| known == id && (entry.model.is_none() || model.as_deref() == entry.model.as_deref()));
        if !told {
            self.session = Some((id.to_owned(), entry.model.as_deref().map(str::to_owned)));
            facts.push(
                Session::default()
                    .session_id(entry.session_id.clone())
                    .model(entry.model.clone())
                    .cwd(entry.cwd.clone())
                    .agent_version(entry.version.clone()),
            );
        }
    }

    fn prompt<'a>(&mut self, entry: &Entry<'a>, facts: &mut Facts<'a>) {
        let pieces = entry.message.as_ref().map(|message| message.parts.as_slice()).unwrap_or_default();
        let text: String = pieces.iter().filter_map(|piece| Text::from_json(piece.text?)).map(Text::into_string).collect();
        if text.trim().is_empty() {
            return;
        }
        self.tell_failure(false, facts);
        self.tell_usage(facts);
        self.end_turn(facts);
        self.verdict = None;
        self.answer.clear();
        facts.push(Prompt::new(text));
    }

    fn assistant<'a>(&mut self, entry: Entry<'a>, facts: &mut Facts<'a>) {
        self.recovered(facts);
        self.end_turn(facts);
        facts.push(TurnStart::default());
        self.in_turn = true;
        // A response that was cut off has no figures.
        let mut outcome = if entry.usage_metadata.is_some() { Outcome::Completed } else { Outcome::Incomplete };
        let message_id = entry.uuid.map(Cow::from);
        self.answer.clear();
        for piece in entry.message.into_iter().flat_map(|message| message.parts) {
            match (piece.text.and_then(Text::from_json), piece.function_call) {
                (Some(delta), _) if piece.thought == Some(true) => {
                    facts.push(ThinkingDelta::new(delta).message_id(message_id.clone()));
                }
                (Some(delta), _) => {
                    self.answer.push(&delta);
                    facts.push(TextDelta::new(delta).message_id(message_id.clone()));
                }
                (None, Some(call)) => {
                    outcome = Outcome::Incomplete;
                    self.opened(&call);
                    tool_start(call, facts);
                }
                (None, None) => {}
            }
        }
        self.tell_usage(facts);
        if let Some(usage) = entry.usage_metadata.filter(|_| !self.itemized) {
            facts.push(usage.spent().event(entry.model.map(Cow::from)));
        }
        self.verdict = Some(Verdict::of(outcome));
    }

    /// Figures come before the message that they are of, and belong to its turn.
    fn tell_usage(&mut self, facts: &mut Facts<'_>) {
        if let Some(usage) = self.usage.take() {
            facts.push(usage);
        }
    }

    fn tool_result<'a>(&mut self, entry: &Entry<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let answers = entry.message.as_ref().map(|message| message.parts.as_slice()).unwrap_or_default();
        let answer = answers.iter().find_map(|piece| json::parse::<Answer<'a>>(piece.function_response?.get()));
        let result = entry.tool_call_result.and_then(|result| json::parse::<Ended<'a>>(result.get()));
        let named = result.as_ref().and_then(|result| result.call_id.clone());
        let Some(id) = named.or_else(|| answer.as_ref().and_then(|answer| answer.id.clone())) else {
            return json::unrecognized(line, facts);
        };
        let duration_ms = self.open.remove(&*id).flatten();
        let given = answer.and_then(|answer| answer.response);
        let failed = given.as_ref().is_some_and(|given| given.error.is_some());
        let mut output = given.and_then(|given| given.output.or(given.error)).and_then(Text::from_json);
        let shown = output.as_deref().unwrap_or_default();
        let code = result.as_ref().and_then(|result| result.result_display.as_ref()?.exit_code);
        let code = code.or_else(|| Some(shown).filter(|_| failed).and_then(exit_code));
        let problem = result.as_ref().and_then(|result| result.error_type.as_deref());
        let status = match result.as_ref().and_then(|result| result.status.as_deref()) {
            Some("cancelled") => ToolStatus::Cancelled,
            Some("error") if problem == Some("execution_denied") || is_denied(shown) => ToolStatus::Denied,
            Some("success") => ToolStatus::Ok,
            None if !failed => ToolStatus::Ok,
            _ => ToolStatus::Error,
        };
        if let Some(mut display) = result.and_then(|result| result.result_display).filter(|_| status == ToolStatus::Ok) {
            let created = is_creation(&display, shown);
            // The model is given a report of a command, people what it printed.
            output = display.output.take().filter(|_| display.truncated != Some(true)).or(output);
            file_change(display, created, &id, facts);
        }
        facts.push(ToolEnd::new(id, status).output(output).exit_code(code).duration_ms(duration_ms));
    }

    fn telemetry<'a>(&mut self, event: Telemetry<'a>, facts: &mut Facts<'a>) {
        // A sub-agent's id ends with the call that started it; helpers of its own have no call.
        facts.parent = event.subagent().map(|agent| {
            let call = self.calls.iter().rev().find(|call| agent.ends_with(call.as_str()));
            Cow::Owned(call.map_or(agent, String::as_str).to_owned())
        });
        match event.topic() {
            Topic::Response => {
                self.itemized = true;
                if facts.parent.is_none() {
                    self.recovered(facts);
                }
                let usage = event.spent().event(event.model.map(Cow::from));
                if facts.parent.is_some() {
                    facts.push(usage);
                } else {
                    self.tell_usage(facts);
                    self.usage = Some(EventKind::from(usage).into_owned());
                }
            }
            Topic::Error => {
                let message = event.error_message.map_or_else(|| "the request failed".to_owned(), |text| text.0.into_owned());
                let cause = Cause::of_error(event.status_code, &message);
                if facts.parent.is_some() {
                    facts.push(ErrorEvent::new(message).class(cause));
                } else {
                    self.recovered(facts);
                    self.failed = Some((message, cause));
                }
            }
            Topic::Call => self.called(event, facts),
            Topic::Other => {}
        }
    }

    /// A call of the main agent is told by its message and its result; here is how long it took. One of a sub-agent is
    /// told here alone.
    fn called<'a>(&mut self, event: Telemetry<'a>, facts: &mut Facts<'a>) {
        let Some(id) = event.call_id else { return };
        if let Some(duration) = self.open.get_mut(&*id) {
            *duration = event.duration_ms;
            return;
        }
        let status = match event.status.as_deref() {
            Some("success") => ToolStatus::Ok,
            Some("cancelled") => ToolStatus::Cancelled,
            _ => ToolStatus::Error,
        };
        tool_start(Call { id: Some(id.clone()), name: event.function_name, args: event.function_args }, facts);
        facts.push(ToolEnd::new(id, status).duration_ms(event.duration_ms));
    }

    fn opened(&mut self, call: &Call<'_>) {
        let id = call.id.as_deref().unwrap_or_default();
        self.open.insert(id.to_owned(), None);
        let starts = call.name.as_deref().is_some_and(|name| ToolKind::of_name(name) == ToolKind::Delegate);
        if starts && !id.is_empty() {
            self.calls.push(id.to_owned());
        }
    }

    /// A request after one that failed is another attempt.
    fn recovered(&mut self, facts: &mut Facts<'_>) {
        match self.failed.take() {
            Some((message, _)) => {
                self.attempts = self.attempts.saturating_add(1);
                let (attempt, message) = (self.attempts, Cow::Owned(message));
                facts.push(Retry::new(attempt, message));
            }
            None => self.attempts = 0,
        }
    }

    /// Tells a failure that was not tried again.
    fn tell_failure(&mut self, fatal: bool, facts: &mut Facts<'_>) -> Option<Cause> {
        let (message, cause) = self.failed.take()?;
        facts.push(ErrorEvent::new(message).class(cause).fatal(fatal));
        Some(cause)
    }

    fn end_turn(&mut self, facts: &mut Facts<'_>) {
        if std::mem::take(&mut self.in_turn) {
            facts.push(TurnEnd::default());
        }
    }
}

/// Whose lines are whose, and what the user interface keeps.
fn is_housekeeping(subtype: &str) -> bool {
    const SUBTYPES: &[&str] = &[
        "at_command",
        "attribution_snapshot",
        "background_task_completed",
        "branch_checkpoint",
        "custom_title",
        "file_history_snapshot",
        "goal_runtime",
        "goal_state",
        "goal_turn_end",
        "omni_recall",
        "parent_session",
        "realtime_message",
        "session_artifact_event",
        "session_artifact_snapshot",
        "session_model",
        "session_recording_degraded",
        "session_source",
        "session_sources_snapshot",
        "slash_command",
        "turn_result",
        "user_text_elements",
    ];
    SUBTYPES.contains(&subtype)
}

fn tool_start<'a>(call: Call<'a>, facts: &mut Facts<'a>) {
    let name: Cow<'a, str> = call.name.map(Cow::from).unwrap_or_default();
    let tool_kind = ToolKind::of_name(&name);
    let plan = call.args.filter(|_| tool_kind == ToolKind::Plan).and_then(plan);
    facts.push(
        ToolStart::of_kind(tool_kind, call.id.map(Cow::from).unwrap_or_default(), name).input(call.args.map(RawValue::get)),
    );
    if let Some(items) = plan {
        facts.push(Plan::new(items));
    }
}

/// Whether a file was not there before. It has no content then, or an empty one, as a file that was there may have too.
fn is_creation(display: &Display<'_>, told: &str) -> bool {
    const WORDS: &[&str] = &["Successfully created", "Created new file"];
    display.original_content.is_none_or(|content| content.get() == "null") || WORDS.iter().any(|words| told.starts_with(words))
}

fn file_change<'a>(display: Display<'a>, created: bool, call: &Str<'a>, facts: &mut Facts<'a>) {
    let (Some(patch), Some(path)) = (display.file_diff, display.file_path.or(display.file_name)) else { return };
    let (added, removed) = diff::count(&patch);
    facts.push(
        FileChange::new(path, if created { Change::Create } else { Change::Update })
            .diff(patch.0)
            .added(added)
            .removed(removed)
            .tool_call_id(call.0.clone()),
    );
}
