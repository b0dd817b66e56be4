//! Event kinds: one struct per kind, declared in one table.
//!
//! A struct has a constructor for its required fields and a setter, named like the field, for each of the others:
//!
//! ```
//! use sabir_core::event::{EventKind, ToolEnd, ToolStatus};
//!
//! let kind: EventKind = ToolEnd::new("call_1", ToolStatus::Ok).output("done").exit_code(0).into();
//! assert_eq!(kind.tag(), "toolEnd");
//! ```

use std::borrow::Cow;

use serde::ser::SerializeMap;

use super::write::Field;
use super::{
    Accounting, Cause, Change, ChangeSource, CostParts, Detection, IntoField, Outcome, PermissionOption, PlanItem, SuggestedEdit,
    Text, Timeout, ToolKind, ToolStatus, UsageScope, read,
};

macro_rules! event_kinds {
    ($(
        $(#[$doc:meta])*
        $Kind:ident($Struct:ident$(<$lifetime:lifetime>)?) $tag:literal $(derive($Derive:ident))? {
            $($(#[$field_doc:meta])* $field:ident $key:literal: $Type:ty),* $(,)?
        }
    )*) => {
        /// What happened, with the fields that only this kind has.
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(tag = "kind", rename_all = "camelCase"))]
        #[non_exhaustive]
        pub enum EventKind<'a> {
            $($(#[$doc])* $Kind($Struct$(<$lifetime>)?)),*
        }

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq $(, $Derive)?)]
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline, rename_all = "camelCase"))]
            #[non_exhaustive]
            pub struct $Struct$(<$lifetime>)? {
                $($(#[$field_doc])* pub $field: $Type),*
            }

            impl$(<$lifetime>)? $Struct$(<$lifetime>)? {
                $(
                    #[doc = concat!("Sets `", stringify!($field), "`.")]
                    #[must_use]
                    pub fn $field(mut self, $field: impl IntoField<$Type>) -> Self {
                        self.$field = $field.into_field();
                        self
                    }
                )*
            }

            impl<'a> From<$Struct$(<$lifetime>)?> for EventKind<'a> {
                fn from(kind: $Struct$(<$lifetime>)?) -> Self {
                    Self::$Kind(kind)
                }
            }
        )*

        impl<'a> EventKind<'a> {
            /// Every tag, in the order of the table.
            pub const TAGS: &'static [&'static str] = &[$($tag),*];

            /// The value of `kind` in JSON.
            pub const fn tag(&self) -> &'static str {
                match self { $(Self::$Kind(_) => $tag),* }
            }

            /// Copies borrowed texts.
            pub fn into_owned(self) -> EventKind<'static> {
                match self {
                    $(Self::$Kind($Struct { $($field),* }) => EventKind::$Kind($Struct { $($field: $field.into_static()),* }),)*
                }
            }

            /// Calls `change` with the key and value of every text field; a returned text replaces the value.
            pub fn change_texts(&mut self, change: &mut dyn FnMut(&'static str, &str) -> Option<String>) {
                match self {
                    $(Self::$Kind($Struct { $($field),* }) => {
                        $($field.map_text(&mut |text| change($key, text));)*
                    })*
                }
            }

            pub(super) fn write_tag(&self, out: &mut Vec<u8>) {
                let start: &[u8] = match self {
                    $(Self::$Kind(_) => concat!("{\"kind\":\"", $tag, "\",\"runId\":").as_bytes()),*
                };
                out.extend_from_slice(start);
            }

            pub(super) fn write_fields(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$Kind($Struct { $($field),* }) => {
                        $(if !$field.is_absent() {
                            out.extend_from_slice(concat!(",\"", $key, "\":").as_bytes());
                            $field.write(out);
                        })*
                    })*
                }
            }

            pub(super) fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $(Self::$Kind($Struct { $($field),* }) => {
                        $(if !$field.is_absent() {
                            map.serialize_entry($key, $field)?;
                        })*
                    })*
                }
                Ok(())
            }

            /// Builds the kind with this tag from the fields that were read.
            pub(super) fn from_fields(tag: &str, fields: read::Fields<'a>) -> Result<Self, read::ReadError> {
                match tag {
                    $($tag => Ok(Self::$Kind($Struct { $($field: read::take(fields.$field, $key)?),* })),)*
                    other => Err(read::ReadError::Kind(other.to_owned())),
                }
            }
        }
    };
}

event_kinds! {
    /// The first event of every run.
    Started(Started<'a>) "started" {
        /// Id of the agent, e.g. `claude-code`.
        agent "agent": Cow<'a, str>,
        /// Its version, where it is known before the agent says anything.
        agent_version "agentVersion": Option<Cow<'a, str>>,
        /// How the agent was found in the stream; absent when it is certain, or was given.
        detection "detection": Option<Detection>,
        /// How the agent composes the token counts that it shows itself; absent when its input excludes cached tokens and its
        /// output includes reasoning, as here.
        accounting "accounting": Option<Accounting>,
    }
    /// The agent says who it is and what it runs with. May come again when something of it changes.
    Session(Session<'a>) "session" derive(Default) {
        /// The agent's own id of the session, good for resuming it.
        session_id "sessionId": Option<Cow<'a, str>>,
        /// The model that answers.
        model "model": Option<Cow<'a, str>>,
        /// The working folder.
        cwd "cwd": Option<Cow<'a, str>>,
        /// The agent's version.
        agent_version "agentVersion": Option<Cow<'a, str>>,
        /// The agent's own word for what it may do unasked.
        permission_mode "permissionMode": Option<Cow<'a, str>>,
        /// Names of the tools it has.
        tools "tools": Option<Vec<Cow<'a, str>>>,
    }
    /// What the user asks. Logs on disk tell it; what an agent prints does not repeat it.
    Prompt(Prompt<'a>) "prompt" {
        /// The whole prompt.
        text "text": Cow<'a, str>,
    }
    /// A model round-trip of the main agent begins.
    TurnStart(TurnStart) "turnStart" derive(Default) {
        /// 1-based.
        turn "turn": u32,
    }
    /// It is over: the answer and its tool calls are done.
    TurnEnd(TurnEnd<'a>) "turnEnd" derive(Default) {
        /// 1-based.
        turn "turn": u32,
        /// Why the model stopped, in the agent's word.
        stop_reason "stopReason": Option<Cow<'a, str>>,
    }
    /// A piece of what the agent says. The pieces of one message joined are its text, byte for byte.
    Text(TextDelta<'a>) "text" {
        /// The next piece.
        delta "delta": Text<'a>,
        /// The message it belongs to, where the agent names its messages.
        message_id "messageId": Option<Cow<'a, str>>,
    }
    /// A piece of the model's reasoning.
    Thinking(ThinkingDelta<'a>) "thinking" {
        /// The next piece.
        delta "delta": Text<'a>,
        /// The message it belongs to.
        message_id "messageId": Option<Cow<'a, str>>,
    }
    /// A tool call begins.
    ToolStart(ToolStart<'a>) "toolStart" {
        /// Names the call; no two calls of a run share it.
        tool_call_id "toolCallId": Cow<'a, str>,
        /// The tool's name as the agent says it.
        name "name": Cow<'a, str>,
        /// The arguments as JSON text, where they are known at the start.
        input "input": Option<Cow<'a, str>>,
        /// What the tool does.
        tool_kind "toolKind": ToolKind,
        /// A line for people.
        title "title": Option<Cow<'a, str>>,
    }
    /// More is known of a tool call that is open.
    ToolUpdate(ToolUpdate<'a>) "toolUpdate" {
        /// The call.
        tool_call_id "toolCallId": Cow<'a, str>,
        /// The arguments, whole, when they came after the start.
        input "input": Option<Cow<'a, str>>,
        /// The next piece of its output.
        output_delta "outputDelta": Option<Text<'a>>,
    }
    /// A tool call ended.
    ToolEnd(ToolEnd<'a>) "toolEnd" {
        /// The call.
        tool_call_id "toolCallId": Cow<'a, str>,
        /// True exactly when `status` is `ok`.
        ok "ok": bool,
        /// What it gave back, whole.
        output "output": Option<Text<'a>>,
        /// How it ended.
        status "status": ToolStatus,
        /// Exit code of a command.
        exit_code "exitCode": Option<i32>,
        /// How long it took.
        duration_ms "durationMs": Option<u64>,
    }
    /// A file changed.
    FileChange(FileChange<'a>) "fileChange" {
        /// The path as the agent gives it.
        path "path": Cow<'a, str>,
        /// What happened to it.
        change "change": Change,
        /// The old path of a renamed file.
        from "from": Option<Cow<'a, str>>,
        /// Unified diff.
        diff "diff": Option<Text<'a>>,
        /// Lines added.
        added "added": Option<u64>,
        /// Lines removed.
        removed "removed": Option<u64>,
        /// The call that changed it.
        tool_call_id "toolCallId": Option<Cow<'a, str>>,
        /// How we know.
        source "source": ChangeSource,
    }
    /// Edits that the agent proposes and has not made.
    SuggestedEdits(SuggestedEdits<'a>) "suggestedEdits" {
        /// The edits.
        edits "edits": Vec<SuggestedEdit<'a>>,
    }
    /// The agent's list of steps, whole, as it is now.
    Plan(Plan<'a>) "plan" {
        /// The steps in order.
        items "items": Vec<PlanItem<'a>>,
    }
    /// The agent asks whether it may, or says how that was decided.
    Permission(Permission<'a>) "permission" {
        /// Names the question.
        request_id "requestId": Cow<'a, str>,
        /// The call it is about.
        tool_call_id "toolCallId": Option<Cow<'a, str>>,
        /// The question in a line.
        title "title": Cow<'a, str>,
        /// The answers that can be given.
        options "options": Option<Vec<PermissionOption<'a>>>,
        /// The answer, once there is one.
        decision "decision": Option<Cow<'a, str>>,
    }
    /// A request failed and is tried again.
    Retry(Retry<'a>) "retry" {
        /// Which attempt failed, from 1.
        attempt "attempt": u32,
        /// How many will be made.
        max_attempts "maxAttempts": Option<u32>,
        /// The wait before the next.
        delay_ms "delayMs": Option<u64>,
        /// What went wrong.
        message "message": Cow<'a, str>,
    }
    /// One line for people: progress, a warning, a line of standard error.
    Activity(Activity<'a>) "activity" {
        /// The line.
        message "message": Cow<'a, str>,
    }
    /// Tokens and cost. Classes are the same for all agents: input is what was not cached, and input, cache reads,
    /// cache writes and output are disjoint.
    Usage(Usage<'a>) "usage" {
        /// Input tokens that were neither read from nor written to the cache.
        input_tokens "inputTokens": Option<u64>,
        /// Output tokens, reasoning included.
        output_tokens "outputTokens": Option<u64>,
        /// The four disjoint classes together.
        total_tokens "totalTokens": Option<u64>,
        /// Input tokens read from the cache.
        cache_read_tokens "cacheReadTokens": Option<u64>,
        /// Input tokens written to the cache.
        cache_write_tokens "cacheWriteTokens": Option<u64>,
        /// The part of `cacheWriteTokens` that is kept for an hour.
        cache_write_1h_tokens "cacheWrite1hTokens": Option<u64>,
        /// The part of `outputTokens` that was reasoning.
        reasoning_tokens "reasoningTokens": Option<u64>,
        /// Cost in US dollars as the agent reports it.
        cost_usd "costUsd": Option<f64>,
        /// The reported cost by class, where the agent gives it.
        cost_parts "costParts": Option<CostParts>,
        /// The model that used them.
        model "model": Option<Cow<'a, str>>,
        /// What the figures cover.
        scope "scope": UsageScope,
    }
    /// The agent's answer. At most one in a run.
    Final(Final<'a>) "final" {
        /// The whole answer.
        text "text": Cow<'a, str>,
    }
    /// Something failed.
    Error(ErrorEvent<'a>) "error" {
        /// What the agent says of it.
        message "message": Cow<'a, str>,
        /// What kind of failure it is.
        class "class": Option<Cause>,
        /// Whether it ends the run.
        fatal "fatal": bool,
    }
    /// A line that no rule knows, kept as it was.
    Unrecognized(Unrecognized<'a>) "unrecognized" {
        /// The type that the line gives itself.
        r#type "type": Option<Cow<'a, str>>,
        /// The line.
        raw "raw": Cow<'a, str>,
    }
    /// The last event of every run.
    Exited(Exited<'a>) "exited" {
        /// Exit code of the process.
        exit_code "exitCode": Option<i32>,
        /// The signal that ended it, e.g. `SIGTERM`.
        signal "signal": Option<Cow<'a, str>>,
        /// Whether somebody asked it to stop.
        cancelled "cancelled": bool,
        /// How the run ended.
        outcome "outcome": Outcome,
        /// Why, when it ended badly.
        cause "cause": Option<Cause>,
        /// Which time limit it was, when the cause is `timeout`.
        timeout "timeout": Option<Timeout>,
        /// True when no process of the run is left.
        quiescent "quiescent": Option<bool>,
        /// Why the model stopped last, in the agent's word.
        stop_reason "stopReason": Option<Cow<'a, str>>,
        /// Number of turns as the agent counts them.
        turns "turns": Option<u32>,
        /// Duration of the run as the agent measured it.
        duration_ms "durationMs": Option<u64>,
        /// The part of it that was spent waiting for the model.
        api_duration_ms "apiDurationMs": Option<u64>,
    }
}

impl EventKind<'_> {
    /// The text that a full-text search looks at.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Prompt(prompt) => Some(&prompt.text),
            Self::Text(TextDelta { delta, .. }) | Self::Thinking(ThinkingDelta { delta, .. }) => Some(delta),
            Self::ToolStart(start) => start.input.as_deref(),
            Self::ToolEnd(end) => end.output.as_deref(),
            Self::Error(ErrorEvent { message, .. }) | Self::Activity(Activity { message }) => Some(message),
            _ => None,
        }
    }

    /// Appends a JSON object without the head, as [`PartialEvent`](super::PartialEvent) reads it, without a newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"");
        out.extend_from_slice(self.tag().as_bytes());
        out.push(b'"');
        self.write_fields(out);
        out.push(b'}');
    }
}

impl<'a> Started<'a> {
    /// A run of this agent.
    pub fn new(agent: impl Into<Cow<'a, str>>) -> Self {
        Self { agent: agent.into(), agent_version: None, detection: None, accounting: None }
    }
}

impl<'a> Prompt<'a> {
    /// A prompt with this text.
    pub fn new(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into() }
    }
}

impl TurnStart {
    /// The start of this turn. The decoder numbers turns itself, so dialects push the default.
    pub const fn new(turn: u32) -> Self {
        Self { turn }
    }
}

impl TurnEnd<'_> {
    /// The end of this turn. The decoder numbers turns itself, so dialects push the default.
    pub const fn new(turn: u32) -> Self {
        Self { turn, stop_reason: None }
    }
}

impl<'a> TextDelta<'a> {
    /// The next piece of the answer.
    pub fn new(delta: impl Into<Text<'a>>) -> Self {
        Self { delta: delta.into(), message_id: None }
    }
}

impl<'a> ThinkingDelta<'a> {
    /// The next piece of the reasoning.
    pub fn new(delta: impl Into<Text<'a>>) -> Self {
        Self { delta: delta.into(), message_id: None }
    }
}

impl<'a> ToolStart<'a> {
    /// The start of a call, with the kind that [`ToolKind::of_name`] gives the tool.
    pub fn new(tool_call_id: impl Into<Cow<'a, str>>, name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        Self::of_kind(ToolKind::of_name(&name), tool_call_id, name)
    }

    /// The start of a call of a tool of this kind.
    pub fn of_kind(tool_kind: ToolKind, tool_call_id: impl Into<Cow<'a, str>>, name: impl Into<Cow<'a, str>>) -> Self {
        Self { tool_call_id: tool_call_id.into(), name: name.into(), input: None, tool_kind, title: None }
    }
}

impl<'a> ToolUpdate<'a> {
    /// An update of this call.
    pub fn new(tool_call_id: impl Into<Cow<'a, str>>) -> Self {
        Self { tool_call_id: tool_call_id.into(), input: None, output_delta: None }
    }
}

impl<'a> ToolEnd<'a> {
    /// The end of this call; `ok` follows from the status.
    pub fn new(tool_call_id: impl Into<Cow<'a, str>>, status: ToolStatus) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            ok: matches!(status, ToolStatus::Ok),
            output: None,
            status,
            exit_code: None,
            duration_ms: None,
        }
    }
}

impl<'a> FileChange<'a> {
    /// A change that the agent reported.
    pub fn new(path: impl Into<Cow<'a, str>>, change: Change) -> Self {
        Self {
            path: path.into(),
            change,
            from: None,
            diff: None,
            added: None,
            removed: None,
            tool_call_id: None,
            source: ChangeSource::Reported,
        }
    }
}

impl<'a> SuggestedEdits<'a> {
    /// These edits.
    pub const fn new(edits: Vec<SuggestedEdit<'a>>) -> Self {
        Self { edits }
    }
}

impl<'a> Plan<'a> {
    /// A plan of these steps.
    pub const fn new(items: Vec<PlanItem<'a>>) -> Self {
        Self { items }
    }
}

impl<'a> Permission<'a> {
    /// A question with this id and title.
    pub fn new(request_id: impl Into<Cow<'a, str>>, title: impl Into<Cow<'a, str>>) -> Self {
        Self { request_id: request_id.into(), tool_call_id: None, title: title.into(), options: None, decision: None }
    }
}

impl<'a> Retry<'a> {
    /// The failure of this attempt, counted from 1.
    pub fn new(attempt: u32, message: impl Into<Cow<'a, str>>) -> Self {
        Self { attempt, max_attempts: None, delay_ms: None, message: message.into() }
    }
}

impl<'a> Activity<'a> {
    /// This line.
    pub fn new(message: impl Into<Cow<'a, str>>) -> Self {
        Self { message: message.into() }
    }
}

impl Usage<'_> {
    /// Usage of this scope, with nothing counted yet.
    pub const fn new(scope: UsageScope) -> Self {
        Self {
            input_tokens: None,
            output_tokens: None,
            total_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            cache_write_1h_tokens: None,
            reasoning_tokens: None,
            cost_usd: None,
            cost_parts: None,
            model: None,
            scope,
        }
    }
}

impl<'a> Final<'a> {
    /// This answer.
    pub fn new(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into() }
    }
}

impl<'a> ErrorEvent<'a> {
    /// An error that does not end the run.
    pub fn new(message: impl Into<Cow<'a, str>>) -> Self {
        Self { message: message.into(), class: None, fatal: false }
    }
}

impl<'a> Unrecognized<'a> {
    /// This line.
    pub fn new(raw: impl Into<Cow<'a, str>>) -> Self {
        Self { r#type: None, raw: raw.into() }
    }
}

impl Exited<'_> {
    /// The end of a run of which only the outcome is known.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            exit_code: None,
            signal: None,
            cancelled: outcome == Outcome::Cancelled,
            outcome,
            cause: None,
            timeout: None,
            quiescent: None,
            stop_reason: None,
            turns: None,
            duration_ms: None,
            api_duration_ms: None,
        }
    }
}
