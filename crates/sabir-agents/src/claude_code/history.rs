//! The log that Claude Code keeps: `projects/<folder>/<session>.jsonl`, and a file for each sub-agent in
//! `<session>/subagents/`.
//!
//! What lies in wait here: a response is one line per block, each with the figures as they were when it was written, so
//! the last copy counts; a session that was resumed or forked holds copies of the lines of another; sub-agents' figures
//! are told again in `progress` lines and in the results of their calls; a response without a visible word leaves no
//! line at all, only a larger sum in `cost-state`.

mod decode;
mod note;

use sabir_core::agent::{Confidence, DialectSpec};
use sabir_core::history::{FileRole, LogRoot, LogSpec, stem};
use sabir_core::json::{self, Str};

/// Where it is and how it is read.
pub(super) fn log() -> LogSpec {
    LogSpec::new(
        [
            LogRoot::relocatable("CLAUDE_CONFIG_DIR", ".claude", "projects"),
            // Some versions followed the rule for such folders.
            LogRoot::new(".config/claude", "projects"),
        ],
        dialect(),
        part,
        note::note,
    )
    .filter(2, "subagents")
}

/// The log as a dialect.
pub(super) fn dialect() -> DialectSpec {
    DialectSpec::json("history", "the log of a session in `projects/`", detect, decode::LogDialect::default)
}

fn part<'p>(path: &[&'p str]) -> Option<FileRole<'p>> {
    match *path {
        // Older versions put sub-agents beside their session.
        [_, name] if name.starts_with("agent-") => stem(name, ".jsonl").map(|_| FileRole::Orphan),
        [_, name] => stem(name, ".jsonl").map(FileRole::Session),
        [_, session, "subagents", .., name] => stem(name, ".jsonl").map(|_| FileRole::Child(session)),
        _ => None,
    }
}

/// Prompts that nobody typed: what the CLI tells the model by itself.
fn is_furniture(prompt: &str) -> bool {
    const STARTS: &[&str] =
        &["<system-reminder>", "<task-notification>", "<local-command-", "<command-", "Caveat: ", INTERRUPTED];
    STARTS.iter().any(|start| prompt.trim_start().starts_with(start))
}

/// What the log says where a user stopped the agent.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Lines of the log link to the line before them; what is printed does not. Other programs write logs of this shape without
/// the fields that only Claude Code writes.
fn detect(line: &str) -> Confidence {
    use serde::de::IgnoredAny;
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound = "'de: 'a")]
    struct Marks<'a> {
        r#type: Option<Str<'a>>,
        session_id: Option<IgnoredAny>,
        is_sidechain: Option<IgnoredAny>,
        user_type: Option<IgnoredAny>,
        operation: Option<IgnoredAny>,
        leaf_uuid: Option<IgnoredAny>,
        uuid: Option<IgnoredAny>,
        timestamp: Option<IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        message: Option<Content>,
    }
    #[derive(serde::Deserialize)]
    struct Content {
        content: Option<IgnoredAny>,
    }
    // A list would be read as the fields in their order.
    let Some(marks) = Some(line).filter(|line| line.starts_with('{')).and_then(json::parse::<Marks<'_>>) else {
        return Confidence::None;
    };
    let linked = marks.is_sidechain.is_some() && marks.user_type.is_some();
    let own = linked || marks.operation.is_some() || marks.leaf_uuid.is_some();
    match marks.r#type.as_deref() {
        Some("summary") if marks.leaf_uuid.is_some() => Confidence::Certain,
        _ if marks.session_id.is_none() => Confidence::None,
        _ if own => Confidence::Certain,
        Some("user" | "assistant") if marks.uuid.is_some() && marks.timestamp.is_some() => {
            if marks.message.is_some_and(|message| message.content.is_some()) { Confidence::Likely } else { Confidence::None }
        }
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::{detect, part};
    use sabir_core::agent::Confidence;
    use sabir_core::history::FileRole;

    #[test]
    fn logs_of_its_shape_are_likely() {
        let line = r#""type":"user","sessionId":"s","uuid":"u","timestamp":"t","message":{"role":"user","content":"a"}"#;
        assert_eq!(detect(&format!("{{{line}}}")), Confidence::Likely);
        assert_eq!(detect(&format!(r#"{{{line},"isSidechain":false,"userType":"external"}}"#)), Confidence::Certain);
        assert_eq!(detect(&format!("{{{}}}", line.replace("content", "parts"))), Confidence::None);
        assert_eq!(detect(r#"{"type":"summary","summary":"a","leafUuid":"u"}"#), Confidence::Certain);
    }

    #[test]
    fn files_are_told_apart() {
        assert_eq!(part(&["-home-me", "0a1b.jsonl"]), Some(FileRole::Session("0a1b")));
        assert_eq!(part(&["-home-me", "0a1b", "subagents", "agent-7.jsonl"]), Some(FileRole::Child("0a1b")));
        assert_eq!(part(&["-home-me", "0a1b", "subagents", "flow", "agent-7.jsonl"]), Some(FileRole::Child("0a1b")));
        assert_eq!(part(&["-home-me", "agent-7.jsonl"]), Some(FileRole::Orphan));
        assert_eq!(part(&["-home-me", "0a1b", "tool-results", "x.txt"]), None);
        assert_eq!(part(&["-home-me", ".jsonl"]), None);
        assert_eq!(part(&["x.jsonl"]), None);
    }
}
