//! THE vocabulary: what any agent's run is told in.
//!
//! One [`Event`] is one JSON object: the tag `kind`, the head that every event has (`runId`, `seq`, `at`, `line`,
//! `parentToolCallId`), and the fields of its [`EventKind`]. Keys are camelCase and absent fields are left out. The
//! table below is the only place where a kind or a field is declared; the writer, the reader, the JSON Schema and the
//! TypeScript types follow from it.

mod read;
mod records;
#[cfg(feature = "schema")]
mod schema;
mod text;
mod words;
pub(crate) mod write;

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

pub use records::{ByteRange, CostParts, PermissionOption, PlanItem, SuggestedEdit};
pub use text::Text;
pub use words::{Cause, Change, ChangeSource, Detection, Outcome, PlanStatus, Timeout, ToolKind, ToolStatus, UsageScope};

use crate::time::Timestamp;
use write::Field;

/// Names one run; cheap to clone, since every event carries it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

impl RunId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for RunId {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<'a> {
    /// The run it belongs to.
    pub run_id: RunId,
    /// Its place in the run: dense, from 1.
    pub seq: u64,
    /// When: the agent's own time where it gives one, else when the line was read, else unknown.
    pub at: Option<Timestamp>,
    /// 1-based number of the raw line that caused it.
    pub line: Option<u64>,
    /// The tool call that started the sub-agent which this happened in.
    pub parent_tool_call_id: Option<Cow<'a, str>>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// An event as another program tells it, or as it was recorded: whose it is and its place are left to the reader, and
/// what follows from the rest may be left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Told<'a> {
    /// When.
    pub at: Option<Timestamp>,
    /// The tool call that started the sub-agent which this happened in.
    pub parent_tool_call_id: Option<Cow<'a, str>>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// Names and short texts of the vocabulary: borrowed from the line where they can be.
type Word<'a> = Cow<'a, str>;

macro_rules! vocabulary {
    ($($(#[$doc:meta])* $Kind:ident $tag:literal { $($(#[$field_doc:meta])* $field:ident $key:literal: $Type:ty),* $(,)? })*) => {
        /// What happened, with the fields that only this kind has.
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(
            feature = "schema",
            derive(schemars::JsonSchema),
            schemars(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")
        )]
        #[non_exhaustive]
        pub enum EventKind<'a> {
            $($(#[$doc])* $Kind { $($(#[$field_doc])* $field: $Type),* }),*
        }

        impl<'a> EventKind<'a> {
            /// Every tag, in the order of the table.
            pub const TAGS: &'static [&'static str] = &[$($tag),*];

            /// The value of `kind` in JSON.
            pub const fn tag(&self) -> &'static str {
                match self { $(Self::$Kind { .. } => $tag),* }
            }

            /// Copies what is borrowed from the line.
            pub fn into_owned(self) -> EventKind<'static> {
                match self {
                    $(Self::$Kind { $($field),* } => EventKind::$Kind { $($field: $field.owned()),* }),*
                }
            }

            /// Hands over every text with the key of its field; what comes back takes its place.
            pub fn change_texts(&mut self, change: &mut dyn FnMut(&'static str, &str) -> Option<String>) {
                match self {
                    $(Self::$Kind { $($field),* } => {
                        $($field.change(&mut |text| change($key, text));)*
                    })*
                }
            }

            fn write_tag(&self, out: &mut Vec<u8>) {
                let start: &[u8] = match self {
                    $(Self::$Kind { .. } => concat!("{\"kind\":\"", $tag, "\",\"runId\":").as_bytes()),*
                };
                out.extend_from_slice(start);
            }

            fn write_fields(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$Kind { $($field),* } => {
                        $(if !$field.absent() {
                            out.extend_from_slice(concat!(",\"", $key, "\":").as_bytes());
                            $field.write(out);
                        })*
                    })*
                }
            }

            fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $(Self::$Kind { $($field),* } => {
                        $(if !$field.absent() {
                            map.serialize_entry($key, $field)?;
                        })*
                    })*
                }
                Ok(())
            }

            /// Picks the fields of one kind out of all the fields that an event may have.
            fn from_fields(tag: &str, fields: read::Fields<'a>) -> Result<Self, read::Unreadable> {
                match tag {
                    $($tag => Ok(Self::$Kind { $($field: read::take(fields.$field, $key)?),* }),)*
                    other => Err(read::Unreadable::Kind(other.to_owned())),
                }
            }
        }
    };
}

vocabulary! {
    /// The first event of every run.
    Started "started" {
        /// Id of the agent, e.g. `claude-code`.
        agent "agent": Word<'a>,
        /// Its version, where it is known before the agent says anything.
        agent_version "agentVersion": Option<Word<'a>>,
        /// How the agent was found in the stream; absent when it is certain, or was given.
        detection "detection": Option<Detection>,
    }
    /// The agent says who it is and what it runs with. May come again when something of it changes.
    Session "session" {
        /// The agent's own id of the session, good for resuming it.
        session_id "sessionId": Option<Word<'a>>,
        /// The model that answers.
        model "model": Option<Word<'a>>,
        /// The working folder.
        cwd "cwd": Option<Word<'a>>,
        /// The agent's version.
        agent_version "agentVersion": Option<Word<'a>>,
        /// The agent's own word for what it may do unasked.
        permission_mode "permissionMode": Option<Word<'a>>,
        /// Names of the tools it has.
        tools "tools": Option<Vec<Word<'a>>>,
    }
    /// What the user asks. Logs on disk tell it; what an agent prints does not repeat it.
    Prompt "prompt" {
        /// The whole prompt.
        text "text": Word<'a>,
    }
    /// A model round-trip of the main agent begins.
    TurnStart "turnStart" {
        /// 1-based.
        turn "turn": u32,
    }
    /// It is over: the answer and its tool calls are done.
    TurnEnd "turnEnd" {
        /// 1-based.
        turn "turn": u32,
        /// Why the model stopped, in the agent's word.
        stop_reason "stopReason": Option<Word<'a>>,
    }
    /// A piece of what the agent says. The pieces of one message joined are its text, byte for byte.
    Text "text" {
        /// The next piece.
        delta "delta": Text<'a>,
        /// The message it belongs to, where the agent names its messages.
        message_id "messageId": Option<Word<'a>>,
    }
    /// A piece of the model's reasoning.
    Thinking "thinking" {
        /// The next piece.
        delta "delta": Text<'a>,
        /// The message it belongs to.
        message_id "messageId": Option<Word<'a>>,
    }
    /// A tool call begins.
    ToolStart "toolStart" {
        /// Names the call; no two calls of a run share it.
        tool_call_id "toolCallId": Word<'a>,
        /// The tool's name as the agent says it.
        name "name": Word<'a>,
        /// The arguments as JSON text, where they are known at the start.
        input "input": Option<Word<'a>>,
        /// What the tool does.
        tool_kind "toolKind": ToolKind,
        /// A line for people.
        title "title": Option<Word<'a>>,
    }
    /// More is known of a tool call that is open.
    ToolUpdate "toolUpdate" {
        /// The call.
        tool_call_id "toolCallId": Word<'a>,
        /// The arguments, whole, when they came after the start.
        input "input": Option<Word<'a>>,
        /// The next piece of its output.
        output_delta "outputDelta": Option<Text<'a>>,
    }
    /// A tool call ended.
    ToolEnd "toolEnd" {
        /// The call.
        tool_call_id "toolCallId": Word<'a>,
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
    FileChange "fileChange" {
        /// The path as the agent gives it.
        path "path": Word<'a>,
        /// What happened to it.
        change "change": Change,
        /// The old path of a renamed file.
        from "from": Option<Word<'a>>,
        /// Unified diff.
        diff "diff": Option<Text<'a>>,
        /// Lines added.
        added "added": Option<u64>,
        /// Lines removed.
        removed "removed": Option<u64>,
        /// The call that changed it.
        tool_call_id "toolCallId": Option<Word<'a>>,
        /// How we know.
        source "source": ChangeSource,
    }
    /// Edits that the agent proposes and has not made.
    SuggestedEdits "suggestedEdits" {
        /// The edits.
        edits "edits": Vec<SuggestedEdit<'a>>,
    }
    /// The agent's list of steps, whole, as it is now.
    Plan "plan" {
        /// The steps in order.
        items "items": Vec<PlanItem<'a>>,
    }
    /// The agent asks whether it may, or says how that was decided.
    Permission "permission" {
        /// Names the question.
        request_id "requestId": Word<'a>,
        /// The call it is about.
        tool_call_id "toolCallId": Option<Word<'a>>,
        /// The question in a line.
        title "title": Word<'a>,
        /// The answers that can be given.
        options "options": Option<Vec<PermissionOption<'a>>>,
        /// The answer, once there is one.
        decision "decision": Option<Word<'a>>,
    }
    /// A request failed and is tried again.
    Retry "retry" {
        /// Which attempt failed, from 1.
        attempt "attempt": u32,
        /// How many will be made.
        max_attempts "maxAttempts": Option<u32>,
        /// The wait before the next.
        delay_ms "delayMs": Option<u64>,
        /// What went wrong.
        message "message": Word<'a>,
    }
    /// One line for people: progress, a warning, a line of standard error.
    Activity "activity" {
        /// The line.
        message "message": Word<'a>,
    }
    /// Tokens and cost. Classes are the same for all agents: input is what was not cached, and input, cache reads,
    /// cache writes and output are disjoint.
    Usage "usage" {
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
        model "model": Option<Word<'a>>,
        /// What the figures cover.
        scope "scope": UsageScope,
    }
    /// The agent's answer. At most one in a run.
    Final "final" {
        /// The whole answer.
        text "text": Word<'a>,
    }
    /// Something failed.
    Error "error" {
        /// What the agent says of it.
        message "message": Word<'a>,
        /// What kind of failure it is.
        class "class": Option<Cause>,
        /// Whether it ends the run.
        fatal "fatal": bool,
    }
    /// A line that no rule knows, kept as it was.
    Unrecognized "unrecognized" {
        /// The type that the line gives itself.
        r#type "type": Option<Word<'a>>,
        /// The line.
        raw "raw": Word<'a>,
    }
    /// The last event of every run.
    Exited "exited" {
        /// Exit code of the process.
        exit_code "exitCode": Option<i32>,
        /// The signal that ended it, e.g. `SIGTERM`.
        signal "signal": Option<Word<'a>>,
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
        stop_reason "stopReason": Option<Word<'a>>,
        /// Number of turns as the agent counts them.
        turns "turns": Option<u32>,
        /// Duration of the run as the agent measured it.
        duration_ms "durationMs": Option<u64>,
        /// The part of it that was spent waiting for the model.
        api_duration_ms "apiDurationMs": Option<u64>,
    }
}

impl EventKind<'_> {
    /// The end of a run of which no more is known than how it went: no process of it was seen to end.
    pub fn exited(outcome: Outcome, cause: Option<Cause>) -> EventKind<'static> {
        EventKind::Exited {
            exit_code: None,
            signal: None,
            cancelled: outcome == Outcome::Cancelled,
            outcome,
            cause,
            timeout: None,
            quiescent: None,
            stop_reason: None,
            turns: None,
            duration_ms: None,
            api_duration_ms: None,
        }
    }

    /// The text that people said or saw here, where one would look for words.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Prompt { text } => Some(text),
            Self::Text { delta, .. } | Self::Thinking { delta, .. } => Some(delta),
            Self::ToolStart { input, .. } => input.as_deref(),
            Self::ToolEnd { output, .. } => output.as_deref(),
            Self::Error { message, .. } | Self::Activity { message } => Some(message),
            _ => None,
        }
    }

    /// Appends one JSON object without the head, as [`Told`] reads it; no line end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"");
        out.extend_from_slice(self.tag().as_bytes());
        out.push(b'"');
        self.write_fields(out);
        out.push(b'}');
    }
}

impl<'a> Event<'a> {
    /// The emptied list for another line's events, with the memory that it has.
    pub fn recycle<'b>(mut events: Vec<Event<'a>>) -> Vec<Event<'b>> {
        events.clear();
        // Collecting an empty vector into one of the same layout keeps its allocation.
        events.into_iter().map(|_: Event<'a>| unreachable!("the list is empty")).collect()
    }

    /// Copies what is borrowed from the line.
    pub fn into_owned(self) -> Event<'static> {
        let Self { run_id, seq, at, line, parent_tool_call_id, kind } = self;
        Event { run_id, seq, at, line, parent_tool_call_id: parent_tool_call_id.owned(), kind: kind.into_owned() }
    }

    /// Appends the event as one JSON object, without a line end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.kind.write_tag(out);
        write::string(self.run_id.as_str(), out);
        out.extend_from_slice(b",\"seq\":");
        write::integer(self.seq, out);
        if let Some(at) = self.at {
            use std::io::Write as _;
            // Writing to a vector cannot fail.
            let _ = write!(out, ",\"at\":\"{at}\"");
        }
        if let Some(line) = self.line {
            out.extend_from_slice(b",\"line\":");
            write::integer(line, out);
        }
        if let Some(parent) = &self.parent_tool_call_id {
            out.extend_from_slice(b",\"parentToolCallId\":");
            write::string(parent, out);
        }
        self.kind.write_fields(out);
        out.push(b'}');
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind.tag())?;
        map.serialize_entry("runId", self.run_id.as_str())?;
        map.serialize_entry("seq", &self.seq)?;
        if let Some(at) = self.at {
            map.serialize_entry("at", &at)?;
        }
        if let Some(line) = self.line {
            map.serialize_entry("line", &line)?;
        }
        if let Some(parent) = &self.parent_tool_call_id {
            map.serialize_entry("parentToolCallId", parent)?;
        }
        self.kind.serialize_fields(&mut map)?;
        map.end()
    }
}
