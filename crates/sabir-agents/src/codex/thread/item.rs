//! The items of a thread: what the agent says, thinks and does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{
    Change, ErrorEvent, FileChange, Plan, PlanItem, PlanStatus, TextDelta, ThinkingDelta, ToolEnd, ToolKind, ToolStart,
    ToolStatus,
};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Thread;
use crate::codex::report;

/// Where an item is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Started,
    Updated,
    Completed,
}

/// All fields of all types of items.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow, alias = "item_type")]
    r#type: Option<Str<'a>>,
    // agent_message, reasoning, plan
    #[serde(borrow)]
    text: Option<Str<'a>>,
    // command_execution
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    command: Option<Str<'a>>,
    #[serde(borrow)]
    aggregated_output: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    exit_code: Option<i32>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    status: Option<Str<'a>>,
    // file_change
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
    // mcp_tool_call, collab_tool_call
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    server: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    tool: Option<Str<'a>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    prompt: Option<Str<'a>>,
    #[serde(borrow)]
    receiver_thread_ids: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    agents_states: Option<BTreeMap<Str<'a>, AgentState<'a>>>,
    // web_search
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    query: Option<Str<'a>>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    // todo_list
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    items: Option<Vec<Todo<'a>>>,
    // error
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct FileUpdate<'a> {
    #[serde(borrow)]
    path: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    kind: Option<Str<'a>>,
    /// A patch, or the whole text of a file that is new or gone.
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    diff: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct AgentState<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Todo<'a> {
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(default)]
    completed: bool,
}

impl Thread {
    pub(super) fn item<'a>(&mut self, mut item: Item<'a>, stage: Stage, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some((id, r#type)) = item.id.take().zip(item.r#type.take()) else { return json::unrecognized(line, facts) };
        let id = Cow::from(id);
        match r#type.as_ref() {
            "agent_message" | "assistant_message" | "plan" => {
                let text = item.text.map(Cow::from).unwrap_or_default();
                let text = if stage == Stage::Completed { self.answer.message(text) } else { text };
                let delta = self.growing.news(&id, text);
                facts.push(TextDelta::new(delta).message_id(id));
            }
            "reasoning" => {
                let delta = self.growing.news(&id, item.text.map(Cow::from).unwrap_or_default());
                facts.push(ThinkingDelta::new(delta).message_id(id));
            }
            "todo_list" => self.todo_list(item.items.unwrap_or_default(), facts),
            "error" => {
                let message = item.message.or(item.text).map(Cow::from).unwrap_or_default();
                facts.push(ErrorEvent::new(message));
            }
            "command_execution" | "file_change" | "mcp_tool_call" | "collab_tool_call" | "web_search" => {
                self.answer.overtake();
                facts.push(start(&id, &r#type, &item));
                if stage == Stage::Completed {
                    end(id, &r#type, item, facts);
                }
            }
            other => {
                let stage = match stage {
                    Stage::Started => "started",
                    Stage::Updated => "updated",
                    Stage::Completed => "completed",
                };
                facts.unrecognized(Some(Cow::Owned(format!("item.{stage}/{other}"))), line);
            }
        }
    }

    /// The list is printed again when the turn ends; what does not change is not said again.
    fn todo_list<'a>(&mut self, todos: Vec<Todo<'a>>, facts: &mut Facts<'a>) {
        let step = |todo: Todo<'a>| PlanItem {
            text: todo.text.into(),
            status: if todo.completed { PlanStatus::Completed } else { PlanStatus::Pending },
        };
        let items: Vec<PlanItem<'a>> = todos.into_iter().map(step).collect();
        if items != self.plan {
            self.plan = items.iter().cloned().map(PlanItem::into_owned).collect();
            facts.push(Plan::new(items));
        }
    }
}

/// The start of a tool call. It comes with every stage, because some versions print only the last one; the decoder
/// passes on what is new.
fn start<'a>(id: &Cow<'a, str>, r#type: &str, item: &Item<'a>) -> ToolStart<'a> {
    let (name, tool_kind, input, title) = match r#type {
        "command_execution" => {
            let command = item.command.as_deref().unwrap_or_default();
            return report::command_start(id.clone(), "command_execution", command, None);
        }
        "file_change" => {
            let input = item.changes.and_then(|changes| report::arguments(&Changes { changes }));
            (Cow::Borrowed("file_change"), ToolKind::Edit, input, None)
        }
        "mcp_tool_call" => {
            let name = format!("{}.{}", item.server.as_deref().unwrap_or_default(), item.tool.as_deref().unwrap_or_default());
            (Cow::Owned(name), ToolKind::Mcp, item.arguments.map(|arguments| Cow::Borrowed(arguments.get())), None)
        }
        "collab_tool_call" => {
            let name = item.tool.clone().map_or(Cow::Borrowed("collab_tool_call"), Cow::from);
            let (prompt, receiver_thread_ids) = (item.prompt.as_deref(), item.receiver_thread_ids);
            (name, ToolKind::Delegate, report::arguments(&Delegation { prompt, receiver_thread_ids }), prompt)
        }
        _ => {
            // The search is printed before its query is known.
            let query = item.query.as_deref().filter(|query| !query.is_empty());
            let input = query.and_then(|query| report::arguments(&Search { query, action: item.action }));
            (Cow::Borrowed("web_search"), ToolKind::Fetch, input, query)
        }
    };
    let title = title.and_then(report::title).map(|line| Cow::Owned(line.to_owned()));
    ToolStart::of_kind(tool_kind, id.clone(), name).input(input).title(title)
}

#[derive(Serialize)]
struct Changes<'c> {
    changes: &'c RawValue,
}

#[derive(Serialize)]
struct Delegation<'c> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'c str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver_thread_ids: Option<&'c RawValue>,
}

#[derive(Serialize)]
struct Search<'c> {
    query: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'c RawValue>,
}

fn end<'a>(id: Cow<'a, str>, r#type: &str, item: Item<'a>, facts: &mut Facts<'a>) {
    let status = status(item.status.as_deref(), item.exit_code);
    let output = match r#type {
        "command_execution" => item.aggregated_output.map(Cow::from),
        "mcp_tool_call" => {
            let failure = item.error.and_then(|error| error.message).map(Cow::from);
            failure.or_else(|| item.result.and_then(|result| report::mcp_output(result.get()).0))
        }
        "collab_tool_call" => {
            let agents = item.agents_states.unwrap_or_default();
            let messages = agents.values().filter_map(|agent| agent.message.as_deref());
            let joined = messages.collect::<Vec<_>>().join("\n");
            (!joined.is_empty()).then_some(Cow::Owned(joined))
        }
        "file_change" => {
            if status == ToolStatus::Ok {
                let updates: Option<Vec<FileUpdate<'a>>> = item.changes.and_then(|changes| json::parse(changes.get()));
                updates.into_iter().flatten().for_each(|update| facts.push(file_change(&id, update)));
            }
            None
        }
        _ => None,
    };
    facts.push(ToolEnd::new(id, status).output(output).exit_code(item.exit_code));
}

fn status(word: Option<&str>, exit_code: Option<i32>) -> ToolStatus {
    match word {
        Some("failed" | "errored" | "error") => ToolStatus::Error,
        Some("declined" | "denied") => ToolStatus::Denied,
        Some("interrupted" | "cancelled") => ToolStatus::Cancelled,
        Some("in_progress") => ToolStatus::Unfinished,
        _ if exit_code.is_some_and(|code| code != 0) => ToolStatus::Error,
        _ => ToolStatus::Ok,
    }
}

fn file_change<'a>(id: &Cow<'a, str>, update: FileUpdate<'a>) -> FileChange<'a> {
    let change = match update.kind.as_deref() {
        Some("add" | "create") => Change::Create,
        Some("delete") => Change::Delete,
        _ => Change::Update,
    };
    let text = update.diff.as_deref();
    let diff = text.map(|text| match change {
        _ if ["@@", "--- ", "diff "].iter().any(|start| text.starts_with(start)) => {
            report::diff_of_patch(&update.path, &update.path, text)
        }
        Change::Create => diff::of_new_file(&update.path, &text.into()),
        Change::Delete => report::diff_of_deleted(&update.path, text),
        _ => report::diff_of_patch(&update.path, &update.path, text),
    });
    report::changed(update.path.into(), change, None, diff, id.clone())
}
