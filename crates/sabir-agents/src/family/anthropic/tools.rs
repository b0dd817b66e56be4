//! Arguments and results of tool calls.

use sabir_core::event::{PlanItem, PlanStatus, Text};
use sabir_core::json::{self, TextOr, Unread};
use serde_json::value::RawValue;

use super::wire::{Part, Todos};

/// Reads the plan from the arguments of the to-do tool.
pub(crate) fn plan(input: &RawValue) -> Option<Vec<PlanItem<'_>>> {
    let status = |status: Option<&str>| match status {
        Some("completed") => PlanStatus::Completed,
        Some("in_progress") => PlanStatus::InProgress,
        Some("cancelled") => PlanStatus::Cancelled,
        _ => PlanStatus::Pending,
    };
    let todos = json::parse::<Todos<'_>>(input.get())?.todos.into_iter();
    Some(todos.map(|todo| PlanItem { status: status(todo.status.as_deref()), text: todo.content.into() }).collect())
}

/// Returns the text of a tool result, which is a string, a part or a list of parts.
pub(crate) fn content_text(content: TextOr<'_>) -> Text<'_> {
    let Unread(other) = match content {
        TextOr::Text(text) => return text,
        TextOr::Other(other) => other,
    };
    let parts = json::parse::<Vec<Part<'_>>>(other).or_else(|| json::parse(other).map(|part| vec![part]));
    let Some(parts) = parts else { return Text::from(other) };
    let texts = parts.into_iter().filter_map(|part| match part {
        Part { text: Some(text), .. } => Some(text.to_string()),
        Part { title: Some(title), url: Some(url), .. } => Some(format!("{} {}", &*title, &*url)),
        Part { url, .. } => url.map(|url| url.to_string()),
    });
    Text::from(texts.collect::<Vec<_>>().join("\n"))
}
