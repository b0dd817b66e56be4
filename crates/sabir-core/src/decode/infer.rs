//! File changes that only the arguments of a tool call tell.

use serde::Deserialize;

use super::tools::OpenTool;
use crate::diff;
use crate::event::{Change, ChangeSource, EventKind, FileChange, Text, ToolKind};
use crate::json::{self, Str};

/// The names that agents have for the arguments of tools that change files.
#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(
        borrow,
        alias = "file_path",
        alias = "filePath",
        alias = "absolute_path",
        alias = "target_file",
        alias = "filename",
        alias = "file",
        alias = "notebook_path"
    )]
    path: Option<Str<'a>>,
    #[serde(borrow, alias = "contents", alias = "file_text", alias = "fileText", alias = "new_source")]
    content: Option<Text<'a>>,
    #[serde(borrow, alias = "oldString", alias = "old_str", alias = "oldText", alias = "old_text", alias = "before")]
    old_string: Option<Str<'a>>,
    #[serde(borrow, alias = "newString", alias = "new_str", alias = "newText", alias = "new_text", alias = "after")]
    new_string: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    edits: Option<Vec<Edit<'a>>>,
    #[serde(borrow, alias = "source", alias = "old_path", alias = "oldPath", alias = "source_path")]
    from: Option<Str<'a>>,
    #[serde(borrow, alias = "destination", alias = "new_path", alias = "newPath", alias = "destination_path")]
    to: Option<Str<'a>>,
    #[serde(alias = "insert_line")]
    line: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Edit<'a> {
    #[serde(borrow, alias = "oldString", alias = "old_str", alias = "oldText", alias = "old_text")]
    old_string: Str<'a>,
    #[serde(borrow, alias = "newString", alias = "new_str", alias = "newText", alias = "new_text")]
    new_string: Str<'a>,
}

/// What a call that succeeded without a report of its own changed.
pub(super) fn file_changes(tool: &OpenTool) -> Vec<EventKind<'static>> {
    let Some(arguments) = tool.input.as_deref().and_then(json::parse::<Arguments<'_>>) else { return Vec::new() };
    change(tool, &arguments).map(EventKind::from).into_iter().collect()
}

fn change(tool: &OpenTool, arguments: &Arguments<'_>) -> Option<FileChange<'static>> {
    let changed = |path: &str, change, from: Option<&str>, diff: Option<diff::Diff>| {
        FileChange::new(path.to_owned(), change)
            .from(from.map(str::to_owned))
            .added(diff.as_ref().map(|diff| diff.added))
            .removed(diff.as_ref().map(|diff| diff.removed))
            .diff(diff.map(|diff| diff.text))
            .tool_call_id(tool.public_id.clone())
            .source(ChangeSource::Inferred)
    };
    match tool.kind {
        ToolKind::Delete => Some(changed(arguments.path.as_deref()?, Change::Delete, None, None)),
        ToolKind::Move => {
            let from = arguments.from.as_deref().or(arguments.path.as_deref());
            Some(changed(arguments.to.as_deref()?, Change::Rename, from, None))
        }
        ToolKind::Edit => {
            let path = arguments.path.as_deref()?;
            let edits: Vec<(&str, &str)> = match (&arguments.edits, &arguments.new_string) {
                (Some(edits), _) => edits.iter().map(|edit| (&*edit.old_string, &*edit.new_string)).collect(),
                (None, Some(new)) => vec![(arguments.old_string.as_deref().unwrap_or(""), new)],
                (None, None) => Vec::new(),
            };
            match &arguments.content {
                Some(content) if edits.is_empty() && arguments.line.is_some() => {
                    Some(changed(path, Change::Update, None, Some(diff::of_edits(path, [("", &**content)]))))
                }
                // The file may have been there before; only the agent would know.
                Some(content) if edits.is_empty() => {
                    Some(changed(path, Change::Create, None, Some(diff::of_new_file(path, content))))
                }
                _ if edits.is_empty() => Some(changed(path, Change::Update, None, None)),
                _ => Some(changed(path, Change::Update, None, Some(diff::of_edits(path, edits)))),
            }
        }
        _ => None,
    }
}
