//! Tool calls. What a call has printed so far comes again and again, whole; only what is new is told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{Facts, Said};
use sabir_core::diff;
use sabir_core::event::{self, Change, FileChange, ToolKind, ToolStart, ToolStatus, ToolUpdate};
use sabir_core::json::{self, Str};
use sabir_core::line::Line;
use serde_json::value::RawValue;

use super::wire::{ToolResult, Wire};

/// The calls that run.
#[derive(Default)]
pub(super) struct Tools {
    open: BTreeMap<String, OpenTool>,
}

#[derive(Default)]
struct OpenTool {
    output: Said,
    /// The file that an edit is about.
    path: Option<String>,
}

/// What is said of the end of a call beside its result.
#[derive(Clone, Copy, Default)]
pub(super) struct ToolEnd {
    pub(super) failed: bool,
    pub(super) duration_ms: Option<u64>,
}

impl Tools {
    /// Reads `tool_execution_start`, `_update` and `_end`.
    pub(super) fn read<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(id) = wire.tool_call_id else { return json::unrecognized(line, facts) };
        match &*wire.r#type {
            "tool_execution_start" => self.start(id, wire.tool_name, wire.args, facts),
            "tool_execution_update" => {
                let text = wire.partial_result.and_then(|result| result.into_parts().1);
                let (Some(text), Some(tool)) = (text, self.open.get_mut(&*id)) else { return };
                let news = tool.output.news(&text).to_owned();
                facts.push(ToolUpdate::new(id.0).output_delta(news));
            }
            _ => {
                let end = ToolEnd { failed: wire.is_error == Some(true), duration_ms: wire.duration_ms };
                self.end(id, wire.result, end, facts);
            }
        }
    }

    /// A call begins.
    pub(super) fn start<'a>(
        &mut self,
        id: Str<'a>,
        name: Option<Str<'a>>,
        arguments: Option<&'a RawValue>,
        facts: &mut Facts<'a>,
    ) {
        let name = name.map_or(Cow::Borrowed("unknown"), Cow::from);
        let tool_kind = ToolKind::of_name(&name);
        let path = arguments.filter(|_| tool_kind == ToolKind::Edit).and_then(path_of);
        self.open.insert((*id).to_owned(), OpenTool { path, ..OpenTool::default() });
        let input = arguments.map(|arguments| Cow::Borrowed(arguments.get()));
        facts.push(ToolStart::of_kind(tool_kind, id.0, name).input(input));
    }

    /// A call ended.
    pub(super) fn end<'a>(&mut self, id: Str<'a>, result: Option<ToolResult<'a>>, end: ToolEnd, facts: &mut Facts<'a>) {
        let tool = self.open.remove(&*id).unwrap_or_default();
        let (patch, output) = result.map_or((None, None), ToolResult::into_parts);
        if let Some(patch) = patch.filter(|_| !end.failed)
            && let Some(path) = tool.path.or_else(|| path_in(&patch))
        {
            let (added, removed) = diff::count(&patch);
            facts
                .push(FileChange::new(path, Change::Update).diff(patch).added(added).removed(removed).tool_call_id(id.0.clone()));
        }
        let (status, exit_code) = if end.failed { failure(output.as_deref().unwrap_or("")) } else { (ToolStatus::Ok, None) };
        facts.push(event::ToolEnd::new(id.0, status).output(output).exit_code(exit_code).duration_ms(end.duration_ms));
    }
}

/// Pi gives a command's exit code, and what stopped it, only in the last line of its output.
fn failure(output: &str) -> (ToolStatus, Option<i32>) {
    match output.trim_end().rsplit('\n').next().unwrap_or("") {
        "Command aborted" | "Operation aborted" => (ToolStatus::Cancelled, None),
        last => (ToolStatus::Error, last.strip_prefix("Command exited with code ").and_then(|code| code.parse().ok())),
    }
}

fn path_of(args: &RawValue) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow, alias = "file_path", alias = "filePath")]
        path: Str<'a>,
    }
    json::parse::<Arguments<'_>>(args.get()).map(|arguments| arguments.path.0.into_owned())
}

/// The path that a patch names.
fn path_in(patch: &str) -> Option<String> {
    let head = patch.lines().find_map(|line| line.strip_prefix("+++ "))?;
    Some(head.split('\t').next().unwrap_or(head).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ToolStatus, failure, path_in};

    #[test]
    fn the_exit_code_is_in_the_last_line() {
        assert_eq!(failure("out\n\n\nCommand exited with code 3"), (ToolStatus::Error, Some(3)));
        assert_eq!(failure("Command timed out after 2 seconds"), (ToolStatus::Error, None));
        assert_eq!(failure("partial\n\nCommand aborted"), (ToolStatus::Cancelled, None));
    }

    #[test]
    fn a_patch_names_its_file() {
        assert_eq!(path_in("--- a.txt\n+++ a.txt\t\n@@ -1 +1 @@\n").as_deref(), Some("a.txt"));
    }
}
