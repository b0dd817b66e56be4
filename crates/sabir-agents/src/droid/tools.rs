//! Tool calls: how they ended, the files they changed, the plan.

use std::borrow::Cow;
use std::fmt::Write as _;

use sabir_core::diff;
use sabir_core::event::{Change, FileChange, PlanItem, PlanStatus, ToolStatus};
use sabir_core::json::{self, Str, StringOr};
use serde::Deserialize;

/// How a call ended whose result is that text.
pub(super) fn status(failed: bool, exit_code: Option<i32>, output: &str) -> ToolStatus {
    // A tool that the session does not offer is refused in the words of a failure.
    let refused = output
        .strip_prefix("Error: Tool ")
        .is_some_and(|about| about.contains(" is not permitted in this ") || about.contains(" is not available "));
    match (failed, refused) {
        (true, true) => ToolStatus::Denied,
        (true, false) => ToolStatus::Error,
        (false, _) if exit_code.is_some_and(|code| code != 0) => ToolStatus::Error,
        (false, _) => ToolStatus::Ok,
    }
}

/// The exit code of a command is the last line of its output.
pub(super) fn exit_code(output: &str) -> Option<i32> {
    let last = output.trim_end().rsplit('\n').next()?;
    last.strip_prefix("[Process exited with code ")?.strip_suffix(']')?.parse().ok()
}

/// What a file tool gives back: an object, as text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileResult<'a> {
    #[serde(borrow, rename = "file_path")]
    file_path: Str<'a>,
    #[serde(borrow)]
    diff_lines: Vec<DiffLine<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffLine<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    content: Str<'a>,
    #[serde(default)]
    line_number: Numbers,
}

#[derive(Deserialize, Default, Clone, Copy)]
struct Numbers {
    old: Option<u64>,
    new: Option<u64>,
}

/// The change that the result of a call reports, where it shows the lines.
pub(super) fn file_change(result: &str, call: &str) -> Option<FileChange<'static>> {
    // Most results are of other tools and large; looking for the key is faster than parsing.
    memchr::memmem::find(result.as_bytes(), b"\"diffLines\"")?;
    let result: FileResult<'_> = json::parse(result)?;
    let diff = unified(&result)?;
    let (added, removed) = diff::count(&diff);
    Some(
        FileChange::new(result.file_path.to_string(), Change::Update)
            .diff(diff)
            .added(added)
            .removed(removed)
            .tool_call_id(call.to_owned()),
    )
}

/// A part of a file whose lines follow each other.
#[derive(Default)]
struct Hunk {
    old_start: Option<u64>,
    new_start: Option<u64>,
    old_lines: u64,
    new_lines: u64,
    text: String,
}

impl Hunk {
    fn push(&mut self, sign: char, line: &DiffLine<'_>) {
        self.old_start = self.old_start.or(line.line_number.old);
        self.new_start = self.new_start.or(line.line_number.new);
        self.old_lines += u64::from(sign != '+');
        self.new_lines += u64::from(sign != '-');
        let _ = writeln!(self.text, "{sign}{}", &*line.content);
    }

    /// Whether a line of those numbers comes next.
    fn goes_on_with(&self, line: Numbers) -> bool {
        let next = |start: Option<u64>, count: u64, number: Option<u64>| match (start, number) {
            (Some(start), Some(number)) => start.saturating_add(count) == number,
            _ => true,
        };
        next(self.old_start, self.old_lines, line.old) && next(self.new_start, self.new_lines, line.new)
    }
}

/// The unified diff of the lines shown; `None` when one of them is of a kind that we do not know.
fn unified(result: &FileResult<'_>) -> Option<String> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in &result.diff_lines {
        let sign = match &*line.r#type {
            "unchanged" => ' ',
            "added" => '+',
            "removed" => '-',
            _ => return None,
        };
        match hunks.last_mut().filter(|hunk| hunk.goes_on_with(line.line_number)) {
            Some(hunk) => hunk.push(sign, line),
            None => {
                let mut hunk = Hunk::default();
                hunk.push(sign, line);
                hunks.push(hunk);
            }
        }
    }
    let mut text = diff::head(Some(&result.file_path), Some(&result.file_path));
    for hunk in hunks.iter().filter(|hunk| hunk.text.lines().any(|line| !line.starts_with(' '))) {
        let (old, new) = (hunk.old_start.unwrap_or(0), hunk.new_start.unwrap_or(0));
        let _ = writeln!(text, "@@ -{old},{} +{new},{} @@", hunk.old_lines, hunk.new_lines);
        text.push_str(&hunk.text);
    }
    Some(text)
}

/// The steps of `TodoWrite`: a numbered list in one text, or a list of objects.
pub(super) fn plan(parameters: &str) -> Option<Vec<PlanItem<'static>>> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        todos: StringOr<'a, Vec<Todo<'a>>>,
    }
    #[derive(Deserialize)]
    struct Todo<'a> {
        #[serde(borrow)]
        content: Str<'a>,
        #[serde(borrow, default)]
        status: Option<Str<'a>>,
    }
    let item = |text: &str, status: &str| PlanItem { text: Cow::Owned(text.to_owned()), status: plan_status(status) };
    match json::parse::<Arguments<'_>>(parameters)?.todos {
        StringOr::String(list) => Some(list.lines().filter_map(step).map(|(text, status)| item(text, status)).collect()),
        StringOr::Other(todos) => {
            let status = |todo: &Todo<'_>| todo.status.as_deref().unwrap_or_default().to_owned();
            Some(todos.iter().map(|todo| item(&todo.content, &status(todo))).collect())
        }
    }
}

/// A line such as `2. [pending] Step two`.
fn step(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['.', ')', '-']).trim_start();
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((status, text)) => Some((text.trim(), status)),
        None => Some((line, "")).filter(|_| !line.is_empty()),
    }
}

fn plan_status(word: &str) -> PlanStatus {
    match word.trim() {
        "completed" => PlanStatus::Completed,
        "in_progress" => PlanStatus::InProgress,
        "cancelled" => PlanStatus::Cancelled,
        _ => PlanStatus::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::{exit_code, file_change, plan, status};
    use sabir_core::event::{FileChange, PlanStatus, ToolStatus};

    #[test]
    fn the_last_line_of_a_command_is_its_exit_code() {
        assert_eq!(exit_code("out\n\n\n[Process exited with code 3]"), Some(3));
        assert_eq!(exit_code("[Process exited with code 3]\nand more"), None);
        assert_eq!(status(false, Some(3), ""), ToolStatus::Error);
        assert_eq!(status(true, None, "Error: Tool Task is not permitted in this exec session."), ToolStatus::Denied);
        assert_eq!(status(true, None, "Error: Not found: Tool"), ToolStatus::Error);
    }

    #[test]
    fn lines_that_do_not_follow_each_other_are_of_two_hunks() {
        let line = |kind: &str, content: &str, numbers: &str| {
            format!(r#"{{"type":"{kind}","content":"{content}","lineNumber":{{{numbers}}}}}"#)
        };
        let lines = [
            line("unchanged", "a", r#""old":1,"new":1"#),
            line("added", "b", r#""new":2"#),
            line("unchanged", "x", r#""old":40,"new":41"#),
            line("removed", "y", r#""old":41"#),
            line("unchanged", "z", r#""old":42,"new":42"#),
        ];
        let result = format!(r#"{{"success":true,"file_path":"/p/f","diffLines":[{}]}}"#, lines.join(","));
        let Some(FileChange { diff: Some(diff), added, removed, .. }) = file_change(&result, "c") else { panic!("a change") };
        assert_eq!(diff, "--- a/p/f\n+++ b/p/f\n@@ -1,1 +1,2 @@\n a\n+b\n@@ -40,3 +41,2 @@\n x\n-y\n z\n");
        assert_eq!((added, removed), (Some(1), Some(1)));
    }

    #[test]
    fn a_plan_is_a_text_or_a_list() {
        let text = plan(r#"{"todos":"1. [completed] Read\n2. [in_progress] Fix\n3. Test"}"#).expect("a plan");
        let list = plan(
            r#"{"todos":[{"content":"Read","status":"completed"},{"content":"Fix","status":"in_progress"},{"content":"Test"}]}"#,
        );
        assert_eq!(Some(&text), list.as_ref());
        assert_eq!(text[1].status, PlanStatus::InProgress);
        assert_eq!(text[2].text, "Test");
    }
}
