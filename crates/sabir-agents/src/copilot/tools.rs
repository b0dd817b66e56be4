//! Tool calls. A failed command is a successful call with an exit code; an edit reports its files and their diff.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{Facts, Said};
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, Text, ToolEnd, ToolKind, ToolStart, ToolStatus, ToolUpdate};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;
use serde_json::value::RawValue;

use super::wire::{Data, Failure, FileEdit, ToolResult};

/// The calls that run.
#[derive(Default)]
pub(super) struct Tools {
    open: BTreeMap<String, OpenTool>,
}

struct OpenTool {
    kind: ToolKind,
    /// What snapshots of its output told.
    output: Said,
    /// Its output comes in pieces, so that the snapshots are copies.
    in_pieces: bool,
}

impl Tools {
    /// Reads the events of one call.
    pub(super) fn read<'a>(&mut self, event: &str, data: Data<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(id) = data.tool_call_id.clone() else { return json::unrecognized(line, facts) };
        match event {
            "tool.execution_start" => self.start(id, data, facts),
            "tool.shell_output" => {
                if let Some(tool) = self.open.get_mut(&*id) {
                    tool.in_pieces = true;
                }
                let output_delta = data.text.and_then(Text::from_json);
                facts.push(ToolUpdate::new(id.0).output_delta(output_delta));
            }
            "tool.execution_partial_result" => {
                let tool = self.open.get_mut(&*id).filter(|tool| !tool.in_pieces);
                if let (Some(tool), Some(text)) = (tool, data.partial_output) {
                    let news = match text.0 {
                        Cow::Borrowed(text) => Cow::Borrowed(tool.output.news(text)),
                        Cow::Owned(text) => Cow::Owned(tool.output.news(&text).to_owned()),
                    };
                    facts.push(ToolUpdate::new(id.0).output_delta(news));
                }
            }
            _ => self.complete(id, data, facts),
        }
    }

    fn start<'a>(&mut self, id: Str<'a>, data: Data<'a>, facts: &mut Facts<'a>) {
        let name = data.tool_name.map_or(Cow::Borrowed("unknown"), Cow::from);
        let tool_kind = if data.mcp_server_name.is_some() { ToolKind::Mcp } else { kind(&name, data.arguments) };
        self.open.insert((*id).to_owned(), OpenTool { kind: tool_kind, output: Said::default(), in_pieces: false });
        facts.push(ToolStart::of_kind(tool_kind, id.0, name).input(data.arguments.map(RawValue::get)).title(data.tool_title));
    }

    fn complete<'a>(&mut self, id: Str<'a>, data: Data<'a>, facts: &mut Facts<'a>) {
        let kind = self.open.remove(&*id).map_or(ToolKind::Other, |tool| tool.kind);
        let result: ToolResult<'a> = data.result.and_then(|result| json::parse(result.get())).unwrap_or_default();
        let failure = data.error.and_then(Failure::of).unwrap_or_default();
        let output = result.content.and_then(Text::from_json).or(failure.message.map(Text::from));
        let exit_code = match data.shell_execution {
            Some(shell) => shell.exit_code,
            None if kind == ToolKind::Execute => output.as_deref().and_then(exit_code_in),
            None => None,
        };
        let status = match (data.success, failure.code.as_deref()) {
            (Some(true), _) if exit_code.is_none_or(|code| code == 0) => ToolStatus::Ok,
            (Some(true), _) => ToolStatus::Error,
            (_, Some("denied" | "rejected")) => ToolStatus::Denied,
            (_, Some("cancelled" | "canceled" | "aborted")) => ToolStatus::Cancelled,
            _ => ToolStatus::Error,
        };
        if status == ToolStatus::Ok {
            let edits = data.file_edits.unwrap_or_default();
            let patch = result.detailed_content.as_deref().unwrap_or("");
            for change in edits.iter().map(|edit| file_change(edit, edits.len() == 1, patch, &id)) {
                facts.push(change);
            }
        }
        facts.push(ToolEnd::new(id.0, status).output(output).exit_code(exit_code));
    }

    /// The agent was interrupted while these calls ran.
    pub(super) fn interrupted<'a>(&mut self, ids: Vec<Str<'a>>, facts: &mut Facts<'a>) {
        for id in ids {
            if self.open.remove(&*id).is_some() {
                facts.push(cancelled(id.0));
            }
        }
    }

    /// The session was stopped: what runs is stopped with it. The log does not say which calls those are.
    pub(super) fn aborted(&mut self, facts: &mut Facts<'_>) {
        std::mem::take(&mut self.open).into_keys().for_each(|id| facts.push(cancelled(Cow::Owned(id))));
    }
}

fn cancelled(tool_call_id: Cow<'_, str>) -> ToolEnd<'_> {
    let status = ToolStatus::Cancelled;
    ToolEnd::new(tool_call_id, status)
}

fn kind(name: &str, arguments: Option<&RawValue>) -> ToolKind {
    #[derive(serde::Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        command: Str<'a>,
    }
    match name {
        "read_bash" | "write_bash" | "stop_bash" | "list_bash" | "powershell" | "read_powershell" | "write_powershell"
        | "stop_powershell" | "list_powershell" => ToolKind::Execute,
        "rg" => ToolKind::Search,
        "read_agent" | "write_agent" | "list_agents" => ToolKind::Delegate,
        "update_todo" => ToolKind::Plan,
        // One tool for all that is done to files, looking at them included.
        "str_replace_editor" => match arguments.and_then(|arguments| json::parse::<Arguments<'_>>(arguments.get())) {
            Some(arguments) if &*arguments.command == "view" => ToolKind::Read,
            _ => ToolKind::Edit,
        },
        _ => ToolKind::of_name(name),
    }
}

/// A command's output ends with a note in angle brackets: `<… exit code 3>`.
fn exit_code_in(output: &str) -> Option<i32> {
    let last = output.trim_end().rsplit('\n').next()?;
    let (_, code) = last.strip_prefix('<')?.strip_suffix('>')?.rsplit_once("exit code ")?;
    code.parse().ok()
}

fn file_change<'a>(edit: &FileEdit<'a>, only: bool, patch: &str, id: &Str<'a>) -> FileChange<'a> {
    let change = match edit.kind.as_deref() {
        Some("create" | "add") => Change::Create,
        Some("delete" | "remove") => Change::Delete,
        Some("rename" | "move") => Change::Rename,
        _ => Change::Update,
    };
    let diff = sections(patch).find(|section| only || is_of(section, &edit.path));
    let counted = diff.map(diff::count);
    FileChange::new(edit.path.0.clone(), change)
        .added(counted.map(|(added, _)| added))
        .removed(counted.map(|(_, removed)| removed))
        .diff(diff.map(str::to_owned))
        .tool_call_id(id.0.clone())
}

/// How the part of a diff that is about one file begins.
const FILE_HEAD: &str = "diff --git ";

/// The parts of a diff, one for each file.
fn sections(patch: &str) -> impl Iterator<Item = &str> {
    let mut rest = patch.trim_start_matches('\n');
    std::iter::from_fn(move || {
        if !rest.starts_with(FILE_HEAD) {
            return None;
        }
        let next = rest.find("\ndiff --git ").map_or(rest.len(), |at| at + 1);
        let (section, after) = rest.split_at(next);
        rest = after;
        Some(section)
    })
}

fn is_of(section: &str, path: &str) -> bool {
    section.lines().next().is_some_and(|head| head.ends_with(&format!(" b/{}", path.trim_start_matches('/'))))
}

#[cfg(test)]
mod tests {
    use super::{exit_code_in, is_of, sections};

    #[test]
    fn the_exit_code_is_in_the_last_line() {
        assert_eq!(exit_code_in("out\n<shellId: 0 completed with exit code 3>"), Some(3));
        assert_eq!(exit_code_in("out\n<exited with exit code 0>\n"), Some(0));
        assert_eq!(exit_code_in("<exit code 3>\nout"), None);
        assert_eq!(exit_code_in("exit code 3"), None);
    }

    #[test]
    fn a_diff_of_two_files_is_taken_apart() {
        let patch = "\ndiff --git a/x/one b/x/one\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/x/two b/x/two\n@@ -1 +1 @@\n-c\n+d\n";
        let parts: Vec<&str> = sections(patch).collect();
        assert_eq!(parts.len(), 2);
        assert!(is_of(parts[0], "/x/one") && is_of(parts[1], "/x/two") && !is_of(parts[1], "/x/one"));
        assert_eq!(parts[1], "diff --git a/x/two b/x/two\n@@ -1 +1 @@\n-c\n+d\n");
        assert_eq!(sections("no diff").count(), 0);
    }
}
