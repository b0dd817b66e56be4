//! Tool calls as the model makes them, and what it is shown of their results.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{Plan, PlanItem, PlanStatus, Text, ToolEnd, ToolKind, ToolStart, ToolStatus};
use sabir_core::json::{self, Str, StringOr, TextOr, Unread};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::patch;
use super::whole::Log;
use crate::codex::{report, shell};

/// A call or a result, as far as it is read.
#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    call_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    name: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    arguments: Option<Str<'a>>,
    #[serde(borrow, default)]
    input: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    action: Option<Action<'a>>,
    #[serde(borrow, default)]
    output: Option<TextOr<'a>>,
}

#[derive(Deserialize)]
struct Action<'a> {
    #[serde(borrow, default)]
    query: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    command: Option<Vec<Str<'a>>>,
}

/// The arguments that tools have which run something, by all their names.
#[derive(Deserialize, Default)]
struct Arguments<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    command: Option<Command<'a>>,
    #[serde(borrow, default)]
    cmd: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    input: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    plan: Option<Vec<Step<'a>>>,
}

type Command<'a> = StringOr<'a, Vec<Str<'a>>>;

#[derive(Deserialize)]
struct Step<'a> {
    #[serde(borrow)]
    step: Str<'a>,
    #[serde(borrow, default)]
    status: Option<Str<'a>>,
}

/// What is known of a call in the open turn.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The patch that it applies.
    patch: Option<String>,
    /// Its end was told.
    pub(super) over: bool,
}

impl Log {
    /// A call begins.
    pub(super) fn call<'a>(&mut self, r#type: &str, call: Call<'a>, facts: &mut Facts<'a>) {
        let Some(id) = call.call_id.or(call.id) else { return self.call_without_id(r#type, facts) };
        let id = Cow::from(id);
        self.overtake();
        // A search is told as an item before.
        if self.calls.get(&*id).is_some_and(|known| known.over) {
            return;
        }
        let name = match (call.name, r#type) {
            (Some(name), _) => Cow::from(name),
            (None, "local_shell_call") => Cow::Borrowed("local_shell"),
            (None, r#type) => Cow::Owned(r#type.strip_suffix("_call").unwrap_or(r#type).to_owned()),
        };
        let parsed: Option<Arguments<'_>> = call.arguments.as_deref().and_then(json::parse);
        let is_json = parsed.is_some();
        let arguments = parsed.unwrap_or_default();
        let words = call.action.as_ref().and_then(|action| action.command.as_deref());
        let command =
            words.map(joined).or(arguments.cmd.map(|cmd| cmd.to_string())).or(arguments.command.map(|command| match command {
                StringOr::String(text) => text.to_string(),
                StringOr::Other(words) => joined(&words),
            }));
        let texts = [call.input.as_deref(), arguments.input.as_deref(), command.as_deref()];
        let patch = texts.into_iter().flatten().find_map(patch::find).map(str::to_owned);
        let query = call.action.as_ref().and_then(|action| action.query.as_deref()).map(str::to_owned);
        let script = command.as_deref().map(shell::script);
        // The agent applies such a patch itself; no program is run.
        let patches = patch.is_some() && script.is_some_and(|script| script.trim_start().starts_with("apply_patch"));
        let title = script.or(query.as_deref()).and_then(report::title).map(str::to_owned);
        let plan = arguments.plan.map(|plan| plan.into_iter().map(|step| item(step).into_owned()).collect());
        let input = match (call.arguments, call.input) {
            (Some(arguments), _) => {
                let is_json = is_json || json::parse::<serde::de::IgnoredAny>(&arguments).is_some();
                is_json.then(|| Cow::from(arguments))
            }
            (None, Some(input)) => Some(Cow::Owned(given(&input))),
            (None, None) => report::arguments(&Asked { command: command.as_deref(), query: query.as_deref() }),
        };
        facts.push(
            ToolStart::of_kind(if patches { ToolKind::Edit } else { kind(&name, command.is_some()) }, id.clone(), name)
                .input(input)
                .title(title),
        );
        plan.into_iter().for_each(|items| facts.push(Plan::new(items)));
        // Nothing else tells that a search is done.
        let over = matches!(r#type, "web_search_call" | "image_generation_call");
        if over {
            facts.push(end(id.clone(), None, ToolStatus::Ok, None));
        }
        let known = self.calls.entry(id.into_owned()).or_default();
        known.patch = patch.or(known.patch.take());
        known.over |= over;
    }

    fn call_without_id(&mut self, r#type: &str, facts: &mut Facts<'_>) {
        self.unnamed = self.unnamed.saturating_add(1);
        let id = format!("{}_{}", r#type.strip_suffix("_call").unwrap_or(r#type), self.unnamed);
        let call = Call {
            id: None,
            call_id: Some(Str(Cow::Owned(id))),
            name: None,
            arguments: None,
            input: None,
            action: None,
            output: None,
        };
        self.call(r#type, call, facts);
    }

    /// The result of a call.
    pub(super) fn result<'a>(&mut self, call: Call<'a>, facts: &mut Facts<'a>) {
        let Some(id) = call.call_id else { return };
        let known = self.calls.entry(id.to_string()).or_default();
        if std::mem::replace(&mut known.over, true) {
            return;
        }
        let result = call.output.map(Outcome::of).unwrap_or_default();
        if let (Some(patch), ToolStatus::Ok) = (&known.patch, result.status) {
            patch::applied(patch, &result.output, &id).into_iter().for_each(|change| facts.push(change));
        }
        if result.output.written().starts_with('{')
            && let Some(agent) = json::parse::<Started<'_>>(&result.output)
        {
            self.agents.insert(agent.agent_id.to_string(), id.to_string());
        }
        facts.push(end(id.into(), Some(result.output), result.status, result.exit_code));
    }
}

/// What the result of a call says of the agent that it started.
#[derive(Deserialize)]
struct Started<'a> {
    #[serde(borrow)]
    agent_id: Str<'a>,
}

/// The arguments of a tool that is given a text, which is mostly a patch and long.
fn given(input: &str) -> String {
    let mut json = String::with_capacity(input.len() + input.len() / 8 + 16);
    json.push_str(r#"{"input":""#);
    json::escaped_pieces(input, |piece| json.push_str(piece));
    json.push_str(r#""}"#);
    json
}

#[derive(serde::Serialize)]
struct Asked<'c> {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'c str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'c str>,
}

fn joined(words: &[Str<'_>]) -> String {
    shell::join(words.iter().map(|word| &**word))
}

fn item(step: Step<'_>) -> PlanItem<'_> {
    let status = match step.status.as_deref() {
        Some("completed") => PlanStatus::Completed,
        Some("in_progress") => PlanStatus::InProgress,
        _ => PlanStatus::Pending,
    };
    PlanItem { text: step.step.into(), status }
}

/// The tools of MCP servers are named `<server>__<tool>`; those that run a command have had many names.
fn kind(name: &str, runs: bool) -> ToolKind {
    match ToolKind::of_name(name) {
        ToolKind::Other if name.contains("__") => ToolKind::Mcp,
        ToolKind::Other if runs => ToolKind::Execute,
        kind => kind,
    }
}

pub(super) fn end<'a>(
    tool_call_id: Cow<'a, str>,
    output: Option<Text<'a>>,
    status: ToolStatus,
    exit_code: Option<i32>,
) -> ToolEnd<'a> {
    ToolEnd::new(tool_call_id, status).output(output).exit_code(exit_code)
}

/// What the model is shown of a result.
#[derive(Debug, PartialEq)]
struct Outcome<'a> {
    output: Text<'a>,
    status: ToolStatus,
    exit_code: Option<i32>,
}

impl Default for Outcome<'_> {
    fn default() -> Self {
        Self { output: Text::default(), status: ToolStatus::Ok, exit_code: None }
    }
}

impl<'a> Outcome<'a> {
    fn of(output: TextOr<'a>) -> Self {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow, default)]
            text: Option<Str<'a>>,
        }
        let Unread(other) = match output {
            TextOr::Text(text) => return Self::of_text(text),
            TextOr::Other(other) => other,
        };
        match json::parse::<Vec<Block<'a>>>(other) {
            Some(blocks) => Self::of_text(blocks.iter().filter_map(|block| block.text.as_deref()).collect::<String>().into()),
            None => Self { output: Text::from(other), ..Self::default() },
        }
    }

    fn of_text(text: Text<'a>) -> Self {
        let status = status_of(&text);
        let head = match text.escaped() {
            Some(escaped) => headed(escaped, diff::escaped_line_ends(escaped), 2),
            None => headed(&text, memchr::memchr_iter(b'\n', text.as_bytes()), 1),
        };
        let (exit_code, output) = match head {
            Some((exit_code, head)) => (exit_code, text.after_written(head)),
            None => (None, text),
        };
        let (exit_code, output) = match measured(&output) {
            Some((code, output)) => (code.or(exit_code), output),
            None => (exit_code, output),
        };
        let status = match exit_code {
            Some(0) => ToolStatus::Ok,
            Some(_) => ToolStatus::Error,
            None => status,
        };
        Self { output, status, exit_code }
    }
}

/// What Codex says of a call is not longer.
const LONGEST: usize = 1_024;

/// How results begin, or what they say, of calls that did not do what was asked.
fn status_of(text: &Text<'_>) -> ToolStatus {
    const FAILED: &[&str] = &[
        "error: ",
        "failed in sandbox",
        "failed to ",
        "execution error",
        "exec_command failed",
        "apply_patch verification failed",
        "unsupported call",
        "Script failed",
        "tool call error",
    ];
    static REJECTED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("rejected by user"));
    // None of these words is written otherwise in JSON.
    let text = text.written();
    // What Codex says itself is short; a program may print the same words.
    let rejected = text.len() < LONGEST && REJECTED.find(text.as_bytes()).is_some();
    if rejected || text.starts_with("patch rejected") || text.starts_with("exec command rejected") {
        ToolStatus::Denied
    } else if text.starts_with("aborted") {
        ToolStatus::Cancelled
    } else if FAILED.iter().any(|start| text.starts_with(start)) {
        ToolStatus::Error
    } else {
        ToolStatus::Ok
    }
}

/// The exit code that a result gives which has lines about itself before its output, and how long those lines are. The
/// text may be as it is written in JSON, where ends of lines are longer: the lines have nothing else that is written
/// otherwise.
fn headed(text: &str, ends: impl Iterator<Item = usize>, length_of_end: usize) -> Option<(Option<i32>, usize)> {
    const HEADS: &[&str] = &["Chunk ID: ", "Wall time", "Exit code: ", "Process ", "Script "];
    if !HEADS.iter().any(|start| text.starts_with(start)) {
        return None;
    }
    let (mut code, mut start) = (None, 0);
    for end in ends.take_while(|end| end + length_of_end <= LONGEST) {
        let line = &text[start..end];
        start = end + length_of_end;
        if line == "Output:" {
            return Some((code, start));
        }
        let told = line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "));
        code = code.or_else(|| told?.trim().parse().ok());
    }
    None
}

/// The exit code and the output of a result that is JSON.
fn measured(text: &Text<'_>) -> Option<(Option<i32>, Text<'static>)> {
    #[derive(Deserialize)]
    struct Measured<'a> {
        #[serde(borrow)]
        output: &'a RawValue,
        #[serde(default, deserialize_with = "json::lenient")]
        metadata: Option<Metadata>,
        #[serde(default, deserialize_with = "json::lenient")]
        exit_code: Option<i32>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: Option<i32>,
    }
    if !text.written().starts_with('{') {
        return None;
    }
    // Without a code it is the tool's own JSON.
    let code = |measured: &Measured<'_>| measured.metadata.as_ref().and_then(|it| it.exit_code).or(measured.exit_code);
    // Nearly all bytes are in the output, which comes first; the rest is put behind an empty one.
    if let Some((output, rest)) = text.escaped().and_then(|json| Text::from_nested(json.strip_prefix(r#"{\"output\":"#)?))
        && let Some(rest) = json::unescaped(&format!("\"{rest}\""))
        && let Some(measured) = json::parse::<Measured<'_>>(&format!(r#"{{"output":""{rest}"#))
    {
        return code(&measured).map(|code| (Some(code), output));
    }
    let measured = json::parse::<Measured<'_>>(text)?;
    let output = Text::from_json(measured.output)?;
    code(&measured).map(|code| (Some(code), output.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, ToolStatus};
    use sabir_core::json;

    fn outcome(text: &str) -> (String, ToolStatus, Option<i32>) {
        let json = serde_json::to_string(text).expect("a string");
        let Outcome { output, status, exit_code } = Outcome::of(json::parse(&json).expect("a value"));
        let plain = Outcome::of_text(text.into());
        assert_eq!((&output, status, exit_code), (&plain.output, plain.status, plain.exit_code), "{text}");
        (output.into_string(), status, exit_code)
    }

    #[test]
    fn results_of_all_versions_are_read() {
        let old = r#"{"output":"hi\n","metadata":{"exit_code":3,"duration_seconds":0.0}}"#;
        assert_eq!(outcome(old), ("hi\n".into(), ToolStatus::Error, Some(3)));
        let rare = old.replace(r"hi\n", r"\b\ud83d\ude00 \\n");
        assert_eq!(outcome(&rare), ("\u{8}😀 \\n".into(), ToolStatus::Error, Some(3)));
        let late = r#"{"exit_code":0,"output":"\"hi\""}"#;
        assert_eq!(outcome(late), ("\"hi\"".into(), ToolStatus::Ok, Some(0)));
        // Codex says nothing twice: that is a tool's own JSON.
        let twice = r#"{"output":"a","output":"b","exit_code":0}"#;
        assert_eq!(outcome(twice), (twice.into(), ToolStatus::Ok, None));
        assert_eq!(outcome("Exit code: 0\nWall time: 0 seconds\nOutput:\nhi\n"), ("hi\n".into(), ToolStatus::Ok, Some(0)));
        let chunk = "Chunk ID: 21c519\nWall time: 0.0000 seconds\nProcess exited with code 3\nOriginal token count: 5\nOutput:\nOutput:\n";
        assert_eq!(outcome(chunk), ("Output:\n".into(), ToolStatus::Error, Some(3)));
        let both = format!("Wall time: 0.0000 seconds\nOutput:\n{}", old.replace('3', "0"));
        assert_eq!(outcome(&both), ("hi\n".into(), ToolStatus::Ok, Some(0)));
        let running = "Wall time: 9.0 seconds\nProcess running with session ID 7\nOutput:\nstarted\n";
        assert_eq!(outcome(running), ("started\n".into(), ToolStatus::Ok, None));
    }

    #[test]
    fn a_call_that_did_nothing_is_not_ok() {
        assert_eq!(outcome("unsupported call: no_such_tool").1, ToolStatus::Error);
        assert_eq!(
            outcome("patch rejected: writing outside of the project; rejected by user approval settings").1,
            ToolStatus::Denied
        );
        let printed = format!("{}\nrejected by user\n", "a line of a log\n".repeat(100));
        assert_eq!(outcome(&printed).1, ToolStatus::Ok);
        assert_eq!(outcome("aborted by user after 3.1s").1, ToolStatus::Cancelled);
        assert_eq!(outcome("Script failed\nWall time 0.0 seconds\nOutput:\nScript error:\nno").1, ToolStatus::Error);
        assert_eq!(outcome(r#"{"output":"mine"}"#), (r#"{"output":"mine"}"#.into(), ToolStatus::Ok, None));
        assert_eq!(outcome("Plan updated").1, ToolStatus::Ok);
    }
}
