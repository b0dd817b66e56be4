//! Tool calls in parts of a message.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, Text, ToolEnd, ToolKind, ToolStart, ToolStatus};
use sabir_core::json::{self, Str};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Exit, FileDiff, Metadata, Part, Span, ToolState, plan};

/// A tool call in one of its states.
pub(crate) struct ToolCall<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) state: ToolState<'a>,
    pub(crate) metadata: Metadata<'a>,
}

impl<'a> ToolCall<'a> {
    /// Reads the call from a part of type `tool`.
    pub(crate) fn of(part: Part<'a>) -> Option<Self> {
        let state = part.state?;
        let metadata = state.metadata.and_then(|metadata| json::parse(metadata.0)).unwrap_or_default();
        let id = part.call_id.or(part.id)?.0;
        Some(Self { id, name: part.tool.map_or(Cow::Borrowed("unknown"), Cow::from), state, metadata })
    }

    /// Whether the call has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&*self.state.status, "completed" | "error")
    }

    /// Pushes the start of the call.
    pub(crate) fn push_start(&self, facts: &mut Facts<'a>) {
        let line_time = facts.at;
        facts.at = self.state.time.and_then(Span::start).or(line_time);
        facts.push(
            ToolStart::of_kind(kind(&self.name), self.id.clone(), self.name.clone())
                .input(self.state.input.map(RawValue::get))
                .title(self.state.title.clone().filter(|title| !title.is_empty())),
        );
        facts.at = line_time;
    }

    /// Pushes the end of the call and its file changes, and returns its status.
    pub(crate) fn push_end(self, facts: &mut Facts<'a>) -> ToolStatus {
        let Self { id, name, state, metadata } = self;
        let status = status(&name, &state, metadata.exit);
        let time = state.time.unwrap_or_default();
        facts.at = time.end().or(facts.at);
        if let Some(todos) = metadata.todos {
            facts.push(plan(todos));
        }
        if status == ToolStatus::Ok {
            let edits = metadata.results.into_iter().flatten().filter_map(|edited| edited.filediff);
            let changes = metadata.filediff.into_iter().chain(edits).chain(metadata.files.into_iter().flatten());
            let mut changes: Vec<FileDiff<'a>> = changes.collect();
            // Some versions report what `write` wrote in two ways.
            match changes.iter_mut().find(|change| metadata.filepath.as_deref() == Some(&*change.file)) {
                None => push_written(id.clone(), state.input, metadata.filepath, metadata.exists, facts),
                Some(change) if metadata.exists == Some(false) => {
                    change.r#type = change.r#type.take().or(Some(Str("add".into())));
                }
                Some(_) => {}
            }
            for change in changes {
                facts.push(file_change(change, id.clone()));
            }
        }
        facts.push(
            ToolEnd::new(id, status)
                .output(state.output.or(state.error))
                .exit_code(if let Exit::Code(code) = metadata.exit { Some(code) } else { None })
                .duration_ms(time.start().zip(time.end()).and_then(|(start, end)| end.millis_since(start))),
        );
        status
    }
}

/// The tools of MCP servers are named `<server>_<tool>`.
fn kind(name: &str) -> ToolKind {
    match ToolKind::of_name(name) {
        ToolKind::Other if name.contains('_') => ToolKind::Mcp,
        kind => kind,
    }
}

/// Prefixes of errors of calls that the user or a rule denied.
const DENIED: &[&str] = &["The user rejected permission", "The user has specified a rule which prevents"];

/// Returns the status of a call. A call is `completed` even if its command failed or was stopped, or if the tool does not exist.
fn status(name: &str, state: &ToolState<'_>, exit: Exit) -> ToolStatus {
    // Unescapes a text only where its content decides: most outputs are long and pass through unparsed.
    let matches = |text: &Option<Text<'_>>, test: &dyn Fn(&str) -> bool| text.as_deref().is_some_and(test);
    match (&*state.status, exit) {
        ("error", _) if matches(&state.error, &|error| DENIED.iter().any(|start| error.starts_with(start))) => ToolStatus::Denied,
        ("error", _) if matches(&state.error, &|error| error.starts_with("Tool execution aborted")) => ToolStatus::Cancelled,
        ("error", _) => ToolStatus::Error,
        (_, Exit::Stopped) if matches(&state.output, &|output| output.contains("aborted the command")) => ToolStatus::Cancelled,
        (_, Exit::Stopped) => ToolStatus::Error,
        (_, Exit::Code(code)) if code != 0 => ToolStatus::Error,
        _ if name == "invalid" => ToolStatus::Error,
        _ => ToolStatus::Ok,
    }
}

/// Pushes the file change of `write`, which reports the path and whether it is new; the content is in the arguments.
fn push_written<'a>(
    id: Cow<'a, str>,
    input: Option<&RawValue>,
    path: Option<Str<'a>>,
    exists: Option<bool>,
    facts: &mut Facts<'a>,
) {
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Arguments<'a> {
        content: Str<'a>,
    }
    let (Some(path), Some(exists)) = (path, exists) else { return };
    let arguments = input.filter(|_| !exists).and_then(|input| json::parse::<Arguments<'_>>(input.get()));
    let diff = arguments.map(|arguments| diff::of_new_file(&path, &arguments.content.into()));
    facts.push(
        FileChange::new(path.0, if exists { Change::Update } else { Change::Create })
            .added(diff.as_ref().map(|diff| diff.added))
            .removed(diff.as_ref().map(|diff| diff.removed))
            .diff(diff.map(|diff| diff.text))
            .tool_call_id(id),
    );
}

fn file_change<'a>(change: FileDiff<'a>, id: Cow<'a, str>) -> FileChange<'a> {
    let FileDiff { file, patch, additions, deletions, r#type, move_path } = change;
    let diff = patch.filter(|text| !text.is_empty());
    let counted = diff.as_deref().map(diff::count);
    let kind = match (r#type.as_deref(), &move_path) {
        (_, Some(_)) => Change::Rename,
        (Some("add"), _) => Change::Create,
        (Some("delete"), _) => Change::Delete,
        _ => Change::Update,
    };
    let (path, from) = match move_path {
        Some(to) => (to, Some(file.0)),
        None => (file, None),
    };
    FileChange::new(path.0, kind)
        .from(from)
        .diff(diff)
        .added(additions.or(counted.map(|(added, _)| added)))
        .removed(deletions.or(counted.map(|(_, removed)| removed)))
        .tool_call_id(id)
}
