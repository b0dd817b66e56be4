//! Tool calls: arguments, results, file changes and permissions.

use std::borrow::Cow;
use std::fmt::Write as _;

use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, Permission, PermissionOption, Plan, ToolEnd, ToolStart, ToolStatus};
use sabir_core::json::{self, Str};
use serde_json::value::RawValue;

use super::wire::{Control, PermissionDecision, ToolResultMeta};
use crate::family::anthropic::tools::{content_text, plan};
use crate::family::anthropic::wire::{Block, FileResult, Structured};

pub(super) fn tool_start<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
    let name: Cow<'a, str> = block.name.map(Cow::from).unwrap_or_default();
    if name == "TodoWrite"
        && let Some(items) = block.input.and_then(plan)
    {
        facts.push(Plan::new(items));
    }
    facts.push(ToolStart::new(block.id.map(Cow::from).unwrap_or_default(), name).input(block.input.map(RawValue::get)));
}

/// Pushes the tool results among the blocks of a `user` line. Other blocks are prompts.
pub(super) fn tool_results<'a>(
    blocks: Vec<Block<'a>>,
    structured: Option<Structured<'a>>,
    is_denied: impl Fn(&str) -> bool,
    facts: &mut Facts<'a>,
) {
    let is_result = |block: &Block<'a>| block.tool_use_id.is_some();
    // The structured copy does not name its call, so it is used only if there is a single result.
    let structured = structured.filter(|_| blocks.iter().filter(|block| is_result(block)).count() == 1);
    for block in blocks.into_iter().filter(is_result) {
        let is_denied = block.tool_use_id.as_deref().is_some_and(&is_denied);
        tool_end(block, structured, is_denied, facts);
    }
}

/// Returns the calls of a `user` line that were denied and never ran.
pub(super) fn denied_calls<'a>(meta: Option<&'a RawValue>) -> Vec<Str<'a>> {
    let meta: Vec<ToolResultMeta<'a>> = meta.and_then(|meta| json::parse(meta.get())).unwrap_or_default();
    let is_denied = |meta: &ToolResultMeta<'_>| {
        meta.non_execution_kind.is_some() || meta.permission_decision.as_ref().is_some_and(PermissionDecision::is_rejection)
    };
    meta.into_iter().filter(is_denied).map(|meta| meta.id).collect()
}

pub(super) fn tool_end<'a>(block: Block<'a>, structured: Option<Structured<'a>>, is_denied: bool, facts: &mut Facts<'a>) {
    let Some(id) = block.tool_use_id else { return };
    let output = block.content.map(|content| content_text(*content));
    let failed = block.is_error.unwrap_or(false);
    let status = match (failed, is_denied) {
        (true, true) => ToolStatus::Denied,
        (true, false) => ToolStatus::Error,
        (false, _) => ToolStatus::Ok,
    };
    if status == ToolStatus::Ok
        && let Some(file) = structured.and_then(|structured| structured.file())
    {
        file_change(file, &id, facts);
    }
    let exit_code = output.as_ref().filter(|_| failed).and_then(|output| exit_code(&output.head(EXIT_CODE_LINE)));
    facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
}

/// Limit of the length of the line with the exit code.
const EXIT_CODE_LINE: usize = 64;

/// Reads the exit code from the first line of the result of a failed command.
fn exit_code(output: &str) -> Option<i32> {
    output.strip_prefix("Exit code ")?.lines().next()?.trim().parse().ok()
}

fn file_change<'a>(file: FileResult<'a>, call: &Str<'a>, facts: &mut Facts<'a>) {
    let created = file.r#type.as_deref() == Some("create");
    let diff = match (file.content, created) {
        (Some(content), true) => diff::of_new_file(&file.file_path, &content),
        _ if file.structured_patch.is_empty() => return,
        _ => {
            let mut text = diff::head(Some(&*file.file_path), Some(&*file.file_path));
            for hunk in &file.structured_patch {
                let _ = writeln!(text, "@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines);
                hunk.lines.iter().for_each(|line| text.extend([&**line, "\n"]));
            }
            let (added, removed) = diff::count(&text);
            diff::Diff { text: text.into(), added, removed }
        }
    };
    facts.push(
        FileChange::new(file.file_path, if created { Change::Create } else { Change::Update })
            .diff(diff.text)
            .added(diff.added)
            .removed(diff.removed)
            .tool_call_id(call.clone()),
    );
}

/// Pushes the permission that the agent asks its host for.
pub(super) fn permission_request<'a>(control: Control<'a>, facts: &mut Facts<'a>) {
    if &*control.request.subtype != "can_use_tool" {
        return;
    }
    let tool = control.request.tool_name.as_deref().unwrap_or("a tool");
    let title = control.request.description.as_deref().map_or_else(|| tool.to_owned(), |about| format!("{tool}: {about}"));
    let option = |id: &'static str, label: &'static str| PermissionOption { id: id.into(), label: label.into() };
    facts.push(
        Permission::new(control.request_id, title)
            .tool_call_id(control.request.tool_use_id)
            .options(vec![option("allow", "Allow"), option("deny", "Deny")]),
    );
}
