//! Tool calls: held until their arguments are known, and described in one line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::event::{Event, EventKind, ToolKind, ToolStart, ToolUpdate};
use crate::json::{self, Str};

/// A tool call that started.
#[derive(Debug, Clone)]
pub struct Call {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// What the tool does.
    pub kind: ToolKind,
    /// The agent's own description.
    pub title: Option<String>,
    /// The arguments, usually a JSON object.
    pub input: Option<String>,
    /// The call whose sub-agent made this one.
    pub parent: Option<String>,
}

/// Tool calls that started without arguments, which some agents print in a later line.
#[derive(Debug, Default)]
pub struct PendingCalls(Vec<Call>);

impl PendingCalls {
    /// Takes the calls to write before this event: the one whose arguments it brings, or all if something else happens.
    /// Events that are not the agent's actions do not release calls.
    pub fn take_before(&mut self, event: &Event<'_>) -> Vec<Call> {
        match &event.kind {
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, input: Some(input), .. }) => {
                match self.0.iter().position(|call| call.id == *tool_call_id) {
                    Some(index) => vec![Call { input: Some(input.to_string()), ..self.0.remove(index) }],
                    None => self.take_all(),
                }
            }
            EventKind::ToolStart(ToolStart { input: None, .. })
            | EventKind::Usage(_)
            | EventKind::Session(_)
            | EventKind::Activity(_)
            | EventKind::Retry(_)
            | EventKind::Unrecognized(_) => Vec::new(),
            _ => self.take_all(),
        }
    }

    /// The call that an event starts, if its arguments are known; otherwise it is held.
    pub fn start(&mut self, event: &Event<'_>) -> Option<Call> {
        let EventKind::ToolStart(ToolStart { tool_call_id, name, input, tool_kind, title, .. }) = &event.kind else {
            return None;
        };
        let call = Call {
            id: tool_call_id.to_string(),
            name: name.to_string(),
            kind: *tool_kind,
            title: title.as_deref().map(str::to_owned),
            input: input.as_deref().map(str::to_owned),
            parent: event.parent_tool_call_id.as_deref().map(str::to_owned),
        };
        if call.input.is_some() {
            return Some(call);
        }
        self.0.push(call);
        None
    }

    /// All of them, in the order in which they began.
    pub fn take_all(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.0)
    }
}

const COMMAND: &[&str] = &["command", "cmd", "commandLine", "command_line", "script"];
const FOLDER: &[&str] = &["workdir", "cwd", "working_directory", "workingDirectory", "directory", "dir_path"];
const PATH: &[&str] = &[
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "target_file",
    "filename",
    "file",
    "notebook_path",
    "destination",
    "directory",
    "dir_path",
];
const PATTERN: &[&str] = &["pattern", "query", "regex", "search", "glob"];
const ADDRESS: &[&str] = &["url", "uri", "query"];
const TASK: &[&str] = &["description", "title", "task", "prompt", "message", "question", "skill", "name"];

/// Maximum length of a description in characters.
const LINE_CHARACTERS: usize = 240;

impl Call {
    /// See [`detail`].
    pub fn detail(&self) -> Option<String> {
        detail(self.kind, self.title.as_deref(), self.input.as_deref())
    }

    /// The command line that it runs.
    pub fn command(&self) -> Option<String> {
        command(self.kind, self.input.as_deref()?)
    }

    /// The working folder, if it is not the agent's own.
    pub fn folder(&self) -> Option<String> {
        Arguments::read(self.input.as_deref()?)?.text(FOLDER)
    }
}

/// A one-line description of a tool call: the command, the path or another main argument.
pub fn detail(kind: ToolKind, title: Option<&str>, input: Option<&str>) -> Option<String> {
    let arguments = input.and_then(Arguments::read);
    let find = |names: &[&str]| arguments.as_ref().and_then(|arguments| arguments.text(names));
    let own = match kind {
        ToolKind::Execute => input.and_then(|input| command(kind, input)).map(|command| script(&command).to_owned()),
        ToolKind::Edit => find(PATH).or_else(|| arguments.as_ref().and_then(Arguments::changed_files)),
        ToolKind::Read | ToolKind::Delete | ToolKind::Move => find(PATH),
        ToolKind::Search => find(PATTERN).or_else(|| find(PATH)),
        ToolKind::Fetch => find(ADDRESS),
        ToolKind::Delegate => find(TASK),
        _ => None,
    };
    let known =
        own.or_else(|| title.map(str::to_owned)).or_else(|| [COMMAND, PATH, PATTERN, ADDRESS, TASK].into_iter().find_map(find));
    let text = known.or_else(|| input.filter(|input| *input != "{}").map(str::to_owned))?;
    one_line(&text)
}

fn command(kind: ToolKind, input: &str) -> Option<String> {
    match Arguments::read(input) {
        Some(arguments) => arguments.command(),
        // Some tools take free text: a JSON string, or not JSON at all.
        None if kind == ToolKind::Execute => {
            let text = json::parse::<Str<'_>>(input).map(|text| text.to_string());
            text.or_else(|| json::parse::<&RawValue>(input).is_none().then(|| input.to_owned()))
        }
        None => None,
    }
    .filter(|command| !command.trim().is_empty())
}

/// The arguments of a call, by name.
struct Arguments<'a>(BTreeMap<Str<'a>, &'a RawValue>);

impl<'a> Arguments<'a> {
    fn read(input: &'a str) -> Option<Self> {
        json::parse(input).map(Self)
    }

    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(&Str(Cow::Borrowed(name))).copied()
    }

    /// The first of those that is there and says something.
    fn text(&self, names: &[&str]) -> Option<String> {
        let texts = names.iter().filter_map(|name| json::parse::<Str<'_>>(self.get(name)?.get()));
        texts.map(|text| text.to_string()).find(|text| !text.trim().is_empty())
    }

    /// The files of a tool that changes several at once.
    fn changed_files(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Changed<'a> {
            #[serde(borrow)]
            path: Str<'a>,
        }
        let changes: Vec<Changed<'_>> = json::parse(self.get("changes")?.get())?;
        let paths: Vec<&str> = changes.iter().map(|change| &*change.path).collect();
        (!paths.is_empty()).then(|| paths.join(", "))
    }

    fn command(&self) -> Option<String> {
        COMMAND.iter().find_map(|name| {
            let raw = self.get(name)?.get();
            let words = || json::parse::<Vec<Str<'_>>>(raw).map(|words| joined(&words));
            json::parse::<Str<'_>>(raw).map(|text| text.to_string()).or_else(words)
        })
    }
}

/// What a command line that only starts a shell with a quoted script runs in it.
fn script(command: &str) -> &str {
    let inside = command.split_once(" -lc '").or_else(|| command.split_once(" -c '"));
    match inside.and_then(|(shell, rest)| Some((shell, rest.strip_suffix('\'')?))) {
        Some((shell, script)) if is_shell(shell) && !script.contains('\'') => script,
        _ => command,
    }
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("bash" | "sh" | "zsh" | "dash"))
}

/// A list of words as one would type it. `bash -c SCRIPT` is the script: the rest is how the agent starts it.
fn joined(words: &[Str<'_>]) -> String {
    if let [shell, flag, script] = words
        && is_shell(shell)
        && matches!(&**flag, "-c" | "-lc")
    {
        return script.to_string();
    }
    let plain =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./=:,@%+".contains(&byte));
    let quoted =
        words.iter().map(|word| if plain(word) { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The first line that says something, cut to what people read at a glance.
pub fn one_line(text: &str) -> Option<String> {
    let text = text.trim();
    let line = text.lines().next()?.trim_end();
    let end = line.char_indices().nth(LINE_CHARACTERS).map_or(line.len(), |(index, _)| index);
    let more = if end < line.len() || line.len() < text.len() { "…" } else { "" };
    Some(format!("{}{more}", &line[..end]))
}

#[cfg(test)]
mod tests {
    use super::{Call, one_line};
    use crate::event::ToolKind;

    fn call(kind: ToolKind, input: &str) -> Call {
        Call { id: "1".into(), name: "tool".into(), kind, title: None, input: Some(input.into()), parent: None }
    }

    #[test]
    fn the_detail_is_what_the_kind_is_about() {
        for (kind, input, want) in [
            (ToolKind::Execute, r#"{"description":"List","command":"ls -l"}"#, Some("ls -l")),
            (ToolKind::Execute, r#"{"command":["bash","-lc","ls | wc"]}"#, Some("ls | wc")),
            (ToolKind::Execute, r#"{"command":["rg","a b"]}"#, Some("rg 'a b'")),
            (ToolKind::Execute, r#"{"command":"/bin/bash -lc 'ls | wc'"}"#, Some("ls | wc")),
            (ToolKind::Execute, r#"{"command":"bash -c 'a' 'b'"}"#, Some("bash -c 'a' 'b'")),
            (ToolKind::Edit, r#"{"changes":[{"path":"a","kind":"add"},{"path":"b","kind":"add"}]}"#, Some("a, b")),
            (ToolKind::Edit, r#"{"content":"x","file_path":"/p/a.rs","path":"b"}"#, Some("/p/a.rs")),
            (ToolKind::Search, r#"{"path":"src","pattern":"fn main"}"#, Some("fn main")),
            (ToolKind::Mcp, r#"{"answer":42}"#, Some(r#"{"answer":42}"#)),
            (ToolKind::Other, "{}", None),
            (ToolKind::Execute, "not json", Some("not json")),
        ] {
            assert_eq!(call(kind, input).detail().as_deref(), want, "{input}");
        }
    }

    #[test]
    fn a_line_is_cut_between_characters() {
        assert_eq!(one_line("\n one\ntwo").as_deref(), Some("one…"));
        assert_eq!(one_line(&"é".repeat(300)).map(|line| line.chars().count()), Some(241));
        assert_eq!(one_line(" \n"), None);
    }
}
