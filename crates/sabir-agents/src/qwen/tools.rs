//! Tool calls: arguments, results and permissions.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::event::{Permission, Plan, ToolEnd, ToolKind, ToolStart, ToolStatus};
use serde_json::value::RawValue;

use super::wire::Denial;
use crate::family::anthropic::tools::{content_text, plan};
use crate::family::anthropic::wire::Block;

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
    let output = block.content.map(|content| content_text(*content));
    let (status, exit_code) = if block.is_error == Some(true) {
        let text = output.as_deref().unwrap_or_default();
        let status = if text.starts_with("[Operation Cancelled]") {
            ToolStatus::Cancelled
        } else if is_denied(text) {
            ToolStatus::Denied
        } else {
            ToolStatus::Error
        };
        (status, exit_code(text))
    } else {
        (ToolStatus::Ok, None)
    };
    facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
}

/// Whether the first line of the output of a failed call says that the call was denied.
pub(super) fn is_denied(output: &str) -> bool {
    let head = output.lines().next().unwrap_or_default();
    head.contains(" requires permission to use ") && head.contains("permission was d")
}

/// Reads the exit code from the report of a failed command. The report contains the output, so its last such line counts.
pub(super) fn exit_code(report: &str) -> Option<i32> {
    report.strip_prefix("Command: ")?;
    report.lines().rev().find_map(|line| line.strip_prefix("Exit Code: "))?.trim().parse().ok()
}

/// Pushes the denied calls of a `result` line.
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
    use super::{exit_code, is_denied};

    #[test]
    fn exit_code_is_read_from_reports_only() {
        assert_eq!(exit_code("Command: x\nOutput: Exit Code: 9\nExit Code: 3\nSignal: (none)"), Some(3));
        assert_eq!(exit_code("it said\nExit Code: 3"), None);
        assert_eq!(exit_code("Command: x\nExit Code: (none)"), None);
    }

    #[test]
    fn is_denied_reads_the_first_line() {
        assert!(is_denied("Qwen Code requires permission to use \"edit\", but that permission was declined."));
        assert!(!is_denied("grep found:\n requires permission to use x, permission was declined"));
    }
}
