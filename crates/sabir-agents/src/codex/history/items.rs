//! Items that newer versions keep beside what the model said and was shown: what a call really did, whole.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, ToolKind, ToolStart, ToolStatus};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::calls;
use super::whole::Log;
use crate::codex::{report, shell};

/// All fields of all types of items.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    status: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    content: Option<Vec<Block<'a>>>,
    // CommandExecution
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    command: Option<Vec<Str<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    aggregated_output: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    exit_code: Option<i32>,
    // FileChange
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    changes: Option<BTreeMap<Str<'a>, FileUpdate<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    stdout: Option<Str<'a>>,
    // McpToolCall, CollabAgentToolCall
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    server: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    tool: Option<Str<'a>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    receiver_thread_ids: Option<Vec<Str<'a>>>,
    // SubAgentActivity
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    kind: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    agent_thread_id: Option<Str<'a>>,
    // WebSearch
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    query: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow)]
    message: Str<'a>,
}

#[derive(Deserialize)]
struct FileUpdate<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    content: Option<Str<'a>>,
    #[serde(borrow, default)]
    unified_diff: Option<Str<'a>>,
    #[serde(borrow, default)]
    move_path: Option<Str<'a>>,
}

#[derive(Serialize)]
struct Search<'c> {
    query: &'c str,
}

impl Log {
    /// An item is complete. The item of a call has its id; the call's result, which comes after it, says no more.
    pub(super) fn item<'a>(&mut self, item: Item<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let id = Cow::from(item.id);
        match &*item.r#type {
            "UserMessage" => {
                let blocks = item.content.unwrap_or_default();
                let texts: Vec<&str> = blocks.iter().filter_map(|block| block.text.as_deref()).collect();
                self.prompt(Cow::Owned(texts.join("\n")), facts);
            }
            "CommandExecution" => {
                let command = shell::join(item.command.iter().flatten().map(|word| &**word));
                facts.push(report::command_start(id.clone(), "command_execution", &command, None));
                let status = status(item.status.as_deref(), item.exit_code);
                self.over(id, item.aggregated_output.map(Cow::from), status, item.exit_code, facts);
            }
            "FileChange" => {
                let start = (Cow::Borrowed("file_change"), ToolKind::Edit, None, None);
                facts.push(started(id.clone(), start));
                let status = status(item.status.as_deref(), None);
                if status == ToolStatus::Ok {
                    let changes = item.changes.into_iter().flatten();
                    changes.for_each(|(path, update)| facts.push(file_change(id.clone(), path, update)));
                }
                self.over(id, item.stdout.map(Cow::from), status, None, facts);
            }
            "McpToolCall" => {
                let name = [item.server, item.tool].map(Option::unwrap_or_default);
                let name = Cow::Owned(format!("{}.{}", &*name[0], &*name[1]));
                let input = item.arguments.map(|arguments| Cow::Borrowed(arguments.get()));
                facts.push(started(id.clone(), (name, ToolKind::Mcp, input, None)));
                let failure = item.error.map(|error| Cow::from(error.message));
                let (output, is_error) = item.result.map_or((None, false), |result| report::mcp_output(result.get()));
                let status = if is_error { ToolStatus::Error } else { status(item.status.as_deref(), None) };
                self.over(id, failure.or(output), status, None, facts);
            }
            "WebSearch" => {
                let query = item.query.as_deref().filter(|query| !query.is_empty());
                let input = query.and_then(|query| report::arguments(&Search { query }));
                let title = query.and_then(report::title).map(|line| Cow::Owned(line.to_owned()));
                facts.push(started(id.clone(), (Cow::Borrowed("web_search"), ToolKind::Fetch, input, title)));
                self.over(id, None, ToolStatus::Ok, None, facts);
            }
            "CollabAgentToolCall" => {
                if item.tool.as_deref() == Some("spawn_agent") {
                    let threads = item.receiver_thread_ids.into_iter().flatten();
                    threads.for_each(|thread| drop(self.agents.insert(thread.to_string(), id.to_string())));
                }
            }
            "SubAgentActivity" => {
                if let (Some("started"), Some(thread)) = (item.kind.as_deref(), item.agent_thread_id) {
                    self.agents.insert(thread.to_string(), id.into_owned());
                }
            }
            // What the model said and thought, in other words; its context, shortened; pictures it looked at.
            "AgentMessage" | "Reasoning" | "Plan" | "ContextCompaction" | "ImageView" | "HookPrompt" => {}
            other => facts.unrecognized(Some(Cow::Owned(format!("item_completed/{other}"))), line),
        }
    }

    fn over<'a>(
        &mut self,
        id: Cow<'a, str>,
        output: Option<Cow<'a, str>>,
        status: ToolStatus,
        exit_code: Option<i32>,
        facts: &mut Facts<'a>,
    ) {
        self.overtake();
        let known = self.calls.entry(id.to_string()).or_default();
        if !std::mem::replace(&mut known.over, true) {
            facts.push(calls::end(id, output.map(Into::into), status, exit_code));
        }
    }
}

type Start<'a> = (Cow<'a, str>, ToolKind, Option<Cow<'a, str>>, Option<Cow<'a, str>>);

/// The start, for calls that a program of the model makes: they are only told here.
fn started<'a>(tool_call_id: Cow<'a, str>, (name, tool_kind, input, title): Start<'a>) -> ToolStart<'a> {
    ToolStart::of_kind(tool_kind, tool_call_id, name).input(input).title(title)
}

fn status(word: Option<&str>, exit_code: Option<i32>) -> ToolStatus {
    match word {
        Some("failed") => ToolStatus::Error,
        Some("declined") => ToolStatus::Denied,
        Some("interrupted" | "cancelled") => ToolStatus::Cancelled,
        _ if exit_code.is_some_and(|code| code != 0) => ToolStatus::Error,
        _ => ToolStatus::Ok,
    }
}

fn file_change<'a>(id: Cow<'a, str>, path: Str<'a>, update: FileUpdate<'a>) -> FileChange<'a> {
    let content = update.content.as_deref();
    let (change, diff) = match &*update.r#type {
        "add" => (Change::Create, content.map(|content| diff::of_new_file(&path, &content.into()))),
        "delete" => (Change::Delete, content.map(|content| report::diff_of_deleted(&path, content))),
        _ => {
            let to = update.move_path.as_deref().unwrap_or(&path);
            (Change::Update, update.unified_diff.as_deref().map(|patch| report::diff_of_patch(&path, to, patch)))
        }
    };
    match update.move_path {
        Some(to) => report::changed(to.into(), Change::Rename, Some(path.into()), diff, id),
        None => report::changed(path.into(), change, None, diff, id),
    }
}
