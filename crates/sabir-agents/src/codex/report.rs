//! Facts that all dialects of Codex state in the same way.

use std::borrow::Cow;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::diff::{self, Diff};
use sabir_core::event::{Change, FileChange, Final, Outcome, ToolKind, ToolStart};
use sabir_core::json::{self, Str};
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::shell;

/// Says the answer of a run that has one. Where the stream has no terminal sign of its own, a message that was the last
/// thing before the process was stopped is no answer.
pub(super) fn answer(answer: &Answer, verdict: &Verdict, end: &End, facts: &mut Facts<'static>) {
    let stopped = end.cancelled || end.timeout.is_some() || end.signal.is_some() || end.exit_code.is_some_and(|code| code != 0);
    if verdict.outcome != Outcome::Completed || verdict.exit_code_decides && stopped {
        return;
    }
    if let Some(text) = answer.as_str() {
        facts.push(Final::new(text.to_owned()));
    }
}

/// JSON text of a tool's arguments.
pub(super) fn arguments(arguments: &impl Serialize) -> Option<Cow<'static, str>> {
    serde_json::to_string(arguments).ok().map(Cow::Owned)
}

/// The start of a command.
pub(super) fn command_start<'a>(id: Cow<'a, str>, name: &'static str, command: &str, cwd: Option<&str>) -> ToolStart<'a> {
    #[derive(Serialize)]
    struct Arguments<'c> {
        command: &'c str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<&'c str>,
    }
    ToolStart::of_kind(ToolKind::Execute, id, name)
        .input(arguments(&Arguments { command, cwd }))
        .title(title(shell::script(command)).map(std::borrow::ToOwned::to_owned))
}

/// The first line, for people.
pub(super) fn title(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

/// A change of a file that Codex reports.
pub(super) fn changed<'a>(
    path: Cow<'a, str>,
    change: Change,
    from: Option<Cow<'a, str>>,
    diff: Option<Diff>,
    tool_call_id: Cow<'a, str>,
) -> FileChange<'a> {
    FileChange::new(path, change)
        .from(from)
        .added(diff.as_ref().map(|diff| diff.added))
        .removed(diff.as_ref().map(|diff| diff.removed))
        .diff(diff.map(|diff| diff.text))
        .tool_call_id(tool_call_id)
}

/// The diff of a patch that has hunks and may have no head.
pub(super) fn diff_of_patch(from: &str, to: &str, patch: &str) -> Diff {
    let (added, removed) = diff::count(patch);
    let text = if patch.starts_with("@@") { diff::head(Some(from), Some(to)) + patch } else { patch.to_owned() };
    Diff { text: text.into(), added, removed }
}

/// The diff of a file that is gone.
pub(super) fn diff_of_deleted(path: &str, content: &str) -> Diff {
    let removed = content.lines().count();
    let mut text = diff::head(Some(path), None) + &format!("@@ -1,{removed} +0,0 @@\n");
    for line in content.lines() {
        text.push('-');
        text.push_str(line);
        text.push('\n');
    }
    Diff { text: text.into(), added: 0, removed: removed as u64 }
}

/// The text of what an MCP tool gave back, and whether the tool calls it an error. Content that is not text is given as
/// the JSON it came as.
pub(super) fn mcp_output(result: &str) -> (Option<Cow<'_, str>>, bool) {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow, default, deserialize_with = "json::lenient")]
        content: Option<Vec<Block<'a>>>,
        #[serde(default, rename = "isError", alias = "is_error")]
        is_error: Option<bool>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Str<'a>,
    }
    let outcome: Option<Outcome<'_>> = json::parse(result);
    let is_error = outcome.as_ref().and_then(|outcome| outcome.is_error).unwrap_or(false);
    let texts = outcome.and_then(|outcome| outcome.content).filter(|blocks| !blocks.is_empty());
    let output = match texts {
        Some(mut blocks) if blocks.len() == 1 => blocks.pop().map(|block| block.text.into()),
        Some(blocks) => Some(Cow::Owned(blocks.iter().map(|block| &*block.text).collect::<Vec<_>>().join("\n"))),
        None => (result != "null").then_some(Cow::Borrowed(result)),
    };
    (output, is_error)
}

#[cfg(test)]
mod tests {
    use super::{diff_of_deleted, diff_of_patch, mcp_output, title};

    #[test]
    fn text_blocks_are_the_output_and_other_content_stays_json() {
        assert_eq!(mcp_output(r#"{"content":[{"type":"text","text":"a"}]}"#), (Some("a".into()), false));
        let two = r#"{"content":[{"text":"a"},{"text":"b"}],"isError":true}"#;
        assert_eq!(mcp_output(two), (Some("a\nb".into()), true));
        let image = r#"{"content":[{"type":"image"}]}"#;
        assert_eq!(mcp_output(image), (Some(image.into()), false));
        assert_eq!(mcp_output("null"), (None, false));
    }

    #[test]
    fn diffs_have_a_head_and_counts() {
        let diff = diff_of_patch("a.txt", "a.txt", "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!((&*diff.text, diff.added, diff.removed), ("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n", 1, 1));
        assert_eq!(diff_of_deleted("a.txt", "one\ntwo\n").removed, 2);
    }

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(title("\n  cat <<EOF\nhi\nEOF"), Some("cat <<EOF"));
        assert_eq!(title(" "), None);
    }
}
