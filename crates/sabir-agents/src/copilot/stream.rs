//! The events of `--output-format json`.
//!
//! Pieces of messages come first, then the whole message, which is what counts; with `--stream off` it comes alone. The
//! events of a sub-agent carry its id and, most of them, the call that started it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{self, Activity, Cause, ErrorEvent, Permission, TurnEnd, TurnStart};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use super::ending::{self, Ending};
use super::lane::Lane;
use super::tools::Tools;
use super::usage::Usage;
use super::wire::{Data, Decision, Failure, Wire};

/// How many sub-agents are remembered; not many run at a time.
const AGENTS: usize = 256;

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    session: Session,
    main: Lane,
    /// Sub-agents that are open, by the call that started them.
    lanes: BTreeMap<String, Lane>,
    /// The calls that started the sub-agents, by the ids of these.
    calls: BTreeMap<String, String>,
    tools: Tools,
    usage: Usage,
    pub(super) ending: Ending,
}

#[derive(Default)]
struct Session {
    id: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    version: Option<String>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Wire { r#type, timestamp, agent_id, data, session_id, exit_code, usage } = wire;
        facts.at = timestamp.as_deref().and_then(Timestamp::parse);
        if &*r#type == "result" {
            self.session.id = session_id.map(|id| id.0.into_owned()).or(self.session.id.take());
            self.session.say(facts);
            return self.ending.result(exit_code, usage, facts);
        }
        let mut data = data.unwrap_or_default();
        facts.parent = self.parent(agent_id, &mut data, &r#type);
        if !self.speech(&r#type, &mut data, facts) {
            self.other(&r#type, data, line, facts);
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.ending.told())
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.ending.verdict(facts)
    }
}

impl Stream {
    /// The call of the sub-agent that an event is of; `None` for the main agent.
    fn parent<'a>(&mut self, agent: Option<Str<'a>>, data: &mut Data<'a>, event: &str) -> Option<Cow<'a, str>> {
        if let (Some(agent), "subagent.started", Some(call)) = (&agent, event, &data.tool_call_id) {
            if self.calls.len() >= AGENTS {
                self.calls.pop_first();
            }
            self.calls.insert((**agent).to_owned(), (**call).to_owned());
        }
        let named = data.parent_tool_call_id.take().map(Cow::from);
        named.or_else(|| agent.map(|agent| self.calls.get(&*agent).cloned().map_or(agent.0, Cow::Owned)))
    }

    /// Where an agent's speech is followed.
    fn lane(&mut self, facts: &Facts<'_>) -> &mut Lane {
        let Some(call) = &facts.parent else { return &mut self.main };
        if !self.lanes.contains_key(&**call) && self.lanes.len() >= AGENTS {
            self.lanes.pop_first();
        }
        self.lanes.entry(call.clone().into_owned()).or_default()
    }

    /// Reads what the model says; false when the event is of another kind.
    fn speech<'a>(&mut self, event: &str, data: &mut Data<'a>, facts: &mut Facts<'a>) -> bool {
        let main = facts.parent.is_none();
        match event {
            "assistant.message_delta" => {
                if let Some(delta) = data.delta_content.take() {
                    self.lane(facts).text_delta(data.message_id.take(), delta, facts);
                }
            }
            "assistant.reasoning_delta" => {
                if let Some(delta) = data.delta_content.take() {
                    self.lane(facts).thinking_delta(data.reasoning_id.take(), delta, facts);
                }
            }
            "assistant.message" => {
                if main {
                    self.session.model(data.model.take(), facts);
                    let calls = data.tool_requests.as_ref().is_some_and(|calls| !calls.is_empty());
                    let preamble = calls || data.phase.as_deref() == Some("commentary");
                    self.ending.message(data.content.as_deref().unwrap_or(""), preamble);
                }
                let (id, content, reasoning) = (data.message_id.take(), data.content.take(), data.reasoning_text.take());
                self.lane(facts).message(id, content, reasoning, facts);
            }
            "assistant.reasoning" => {
                if let Some(content) = data.content.take() {
                    self.lane(facts).thinking(data.reasoning_id.take(), content, facts);
                }
            }
            "assistant.turn_start" => {
                self.lane(facts).turn();
                if main {
                    self.ending.turn(facts);
                    facts.push(TurnStart::default());
                }
            }
            "assistant.turn_end" => {
                if main {
                    facts.push(TurnEnd::default());
                }
            }
            "model.call_start" => {
                self.lane(facts).call();
                if main {
                    self.session.model(data.model.take(), facts);
                }
            }
            "model.call_failure" => self.lane(facts).request_failed(data),
            "assistant.turn_retry" => self.lane(facts).retry(data.reason.take(), facts),
            _ => return false,
        }
        true
    }

    fn other<'a>(&mut self, event: &str, data: Data<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let main = facts.parent.is_none();
        match event {
            "tool.execution_start" | "tool.shell_output" | "tool.execution_partial_result" | "tool.execution_complete" => {
                self.tools.read(event, data, line, facts);
            }
            "assistant.usage" => self.usage.call(event, data, facts),
            "session.usage_record" => {
                let mut data = data;
                let call = data.usage.take().map_or(data, |usage| *usage);
                self.usage.call(event, call, facts);
            }
            "session.start" | "session.resume" => self.session.start(data, facts),
            "session.tools_updated" | "session.model_change" if main => {
                self.session.model(data.model.or(data.selected_model), facts);
            }
            "session.error" if main => self.ending.fail(&data, facts),
            "session.error" => {
                let (message, class) = ending::error(&data);
                facts.push(ErrorEvent::new(message).class(class));
            }
            "subagent.failed" => {
                let message = data.error.and_then(Failure::of).and_then(|failure| failure.message);
                let message = message.map_or(Cow::Borrowed("a sub-agent failed"), Cow::from);
                let class = Some(Cause::of_error(None, &message));
                facts.push(ErrorEvent::new(message).class(class));
                self.forget(facts);
            }
            "subagent.completed" => self.forget(facts),
            "abort" if main => {
                self.ending.abort(data.reason);
                self.tools.aborted(facts);
            }
            "agent.interrupted" => {
                if main {
                    self.ending.abort(None);
                }
                self.tools.interrupted(data.tool_call_ids.unwrap_or_default(), facts);
            }
            "assistant.idle" | "session.idle" if main => self.ending.idle(data.aborted == Some(true), facts),
            "session.task_complete" if main => self.ending.task_complete(data.summary),
            "session.shutdown" if main => {
                let failed = data.shutdown_type.as_deref() == Some("error");
                if let Some(reason) = data.error_reason.filter(|_| failed) {
                    self.ending.fail(&Data { message: Some(reason), ..Data::default() }, facts);
                }
                self.ending.result(Some(i32::from(failed)), None, facts);
            }
            "permission.requested" | "permission.completed" => permission(data, facts),
            "session_limits_exhausted.requested" => {
                let message = Cow::Borrowed("the limit of the session is used up");
                facts.push(ErrorEvent::new(message).class(Cause::Budget));
            }
            "session.compaction_start" => {
                facts.push(Activity::new("compacting the conversation"));
            }
            "session.compaction_complete" => {
                if let Some(error) = data.error.and_then(Failure::of).and_then(|failure| failure.message) {
                    facts.push(Activity::new(format!("compaction failed: {}", &*error)));
                }
            }
            // The call that made the file tells it with its diff.
            "session.info" if data.info_type.as_deref() == Some("file_created") => {}
            "session.info" | "session.warning" | "tool.execution_progress" | "assistant.intent" => {
                if let Some(message) = data.message.or(data.progress_message).or(data.intent) {
                    facts.push(Activity::new(message.0));
                }
            }
            event if is_housekeeping(event) => {}
            _ => json::unrecognized(line, facts),
        }
    }

    /// A sub-agent is done.
    fn forget(&mut self, facts: &Facts<'_>) {
        if let Some(call) = &facts.parent {
            self.lanes.remove(&**call);
        }
    }
}

impl Session {
    fn say(&self, facts: &mut Facts<'_>) {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        facts.push(
            event::Session::default()
                .session_id(owned(&self.id))
                .model(owned(&self.model))
                .cwd(owned(&self.cwd))
                .agent_version(owned(&self.version)),
        );
    }

    fn model(&mut self, model: Option<Str<'_>>, facts: &mut Facts<'_>) {
        if let Some(model) = model
            && self.model.as_deref() != Some(&*model)
        {
            self.model = Some(model.0.into_owned());
            self.say(facts);
        }
    }

    fn start(&mut self, data: Data<'_>, facts: &mut Facts<'_>) {
        let news = |new: Option<Str<'_>>, old: &mut Option<String>| *old = new.map(|text| text.0.into_owned()).or(old.take());
        news(data.session_id, &mut self.id);
        news(data.selected_model, &mut self.model);
        news(data.context.and_then(|context| context.cwd), &mut self.cwd);
        news(data.copilot_version, &mut self.version);
        self.say(facts);
    }
}

/// A question whether something is allowed, or the answer to it.
fn permission<'a>(data: Data<'a>, facts: &mut Facts<'a>) {
    let decision = data.result.and_then(|result| json::parse::<Decision<'_>>(result.get())).map(|decision| decision.kind.0);
    let (title, call) = match data.permission_request {
        Some(request) => (request.intention.unwrap_or(request.kind).0, request.tool_call_id),
        None => (Cow::Borrowed("permission"), data.tool_call_id),
    };
    facts
        .push(Permission::new(data.request_id.map_or(Cow::Borrowed(""), Cow::from), title).tool_call_id(call).decision(decision));
}

/// Events that say nothing of what the agent does: state of its screens and servers, and what others tell better.
fn is_housekeeping(event: &str) -> bool {
    const FAMILIES: &[&str] = &[
        "auto_mode_switch.",
        "capabilities.",
        "command.",
        "commands.",
        "elicitation.",
        "exit_plan_mode.",
        "external_tool.",
        "hook.",
        "mcp.",
        "mcp_app.",
        "pending_messages.",
        "sampling.",
        "session.auto_",
        "session.canvas.",
        "session.extensions",
        "session.managed_settings_",
        "session.mcp_",
        "session.schedule_",
        "session_limits_exhausted.",
        "skill.",
        "tool_search.",
        "ui.",
        "user_input.",
    ];
    // The endings of a sub-agent are among them: its call ends too.
    const EVENTS: &[&str] = &[
        "abort",
        "assistant.idle",
        "assistant.message_start",
        "assistant.server_tool_progress",
        "assistant.streaming_delta",
        "assistant.tool_call_delta",
        "model.call_final_result",
        "model.call_finished",
        "session.autopilot_objective_changed",
        "session.background_tasks_changed",
        "session.completion_receipt",
        "session.context_changed",
        "session.context_cleared",
        "session.custom_agents_updated",
        "session.custom_notification",
        "session.idle",
        "session.mode_changed",
        "session.model_change",
        "session.mode_notice_delivered",
        "session.permissions_changed",
        "session.plan_changed",
        "session.session_limits_changed",
        "session.shutdown",
        "session.skills_loaded",
        "session.snapshot_rewind",
        "session.task_complete",
        "session.title_changed",
        "session.todos_changed",
        "session.tools_updated",
        "session.truncation",
        "session.usage_checkpoint",
        "session.usage_info",
        "session.workspace_file_changed",
        "subagent.configured",
        "subagent.deselected",
        "subagent.selected",
        "subagent.started",
        "system.message",
        "system.notification",
        "tool.user_requested",
        "user.message",
    ];
    EVENTS.contains(&event) || FAMILIES.iter().any(|family| event.starts_with(family))
}
