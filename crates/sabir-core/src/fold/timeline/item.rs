//! What a timeline is made of.

use serde::{Deserialize, Serialize};

use crate::cut;
use crate::event::{
    ByteRange, Cause, Change as FileChangeKind, ChangeSource, Outcome, PermissionOption, PlanItem, PlanStatus, SuggestedEdit,
    ToolKind, ToolStatus,
};
use crate::fold::TokensReport;
use crate::time::Timestamp;

/// One thing that a person sees: a message, a tool call, a changed file, a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Its place in the timeline, from 0. Items never move.
    pub id: u64,
    /// The number of the event that it began with: the number of its message in a log.
    pub first: u64,
    /// The number of the event that changed it last. Of a tool call that is over it is the one that has all of the output.
    pub last: u64,
    /// The `seq` of the event that it began with. Missing where it was not made from an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The `seq` of the event that changed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// When it last changed, if that is later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The raw line of the agent that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Which run of the session, from 1.
    pub run: u32,
    /// In which turn of the run, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The item of the tool call that started the sub-agent which this happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// What it is.
    pub what: What,
}

/// What an item is, with what only such an item has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum What {
    /// A run begins.
    Run {
        /// Id of the agent.
        agent: String,
        /// Its version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_version: Option<String>,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The working folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The agent's own id of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
    },
    /// What the user asks.
    Prompt {
        /// The prompt.
        text: Clip,
    },
    /// A turn of the main agent.
    Turn {
        /// Why the model stopped, once the turn is over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// What it used; several responses of one turn together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<TokensReport>,
        /// What that costs in dollars.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// What the agent says.
    Text {
        /// The text so far.
        text: Clip,
        /// Whether it is the answer of the run.
        answer: bool,
    },
    /// The model's reasoning.
    Thinking {
        /// The text so far.
        text: Clip,
    },
    /// A tool call.
    Tool {
        /// The agent's id of the call.
        call: String,
        /// The tool's name.
        name: String,
        /// What it does.
        tool_kind: ToolKind,
        /// A line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The arguments as JSON text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Clip>,
        /// What it gave back so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Clip>,
        /// How it ended; nothing while it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ToolStatus>,
        /// Exit code of a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// How long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// A file changed.
    File {
        /// The path as the agent gives it.
        path: String,
        /// What happened to it.
        change: FileChangeKind,
        /// The old path of a renamed file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Unified diff.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<Clip>,
        /// Lines added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        added: Option<u64>,
        /// Lines removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        removed: Option<u64>,
        /// The item of the call that changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<u64>,
        /// How it is known.
        source: ChangeSource,
    },
    /// Edits that the agent proposes.
    Edits {
        /// The edits.
        edits: Vec<Edit>,
    },
    /// The agent's list of steps. One item in a run, which changes.
    Plan {
        /// The steps in order.
        items: Vec<Step>,
    },
    /// The agent asks whether it may.
    Permission {
        /// Names the question.
        request: String,
        /// The question in a line.
        title: String,
        /// The answers that can be given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<Choice>,
        /// The answer, once there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<String>,
        /// The item of the call that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<u64>,
    },
    /// A request failed and is tried again.
    Retry {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How many will be made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_attempts: Option<u32>,
        /// The wait before the next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay_ms: Option<u64>,
        /// What went wrong.
        message: String,
    },
    /// One line for people.
    Activity {
        /// The line.
        message: String,
    },
    /// Something failed.
    Error {
        /// What the agent says of it.
        message: String,
        /// What kind of failure it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<Cause>,
        /// Whether it ends the run.
        fatal: bool,
    },
    /// A line that no rule knows.
    Unrecognized {
        /// The type that the line gives itself.
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        of: Option<String>,
        /// The line.
        raw: Clip,
    },
    /// A run is over.
    End {
        /// How.
        outcome: Outcome,
        /// Why, when it ended badly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
        /// Exit code of the process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// Duration of the run as the agent measured it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// What the run used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<TokensReport>,
        /// What that costs in dollars.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
}

impl What {
    /// Whether something went wrong here: what "next error" looks for.
    pub fn is_trouble(&self) -> bool {
        match self {
            Self::Error { .. } | Self::Unrecognized { .. } => true,
            // What somebody stopped on purpose did not go wrong.
            Self::Tool { status: Some(status), .. } => !matches!(status, ToolStatus::Ok | ToolStatus::Cancelled),
            Self::End { outcome, .. } => !matches!(outcome, Outcome::Completed | Outcome::Cancelled),
            _ => false,
        }
    }
}

/// An edit that the agent proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// The file.
    pub file_path: String,
    /// What to replace.
    pub range: ByteRange,
    /// What to put there.
    pub replacement: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl From<&SuggestedEdit<'_>> for Edit {
    fn from(edit: &SuggestedEdit<'_>) -> Self {
        let SuggestedEdit { file_path, range, replacement, title } = edit;
        let title = title.as_deref().map(str::to_owned);
        Self { file_path: file_path.to_string(), range: *range, replacement: replacement.to_string(), title }
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The step.
    pub text: String,
    /// How far it is.
    pub status: PlanStatus,
}

impl From<&PlanItem<'_>> for Step {
    fn from(item: &PlanItem<'_>) -> Self {
        Self { text: item.text.to_string(), status: item.status }
    }
}

/// One answer that a question can be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// What to send back.
    pub id: String,
    /// What it means.
    pub label: String,
}

impl From<&PermissionOption<'_>> for Choice {
    fn from(option: &PermissionOption<'_>) -> Self {
        Self { id: option.id.to_string(), label: option.label.to_string() }
    }
}

/// A text, or its beginning and its end when it is long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clip {
    /// The text, or its beginning.
    pub text: String,
    /// Its end, when something between was left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// How many bytes it has in all.
    pub size: u64,
}

impl Clip {
    /// Keeps at most `head` bytes of the beginning and, where that is not all, as many of the end.
    pub fn of(text: &str, head: usize) -> Self {
        let mut clip = Self::default();
        clip.push(text, head);
        clip
    }

    /// Whether something was left out.
    pub fn is_cut(&self) -> bool {
        self.size > (self.text.len() + self.tail.len()) as u64
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &str, head: usize) {
        // A text that left something out, or overflowed into its tail, never goes on at its beginning.
        let room = if self.size == self.text.len() as u64 { head.saturating_sub(self.text.len()) } else { 0 };
        let (begins, rest) = piece.split_at(cut::before(piece, room));
        self.size += piece.len() as u64;
        self.text.push_str(begins);
        if rest.len() >= head {
            self.tail.clear();
            self.tail.push_str(&rest[cut::after(rest, rest.len() - head)..]);
            return;
        }
        self.tail.push_str(rest);
        // Cut now and then, not at every piece.
        if self.tail.len() > 2 * head {
            let from = cut::after(&self.tail, self.tail.len() - head);
            self.tail.drain(..from);
        }
    }
}
