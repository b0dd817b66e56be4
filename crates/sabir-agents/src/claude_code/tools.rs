//! Tool calls: their arguments, results, file changes and permissions.

use std::borrow::Cow;
use std::fmt::Write as _;

use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{
    Change, FileChange, Permission, PermissionOption, Plan, PlanItem, PlanStatus, Text, ToolEnd, ToolStart, ToolStatus,
};
use sabir_core::json::{self, Str, TextOr, Unread};
use serde_json::value::RawValue;

use super::wire::{Block, Control, FileResult, Part, PermissionDecision, Structured, Todos, ToolResultMeta};

pub(super) fn tool_start<'a>(block: Block<'a>, facts: &mut Facts<'a>) {
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
        facts.push(Plan::new(items.collect()));
    }
    facts.push(ToolStart::new(block.id.map(Cow::from).unwrap_or_default(), name).input(block.input.map(RawValue::get)));
}

/// The results of tools. Anything else that a `user` line holds is a prompt, the user's or the agent's own.
pub(super) fn user<'a>(
    blocks: Vec<Block<'a>>,
    structured: Option<Structured<'a>>,
    is_refused: impl Fn(&str) -> bool,
    facts: &mut Facts<'a>,
) {
    let mut results: Vec<Block<'a>> = blocks.into_iter().filter(|block| block.tool_use_id.is_some()).collect();
    // The structured copy does not say whose it is, so it counts only where there is one result.
    let structured = structured.filter(|_| results.len() == 1);
    for block in results.drain(..) {
        let refused = block.tool_use_id.as_deref().is_some_and(&is_refused);
        tool_end(block, structured, refused, facts);
    }
}

/// The calls that a stream says were refused and never ran.
pub(super) fn refused<'a>(meta: Option<&'a RawValue>) -> Vec<Str<'a>> {
    let meta: Vec<ToolResultMeta<'a>> = meta.and_then(|meta| json::parse(meta.get())).unwrap_or_default();
    let is_refused = |meta: &ToolResultMeta<'_>| {
        meta.non_execution_kind.is_some() || meta.permission_decision.as_ref().is_some_and(PermissionDecision::is_rejection)
    };
    meta.into_iter().filter(is_refused).map(|meta| meta.id).collect()
}

pub(super) fn tool_end<'a>(block: Block<'a>, structured: Option<Structured<'a>>, refused: bool, facts: &mut Facts<'a>) {
    let Some(id) = block.tool_use_id else { return };
    let output = block.content.map(|content| content_text(*content));
    let failed = block.is_error.unwrap_or(false);
    let status = match (failed, refused) {
        (true, true) => ToolStatus::Denied,
        (true, false) => ToolStatus::Error,
        (false, _) => ToolStatus::Ok,
    };
    if status == ToolStatus::Ok
        && let Some(file) = structured.and_then(|structured| structured.file())
    {
        file_change(file, &id, facts);
    }
    let exit_code = output.as_ref().filter(|_| failed).and_then(|output| exit_code(&output.head(EXIT_CODE)));
    facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
}

/// The text of a tool's result, which is a string, a part or a list of parts.
fn content_text(content: TextOr<'_>) -> Text<'_> {
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

/// The line with an exit code is not longer.
const EXIT_CODE: usize = 64;

/// A failed command's result starts with its exit code.
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

pub(super) fn permission_asked<'a>(control: Control<'a>, facts: &mut Facts<'a>) {
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
