//! Commands, tools and patches of a transcript. They have no ids there: an end names what ended by its first words.

use std::borrow::Cow;

use sabir_core::dialect::{Facts, Held};
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, ToolEnd, ToolKind, ToolStart, ToolStatus};
use sabir_core::time::Timestamp;
use serde::Serialize;

use super::heading::End;
use crate::codex::report;

/// The calls that are open, and the one whose output or patch is being printed.
#[derive(Debug, Default)]
pub(super) struct Calls {
    begun: u64,
    open: Vec<Open>,
    ended: Option<Ended>,
    patch: Vec<Patched>,
    /// The time of the heading that was read last.
    pub(super) at: Option<Timestamp>,
}

#[derive(Debug)]
struct Open {
    id: String,
    label: String,
}

#[derive(Debug)]
struct Ended {
    id: String,
    is_patch: bool,
    /// Since 0.166 the end stands on a line of its own, and a blank line follows the output.
    is_padded: bool,
    ok: bool,
    exit_code: Option<i32>,
    duration_ms: Option<u64>,
    at: Option<Timestamp>,
}

/// A file in a patch.
#[derive(Debug)]
struct Patched {
    path: String,
    from: Option<String>,
    change: Change,
    text: Held,
}

/// What a patch is called while it is open.
const PATCH: &str = "apply_patch";

impl Calls {
    pub(super) fn is_open(&self, label: &str) -> bool {
        label.is_empty() && !self.open.is_empty() || self.position(label).is_some()
    }

    /// Whether the line is the first of several that an open command has.
    pub(super) fn begins_with_line(&self, line: &str) -> bool {
        self.open.iter().any(|call| call.label.split_once('\n').is_some_and(|(first, _)| first == line))
    }

    fn position(&self, label: &str) -> Option<usize> {
        let label = if label.starts_with("apply_patch(") { PATCH } else { label };
        self.open.iter().position(|call| call.label == label)
    }

    fn begin(&mut self, label: &str) -> Cow<'static, str> {
        self.begun += 1;
        let id = format!("call_{}", self.begun);
        self.open.push(Open { id: id.clone(), label: label.to_owned() });
        Cow::Owned(id)
    }

    pub(super) fn command(&mut self, command: &str, folder: Option<&str>, facts: &mut Facts<'_>) {
        let id = self.begin(command);
        facts.push(report::command_start(id, "exec", command, folder));
    }

    /// A tool of an MCP server, as `server.tool(arguments)`.
    pub(super) fn tool(&mut self, invocation: &str, facts: &mut Facts<'_>) {
        let (name, rest) = invocation.split_once('(').unwrap_or((invocation, ""));
        let arguments = rest.strip_suffix(')').filter(|arguments| !arguments.is_empty());
        facts.push(
            ToolStart::of_kind(ToolKind::Mcp, self.begin(invocation), name.to_owned())
                .input(arguments.map(std::borrow::ToOwned::to_owned)),
        );
    }

    /// A web search, which is printed when it is over.
    pub(super) fn search(&mut self, query: &str, facts: &mut Facts<'_>) {
        #[derive(Serialize)]
        struct Search<'q> {
            query: &'q str,
        }
        let id = self.begin(query);
        self.open.pop();
        facts.push(
            ToolStart::of_kind(ToolKind::Fetch, id.clone(), "web_search")
                .input(report::arguments(&Search { query }))
                .title(query.to_owned()),
        );
        facts.push(ToolEnd::new(id, ToolStatus::Ok));
    }

    pub(super) fn patch(&mut self, facts: &mut Facts<'_>) {
        self.patch.clear();
        facts.push(ToolStart::of_kind(ToolKind::Edit, self.begin(PATCH), PATCH));
    }

    /// Reads a line of a patch: `M /path`, then its diff; or, since 0.166, how it ended, `/path`, then its diff.
    pub(super) fn patch_line(&mut self, line: &str) {
        if let Some(word) = line.strip_prefix("patch: ") {
            let end = End { label: PATCH, ok: word == "completed", exit_code: None, duration_ms: None };
            return self.note_end(&end);
        }
        let (change, path) = match line.split_once(' ') {
            Some(("A", path)) => (Change::Create, path),
            Some(("M", path)) => (Change::Update, path),
            Some(("D", path)) => (Change::Delete, path),
            _ => (Change::Update, line),
        };
        if path.starts_with('/') {
            let (from, path) = path.split_once(" -> ").map_or((None, path), |(from, to)| (Some(from.to_owned()), to));
            let change = if from.is_some() { Change::Rename } else { change };
            return self.patch.push(Patched { path: path.to_owned(), from, change, text: Held::default() });
        }
        if let Some(file) = self.patch.last_mut() {
            match line {
                _ if line.starts_with("new file mode") => file.change = Change::Create,
                _ if line.starts_with("deleted file mode") => file.change = Change::Delete,
                _ => {}
            }
            file.text.push(line);
            file.text.push("\n");
        }
    }

    /// Takes note of an end; what follows it is its output.
    pub(super) fn end(&mut self, end: &End<'_>, facts: &mut Facts<'_>) {
        if !self.is_open(end.label) {
            self.command(end.label, None, facts);
        }
        self.note_end(end);
    }

    fn note_end(&mut self, end: &End<'_>) {
        let position = self.position(end.label).unwrap_or(0);
        if position < self.open.len() {
            let Open { id, label } = self.open.remove(position);
            let End { ok, exit_code, duration_ms, .. } = *end;
            self.ended = Some(Ended {
                id,
                is_patch: label == PATCH,
                is_padded: end.label.is_empty(),
                ok,
                exit_code,
                duration_ms,
                at: self.at,
            });
        }
    }

    /// The output of the call that ended is complete.
    pub(super) fn close(&mut self, output: &str, facts: &mut Facts<'_>) {
        let Some(Ended { id, is_patch, is_padded, ok, exit_code, duration_ms, at }) = self.ended.take() else { return };
        let output = if is_padded { one_line_end(output) } else { output };
        let now = std::mem::replace(&mut facts.at, at);
        if is_patch {
            self.patch.drain(..).filter(|_| ok).for_each(|file| facts.push(file.report(&id)));
        }
        facts.push(
            ToolEnd::new(id, if ok { ToolStatus::Ok } else { ToolStatus::Error })
                .output((!output.is_empty()).then(|| output.to_owned()))
                .exit_code(exit_code)
                .duration_ms(duration_ms),
        );
        facts.at = now;
    }
}

impl Patched {
    fn report(self, id: &str) -> FileChange<'static> {
        let text = self.text.as_str();
        let from = self.from.as_deref().unwrap_or(&self.path);
        let diff = match self.change {
            _ if text.is_empty() => None,
            Change::Create if !text.starts_with("diff ") => Some(diff::of_new_file(&self.path, &text.into())),
            Change::Delete if !text.starts_with("diff ") => Some(report::diff_of_deleted(&self.path, text)),
            _ => Some(report::diff_of_patch(from, &self.path, one_line_end(text))),
        };
        report::changed(Cow::Owned(self.path), self.change, self.from.map(Cow::Owned), diff, Cow::Owned(id.to_owned()))
    }
}

/// The text without the blank line at its end.
fn one_line_end(text: &str) -> &str {
    text.strip_suffix('\n').filter(|text| text.ends_with('\n')).unwrap_or(text)
}
