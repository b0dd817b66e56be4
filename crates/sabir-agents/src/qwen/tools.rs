//! Tool calls: their arguments, results and permissions.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::event::{Permission, Plan, PlanItem, PlanStatus, Text, ToolEnd, ToolKind, ToolStart, ToolStatus};
use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Block, Denial};

pub(super) fn tool_start<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
    let name: Cow<'a, str> = block.name.map(Cow::from).unwrap_or_default();
    let tool_kind = ToolKind::of_name(&name);
    let plan = block.input.filter(|_| tool_kind == ToolKind::Plan).and_then(plan);
    facts.push(
        ToolStart::of_kind(tool_kind, block.id.map(Cow::from).unwrap_or_default(), name).input(block.input.map(RawValue::get)),
    );
    if let Some(items) = plan {
        facts.push(Plan::new(items));
    }
}

pub(super) fn tool_end<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
    let Some(id) = block.tool_use_id else { return };
    let output = block.content.map(content_text);
    let shown = output.as_deref().unwrap_or_default();
    let failed = block.is_error == Some(true);
    let exit_code = Some(shown).filter(|_| failed).and_then(exit_code);
    let status = match failed {
        false => ToolStatus::Ok,
        true if shown.starts_with("[Operation Cancelled]") => ToolStatus::Cancelled,
        true if refused(shown) => ToolStatus::Denied,
        true => ToolStatus::Error,
    };
    facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
}

/// A call that was not allowed is a failed one whose first line says so.
pub(super) fn refused(shown: &str) -> bool {
    let head = shown.lines().next().unwrap_or_default();
    head.contains(" requires permission to use ") && head.contains("permission was d")
}

/// The report of a failed command has one line per fact; the output stands between them, so the last one counts.
pub(super) fn exit_code(report: &str) -> Option<i32> {
    report.strip_prefix("Command: ")?;
    report.lines().rev().find_map(|line| line.strip_prefix("Exit Code: "))?.trim().parse().ok()
}

/// The text of a tool's result, which is a string or a list of parts.
fn content_text(content: &RawValue) -> Text<'_> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, default)]
        text: Option<Str<'a>>,
    }
    if let Some(text) = Text::from_json(content) {
        return text;
    }
    let Some(parts) = json::parse::<Vec<Part<'_>>>(content.get()) else { return Text::from(content.get()) };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
    Text::from(texts.join("\n"))
}

/// The steps of `todo_write`.
pub(super) fn plan(input: &RawValue) -> Option<Vec<PlanItem<'_>>> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        todos: Vec<Todo<'a>>,
    }
    #[derive(Deserialize)]
    struct Todo<'a> {
        #[serde(borrow)]
        content: Str<'a>,
        #[serde(borrow, default)]
        status: Option<Str<'a>>,
    }
    let status = |word: Option<&str>| match word {
        Some("completed") => PlanStatus::Completed,
        Some("in_progress") => PlanStatus::InProgress,
        Some("cancelled") => PlanStatus::Cancelled,
        _ => PlanStatus::Pending,
    };
    let arguments: Arguments<'_> = json::parse(input.get())?;
    let items = arguments.todos.into_iter();
    Some(items.map(|todo| PlanItem { status: status(todo.status.as_deref()), text: todo.content.into() }).collect())
}

/// What a result says of calls that were not allowed.
pub(super) fn denials<'a>(denials: Vec<Denial<'a>>, facts: &mut Facts<'a>) {
    for denial in denials {
        let call: Cow<'a, str> = denial.tool_use_id.into();
        facts.push(
            Permission::new(call.clone(), denial.tool_name.map(Cow::from).unwrap_or_default())
                .tool_call_id(call)
                .decision("denied"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{exit_code, refused};

    #[test]
    fn a_report_tells_the_exit_code_and_an_output_does_not() {
        assert_eq!(exit_code("Command: x\nOutput: Exit Code: 9\nExit Code: 3\nSignal: (none)"), Some(3));
        assert_eq!(exit_code("it said\nExit Code: 3"), None);
        assert_eq!(exit_code("Command: x\nExit Code: (none)"), None);
    }

    #[test]
    fn a_refusal_is_told_in_the_first_line() {
        assert!(refused("Qwen Code requires permission to use \"edit\", but that permission was declined."));
        assert!(!refused("grep found:\n requires permission to use x, permission was declined"));
    }
}
