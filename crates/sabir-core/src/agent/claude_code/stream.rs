//! stream-json: one message per line.
//!
//! What lies in wait here: a message comes as several lines, one per content block; with partial messages every block
//! comes twice, first as deltas and then whole; usage on `assistant` lines is what the API said at the start of the
//! response, so its output figure is void; `result` may come several times; sub-agents speak in between.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::result::Results;
use super::wire::{
    Abandoned, ApiMessage, Block, Control, FileResult, Message, Part, ResultLine, StreamEvent, System, Todos, ToolResultMeta,
    Usage,
};
use crate::dialect::{End, Facts, Verdict};
use crate::diff;
use crate::event::{
    Cause, Change, ChangeSource, EventKind, PermissionOption, PlanItem, PlanStatus, Text, ToolKind, ToolStatus, UsageScope,
};
use crate::json::{self, JsonDialect, Str, StringOr};
use crate::line::Line;
use crate::time::Timestamp;

/// Reads stream-json.
#[derive(Debug, Default)]
pub struct StreamJson {
    /// The message that each agent is in: the main one under `None`, a sub-agent under its tool call.
    lanes: BTreeMap<Option<String>, Lane>,
    results: Results,
    /// The last error that an `assistant` line told, which its `result` repeats.
    last_error: Option<String>,
}

/// How many agents may be speaking at once.
const LANES: usize = 256;

/// One agent's current message.
#[derive(Debug, Default)]
struct Lane {
    message_id: String,
    model: Option<String>,
    /// What deltas said of the blocks whose whole copy has not come.
    streamed: Vec<String>,
    /// Calls that deltas announced, with the index of their block.
    announced: Vec<(u32, String)>,
    /// Figures of the message, not yet told.
    usage: Option<Usage>,
    /// Whether the output figure is the final one.
    usage_complete: bool,
    stop_reason: Option<String>,
}

impl JsonDialect for StreamJson {
    type Wire<'a> = Message<'a>;

    fn message<'a>(&mut self, wire: Message<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        facts.parent = wire.parent_tool_use_id.clone().map(Cow::from);
        match &*wire.r#type {
            "stream_event" => {
                let Message { event, api_message_id, abandoned_blocks, .. } = wire;
                match event {
                    Some(event) => self.stream_event(event, api_message_id, abandoned_blocks, line, facts),
                    None => json::unrecognized(line, facts),
                }
            }
            "assistant" => match wire.message {
                Some(StringOr::Other(message)) if wire.is_api_error_message => {
                    self.api_error(&message, wire.api_error_status, facts)
                }
                Some(StringOr::Other(message)) => self.assistant(*message, line, facts),
                _ => json::unrecognized(line, facts),
            },
            "user" => {
                if let Some(StringOr::Other(message)) = wire.message
                    && let Some(StringOr::Other(blocks)) = message.content
                {
                    user(blocks, wire.tool_use_result, wire.tool_result_meta, facts);
                }
            }
            "system" => match line.borrowed().and_then(json::parse::<System<'a>>) {
                Some(system) => self.system(system, wire.subtype.as_deref().unwrap_or_default(), line, facts),
                None => json::unrecognized(line, facts),
            },
            "result" | "output" => match line.borrowed().and_then(json::parse::<ResultLine<'a>>) {
                Some(result) => self.result(&result, facts),
                None => json::unrecognized(line, facts),
            },
            "control_request" => match line.borrowed().and_then(json::parse::<Control<'a>>) {
                Some(control) => permission_asked(control, facts),
                None => json::unrecognized(line, facts),
            },
            // Answers to the host, progress ticks and hints for a user interface: nothing of the run is in them.
            "control_response"
            | "control_cancel_request"
            | "keep_alive"
            | "tool_progress"
            | "tool_use_summary"
            | "auth_status"
            | "prompt_suggestion"
            | "rate_limit_event"
            | "streamlined_text" => {}
            _ => json::unrecognized(line, facts),
        }
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        for (parent, lane) in &mut self.lanes {
            facts.parent = parent.clone().map(Cow::Owned);
            lane.tell_usage(facts);
        }
        facts.parent = None;
        self.results.end(facts)
    }
}

impl StreamJson {
    /// The lane of the facts' agent, in the message of that id. A new message of the main agent is a new turn.
    fn lane(&mut self, id: &str, facts: &mut Facts<'_>) -> &mut Lane {
        if self.lanes.len() > LANES {
            // Sub-agents that have long gone silent; their figures were told with their messages.
            self.lanes.pop_last();
        }
        let lane = self.lanes.entry(facts.parent.as_deref().map(str::to_owned)).or_default();
        if lane.message_id != id || id.is_empty() {
            lane.close(facts);
            *lane = Lane { message_id: id.to_owned(), ..Lane::default() };
            if facts.parent.is_none() {
                facts.push(EventKind::TurnStart { turn: 0 });
            }
        }
        lane
    }

    fn assistant<'a>(&mut self, message: ApiMessage<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let lane = self.lane(message.id.as_deref().unwrap_or_default(), facts);
        lane.note(&message);
        let blocks = match message.content {
            Some(StringOr::Other(blocks)) => blocks,
            Some(StringOr::String(text)) => {
                facts.push(EventKind::Text { delta: text.into(), message_id: lane.id() });
                return;
            }
            None => Vec::new(),
        };
        for block in blocks {
            match &*block.r#type {
                "text" => {
                    if let Some(delta) = block.text.and_then(Text::from_json).and_then(|text| lane.unsaid(text)) {
                        facts.push(EventKind::Text { delta, message_id: lane.id() });
                    }
                }
                "thinking" => {
                    if let Some(delta) = block.thinking.and_then(Text::from_json).and_then(|text| lane.unsaid(text)) {
                        facts.push(EventKind::Thinking { delta, message_id: lane.id() });
                    }
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => tool_start(block, facts),
                kind if kind.ends_with("_tool_result") => tool_end(block, None, &[], facts),
                // Its text is encrypted; a picture is not text.
                "redacted_thinking" | "image" | "document" | "fallback" => {}
                _ => facts.unrecognized(Some(Cow::Owned(format!("assistant:{}", &*block.r#type))), line),
            }
        }
    }

    fn api_error<'a>(&mut self, message: &ApiMessage<'a>, status: Option<u16>, facts: &mut Facts<'a>) {
        let text = match &message.content {
            Some(StringOr::String(text)) => text.to_string(),
            Some(StringOr::Other(blocks)) => {
                blocks.iter().filter_map(|block| Text::from_json(block.text?)).map(Text::into_string).collect()
            }
            None => String::new(),
        };
        let class = Some(Cause::of_error(status, &text));
        self.last_error = Some(text.clone());
        facts.push(EventKind::Error { message: Cow::Owned(text), class, fatal: facts.parent.is_none() });
    }

    fn stream_event<'a>(
        &mut self,
        event: StreamEvent<'a>,
        message_id: Option<Str<'a>>,
        abandoned: Option<&RawValue>,
        line: &Line<'a>,
        facts: &mut Facts<'a>,
    ) {
        if let ("message_start", Some(message)) = (&*event.r#type, &event.message) {
            self.lane(message.id.as_deref().unwrap_or_default(), facts).note(message);
            return;
        }
        let lane = match message_id {
            Some(id) => self.lane(&id, facts),
            None => self.lanes.entry(facts.parent.as_deref().map(str::to_owned)).or_default(),
        };
        match &*event.r#type {
            "content_block_start" => match event.content_block {
                Some(block) if matches!(&*block.r#type, "text" | "thinking") => lane.streamed.push(String::new()),
                Some(block) => {
                    let Block { id: Some(id), name: Some(name), .. } = *block else { return };
                    lane.announced.push((event.index.unwrap_or_default(), id.to_string()));
                    let tool_kind = ToolKind::of_name(&name);
                    facts.push(EventKind::ToolStart {
                        tool_call_id: id.into(),
                        name: name.into(),
                        input: None,
                        tool_kind,
                        title: None,
                    });
                }
                None => {}
            },
            "content_block_delta" => {
                let Some(delta) = event.delta else { return };
                let text = delta.text.and_then(Text::from_json);
                let thinking = delta.thinking.and_then(Text::from_json);
                let message_id = lane.id();
                for said in text.iter().chain(&thinking) {
                    match lane.streamed.last_mut() {
                        Some(streamed) => streamed.push_str(said),
                        None => lane.streamed.push(said.to_string()),
                    }
                }
                // Pieces of arguments and signatures come again whole.
                match (text, thinking) {
                    (Some(delta), _) => facts.push(EventKind::Text { delta, message_id }),
                    (None, Some(delta)) => facts.push(EventKind::Thinking { delta, message_id }),
                    (None, None) => {}
                }
            }
            "message_delta" => {
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    lane.stop_reason = Some(reason.to_string());
                }
                if let Some(usage) = event.usage {
                    lane.complete_usage(*usage);
                }
            }
            "message_stop" => {
                lane.tell_usage(facts);
                if let Some(abandoned) = abandoned {
                    lane.abandon(abandoned, facts);
                }
            }
            "content_block_stop" | "ping" | "goal_state" | "error" => {}
            other => facts.unrecognized(Some(Cow::Owned(format!("stream_event:{other}"))), line),
        }
    }

    fn system<'a>(&mut self, system: System<'a>, subtype: &str, line: &Line<'a>, facts: &mut Facts<'a>) {
        match subtype {
            "init" => {
                self.results.session_known();
                facts.push(EventKind::Session {
                    session_id: system.session_id.map(Cow::from),
                    model: system.model.map(Cow::from),
                    cwd: system.cwd.map(Cow::from),
                    agent_version: system.claude_code_version.map(Cow::from),
                    permission_mode: system.permission_mode.map(Cow::from),
                    tools: system.tools.map(|tools| tools.into_iter().map(Cow::from).collect()),
                });
            }
            "api_retry" => {
                let error = system.error.as_deref().unwrap_or("unknown");
                let message = system.error_status.map_or_else(|| error.to_owned(), |status| format!("{status} {error}"));
                facts.push(EventKind::Retry {
                    attempt: system.attempt.unwrap_or(1),
                    max_attempts: system.max_retries,
                    delay_ms: system.retry_delay_ms.map(whole_millis),
                    message: Cow::Owned(message),
                });
            }
            "permission_denied" => {
                let call = system.tool_use_id.map(Cow::from);
                facts.push(EventKind::Permission {
                    request_id: call.clone().unwrap_or_default(),
                    tool_call_id: call,
                    title: system.message.or(system.tool_name).map(Cow::from).unwrap_or_default(),
                    options: None,
                    decision: Some(Cow::Borrowed("denied")),
                });
            }
            "task_started" | "task_progress" | "informational" | "notification" | "local_command_output" => {
                if let Some(message) = system.description.or(system.content).or(system.message) {
                    facts.push(EventKind::Activity { message: message.into() });
                }
            }
            "task_notification" => {
                let status = system.status.as_deref().unwrap_or("ended").to_owned();
                let summary = system.summary.as_deref().unwrap_or_default();
                facts.push(EventKind::Activity { message: Cow::Owned(format!("background task {status}: {summary}")) });
            }
            "compact_boundary" => facts.push(EventKind::Activity { message: Cow::Borrowed("conversation compacted") }),
            // States of the user interface and estimates that later figures replace.
            "status"
            | "thinking_tokens"
            | "task_updated"
            | "background_tasks_changed"
            | "hook_started"
            | "hook_progress"
            | "hook_response"
            | "ui_invalidate"
            | "files_persisted"
            | "session_state_changed"
            | "elicitation_complete"
            | "plugin_install" => {}
            other => facts.unrecognized(Some(Cow::Owned(format!("system:{other}"))), line),
        }
    }

    fn result<'a>(&mut self, result: &ResultLine<'a>, facts: &mut Facts<'a>) {
        let mut model = None;
        for (parent, lane) in &mut self.lanes {
            facts.parent = parent.clone().map(Cow::Owned);
            lane.tell_usage(facts);
            if parent.is_none() {
                model.clone_from(&lane.model);
            }
        }
        // Background agents speak on under lanes of their own.
        self.lanes.retain(|parent, _| parent.is_some());
        facts.parent = None;
        self.results.result(result, model, self.last_error.take(), facts);
    }
}

impl Lane {
    fn id<'a>(&self) -> Option<Cow<'a, str>> {
        (!self.message_id.is_empty()).then(|| Cow::Owned(self.message_id.clone()))
    }

    /// Takes note of the model and of the figures at the start of a message.
    fn note(&mut self, message: &ApiMessage<'_>) {
        if let Some(model) = &message.model {
            self.model = Some(model.to_string());
        }
        if !self.usage_complete && message.usage.is_some() {
            self.usage = message.usage;
        }
    }

    /// What of a whole block the deltas have not said.
    fn unsaid<'a>(&mut self, text: Text<'a>) -> Option<Text<'a>> {
        if self.streamed.is_empty() {
            return Some(text);
        }
        let said = self.streamed.iter().position(|streamed| text.starts_with(streamed.as_str()) && !streamed.is_empty());
        let Some(said) = said.map(|index| self.streamed.swap_remove(index).len()) else { return Some(text) };
        text.get(said..).filter(|rest| !rest.is_empty()).map(|rest| Text::from(rest.to_owned()))
    }

    /// The figures at the end of a message are whole; what they leave out was told at its start.
    fn complete_usage(&mut self, usage: Usage) {
        let start = self.usage.unwrap_or_default();
        self.usage_complete = true;
        self.usage = Some(Usage {
            input_tokens: usage.input_tokens.or(start.input_tokens),
            output_tokens: usage.output_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens.or(start.cache_read_input_tokens),
            cache_creation_input_tokens: usage.cache_creation_input_tokens.or(start.cache_creation_input_tokens),
            cache_creation: usage.cache_creation.or(start.cache_creation),
            output_tokens_details: usage.output_tokens_details.or(start.output_tokens_details),
        });
    }

    fn tell_usage(&mut self, facts: &mut Facts<'_>) {
        let Some(usage) = self.usage.take() else { return };
        let synthetic = self.model.as_deref() == Some("<synthetic>");
        if synthetic {
            return;
        }
        facts.push(EventKind::Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens.filter(|_| self.usage_complete),
            total_tokens: None,
            cache_read_tokens: usage.cache_read_input_tokens,
            cache_write_tokens: usage.cache_creation_input_tokens,
            cache_write_1h_tokens: usage.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens),
            reasoning_tokens: usage.output_tokens_details.and_then(|details| details.thinking_tokens),
            cost_usd: None,
            cost_parts: None,
            model: self.model.clone().map(Cow::Owned),
            scope: UsageScope::Message,
        });
        // A later copy of the same message says the same figures.
        self.usage_complete = true;
    }

    fn close(&mut self, facts: &mut Facts<'_>) {
        self.tell_usage(facts);
        if facts.parent.is_none() && !self.message_id.is_empty() {
            facts.push(EventKind::TurnEnd { turn: 0, stop_reason: self.stop_reason.take().map(Cow::Owned) });
        }
    }

    /// A cut stream is void from a block on; its calls will never run.
    fn abandon(&mut self, abandoned: &RawValue, facts: &mut Facts<'_>) {
        let from = json::parse::<Abandoned>(abandoned.get()).map_or(0, |abandoned| abandoned.from_block_index);
        for (index, id) in self.announced.drain(..) {
            if index >= from {
                facts.push(EventKind::ToolEnd {
                    tool_call_id: Cow::Owned(id),
                    ok: false,
                    output: None,
                    status: ToolStatus::Cancelled,
                    exit_code: None,
                    duration_ms: None,
                });
            }
        }
    }
}

fn tool_start<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
    let name: Cow<'a, str> = block.name.map(Cow::from).unwrap_or_default();
    if name == "TodoWrite"
        && let Some(todos) = block.input.and_then(|input| json::parse::<Todos<'a>>(input.get()))
    {
        let items = todos.todos.into_iter().map(|todo| PlanItem {
            text: todo.content.into(),
            status: match todo.status.as_deref() {
                Some("completed") => PlanStatus::Completed,
                Some("in_progress") => PlanStatus::InProgress,
                _ => PlanStatus::Pending,
            },
        });
        facts.push(EventKind::Plan { items: items.collect() });
    }
    facts.push(EventKind::ToolStart {
        tool_call_id: block.id.map(Cow::from).unwrap_or_default(),
        tool_kind: ToolKind::of_name(&name),
        name,
        input: block.input.map(|input| Cow::Borrowed(input.get())),
        title: None,
    });
}

/// The results of tools. Anything else that a `user` line holds is a prompt, the user's or the agent's own.
fn user<'a>(blocks: Vec<Block<'a>>, structured: Option<&'a RawValue>, meta: Option<&'a RawValue>, facts: &mut Facts<'a>) {
    let meta: Vec<ToolResultMeta<'a>> = meta.and_then(|meta| json::parse(meta.get())).unwrap_or_default();
    let mut results: Vec<Block<'a>> = blocks.into_iter().filter(|block| block.tool_use_id.is_some()).collect();
    // The structured copy does not say whose it is, so it counts only where there is one result.
    let structured = structured.filter(|_| results.len() == 1);
    for block in results.drain(..) {
        tool_end(block, structured, &meta, facts);
    }
}

fn tool_end<'a>(block: Block<'a>, structured: Option<&'a RawValue>, meta: &[ToolResultMeta<'a>], facts: &mut Facts<'a>) {
    let Some(id) = block.tool_use_id else { return };
    let output = block.content.map(content_text);
    let failed = block.is_error.unwrap_or(false);
    let refused = meta.iter().filter(|meta| *meta.id == *id).any(|meta| {
        meta.non_execution_kind.is_some()
            || meta.permission_decision.as_ref().is_some_and(|d| d.decision.as_deref() == Some("reject"))
    });
    let status = match (failed, refused) {
        (true, true) => ToolStatus::Denied,
        (true, false) => ToolStatus::Error,
        (false, _) => ToolStatus::Ok,
    };
    if status == ToolStatus::Ok
        && let Some(file) = structured.and_then(|structured| json::parse::<FileResult<'a>>(structured.get()))
    {
        file_change(file, &id, facts);
    }
    let exit_code = output.as_deref().filter(|_| failed).and_then(exit_code);
    let ok = status == ToolStatus::Ok;
    facts.push(EventKind::ToolEnd { tool_call_id: id.into(), ok, output, status, exit_code, duration_ms: None });
}

/// The text of a tool's result, which is a string, a part or a list of parts.
fn content_text(content: &RawValue) -> Text<'_> {
    if let Some(text) = Text::from_json(content) {
        return text;
    }
    let parts = json::parse::<Vec<Part<'_>>>(content.get()).or_else(|| json::parse(content.get()).map(|part| vec![part]));
    let Some(parts) = parts else { return Text::from(content.get()) };
    let texts = parts.into_iter().filter_map(|part| match part {
        Part { text: Some(text), .. } => Some(text.to_string()),
        Part { title: Some(title), url: Some(url), .. } => Some(format!("{} {}", &*title, &*url)),
        Part { url, .. } => url.map(|url| url.to_string()),
    });
    Text::from(texts.collect::<Vec<_>>().join("\n"))
}

/// A failed command's result starts with its exit code.
fn exit_code(output: &str) -> Option<i32> {
    output.strip_prefix("Exit code ")?.lines().next()?.trim().parse().ok()
}

fn file_change<'a>(file: FileResult<'a>, call: &Str<'a>, facts: &mut Facts<'a>) {
    let created = file.r#type.as_deref() == Some("create");
    let diff = match (&file.content, created) {
        (Some(content), true) => diff::of_new_file(&file.file_path, content),
        _ if file.structured_patch.is_empty() => return,
        _ => {
            let mut text = diff::head(&file.file_path);
            for hunk in &file.structured_patch {
                text.push_str(&format!("@@ -{},{} +{},{} @@\n", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines));
                hunk.lines.iter().for_each(|line| text.extend([&**line, "\n"]));
            }
            let (added, removed) = diff::count(&text);
            diff::Diff { text, added, removed }
        }
    };
    facts.push(EventKind::FileChange {
        path: file.file_path.into(),
        change: if created { Change::Create } else { Change::Update },
        from: None,
        diff: Some(Cow::Owned(diff.text)),
        added: Some(diff.added),
        removed: Some(diff.removed),
        tool_call_id: Some(call.clone().into()),
        source: ChangeSource::Reported,
    });
}

fn permission_asked<'a>(control: Control<'a>, facts: &mut Facts<'a>) {
    if &*control.request.subtype != "can_use_tool" {
        return;
    }
    let tool = control.request.tool_name.as_deref().unwrap_or("a tool");
    let title = control.request.description.as_deref().map_or_else(|| tool.to_owned(), |about| format!("{tool}: {about}"));
    let option = |id: &'static str, label: &'static str| PermissionOption { id: id.into(), label: label.into() };
    facts.push(EventKind::Permission {
        request_id: control.request_id.into(),
        tool_call_id: control.request.tool_use_id.map(Cow::from),
        title: Cow::Owned(title),
        options: Some(vec![option("allow", "Allow"), option("deny", "Deny")]),
        decision: None,
    });
}

/// Delays are fractions of milliseconds at times.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole_millis(millis: f64) -> u64 {
    // A float cast saturates, so nonsense stays in range.
    millis.max(0.0) as u64
}
