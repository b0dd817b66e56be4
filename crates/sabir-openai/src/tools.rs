//! The tools: what the model is told of them, and what they do.

mod files;

use std::time::{Duration, Instant};

use sabir_core::diff::Diff;
use sabir_core::event::{Change, ToolKind, ToolStatus};
use sabir_core::launch::Permission;
use serde_json::{Value, json};

use crate::api::Call;
use crate::commands::Commands;
use crate::confine::Confinement;
use crate::folder::{Folder, Refused};

/// The longest time that the model may ask for.
#[cfg(unix)]
const LONGEST: Duration = Duration::from_secs(600);

/// One tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: ToolKind,
    /// JSON Schema of its arguments.
    pub(crate) parameters: fn() -> Value,
    /// The narrowest permission that has it.
    needs: Permission,
    run: fn(&Place<'_>, Value) -> Done,
}

/// Where tools work.
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) commands: &'a Commands,
    pub(crate) confinement: &'a Confinement,
    pub(crate) permission: Permission,
    pub(crate) command_time: Duration,
    /// Held while a file is changed: two calls may change the same one.
    pub(crate) changing: &'a std::sync::Mutex<()>,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) output: String,
    pub(crate) status: ToolStatus,
    pub(crate) exit_code: Option<i32>,
    pub(crate) changed: Option<Box<Changed>>,
}

/// A file that a call changed.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) path: String,
    pub(crate) change: Change,
    pub(crate) diff: Diff,
}

const ALL: &[Tool] = &[
    Tool {
        name: "list",
        about: "Lists the files of a folder, folders with a slash behind their name.",
        kind: ToolKind::Search,
        parameters: || {
            object(
                &[
                    ("path", "string", "The folder, from the working folder. Without it, the working folder."),
                    ("depth", "integer", "How many levels deep, 1 to 8. Without it, 1."),
                ],
                &[],
            )
        },
        needs: Permission::ReadOnly,
        run: files::list,
    },
    Tool {
        name: "read",
        about: "Reads a text file. A long one is cut in the middle: read it piece by piece with `offset` and `limit`.",
        kind: ToolKind::Read,
        parameters: || {
            object(
                &[
                    ("path", "string", "The file, from the working folder."),
                    ("offset", "integer", "The first line to read, from 1."),
                    ("limit", "integer", "How many lines to read."),
                ],
                &["path"],
            )
        },
        needs: Permission::ReadOnly,
        run: files::read,
    },
    Tool {
        name: "edit",
        about: "Replaces text in a file. `old_string` must be in it exactly once, unless `replace_all` is true.",
        kind: ToolKind::Edit,
        parameters: || {
            object(
                &[
                    ("path", "string", "The file, from the working folder."),
                    ("old_string", "string", "The text to replace, exactly as it stands in the file."),
                    ("new_string", "string", "The text to put there."),
                    ("replace_all", "boolean", "Replace it wherever it stands."),
                ],
                &["path", "old_string", "new_string"],
            )
        },
        needs: Permission::Edit,
        run: files::edit,
    },
    Tool {
        name: "write",
        about: "Writes a whole file: a new one, or instead of what is there. Folders are made as needed.",
        kind: ToolKind::Edit,
        parameters: || {
            object(
                &[("path", "string", "The file, from the working folder."), ("content", "string", "All of its content.")],
                &["path", "content"],
            )
        },
        needs: Permission::Edit,
        run: files::write,
    },
    #[cfg(unix)]
    Tool {
        name: "shell",
        about: "Runs a command with `sh -c` in the working folder and gives back what it prints and its exit code. It gets no \
                input. What it leaves in the background ends with it.",
        kind: ToolKind::Execute,
        parameters: || {
            object(
                &[
                    ("command", "string", "The command."),
                    ("timeout_seconds", "integer", "How long it may take, at most 600. Without it, 120."),
                ],
                &["command"],
            )
        },
        needs: Permission::Full,
        run: shell,
    },
];

/// The tools that there are with a permission.
pub(crate) fn of(permission: Permission) -> Vec<&'static Tool> {
    ALL.iter().filter(|tool| tool.needs <= permission).collect()
}

/// What a tool of that name does.
pub(crate) fn kind(name: &str) -> ToolKind {
    ALL.iter().find(|tool| tool.name == name).map_or_else(|| ToolKind::of_name(name), |tool| tool.kind)
}

/// A line for people: the file or the command.
pub(crate) fn title(call: &Call) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let text = ["path", "command"].iter().find_map(|key| arguments.get(key)?.as_str())?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(160).collect())
}

/// Carries out a call, and says how long it took. Never fails: what goes wrong is the result.
pub(crate) fn call(place: &Place<'_>, call: &Call) -> (Done, Duration) {
    let started = Instant::now();
    let done = match ALL.iter().find(|tool| tool.name == call.name) {
        None => Done::failed(format!("there is no tool named {}", call.name)),
        Some(tool) if tool.needs > place.permission => {
            Done::denied(format!("{} is not allowed: this run has the permission {}", tool.name, place.permission))
        }
        Some(tool) => match arguments(&call.arguments) {
            Ok(arguments) => (tool.run)(place, arguments),
            Err(error) => Done::failed(format!("the arguments are not a JSON object: {error}")),
        },
    };
    (done, started.elapsed())
}

fn arguments(text: &str) -> Result<Value, serde_json::Error> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str::<serde_json::Map<String, Value>>(text).map(Value::Object)
}

#[cfg(unix)]
fn shell(place: &Place<'_>, arguments: Value) -> Done {
    #[derive(serde::Deserialize)]
    struct Arguments {
        command: String,
        timeout_seconds: Option<u64>,
    }
    let arguments: Arguments = match take(arguments) {
        Ok(arguments) => arguments,
        Err(done) => return done,
    };
    let time = arguments.timeout_seconds.map_or(place.command_time, Duration::from_secs).min(LONGEST);
    let ended = match crate::shell::run(&arguments.command, place.folder.path(), time, place.commands, place.confinement) {
        Ok(ended) => ended,
        Err(error) => return Done::failed(format!("the command can't be run: {error}")),
    };
    let mut output = ended.output;
    let note = if ended.timed_out {
        Some(format!("[ended after {} s, its time was over]", time.as_secs()))
    } else if let Some(signal) = ended.signal {
        Some(format!("[ended by signal {signal}]"))
    } else {
        ended.exit_code.filter(|code| *code != 0).map(|code| format!("[exit code {code}]"))
    };
    let ok = note.is_none();
    if let Some(note) = note {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&note);
    }
    let status = if ok { ToolStatus::Ok } else { ToolStatus::Error };
    Done { output, status, exit_code: ended.exit_code, changed: None }
}

/// The arguments as the tool wants them.
fn take<T>(arguments: Value) -> Result<T, Done>
where
    T: serde::de::DeserializeOwned,
{
    serde_json::from_value(arguments).map_err(|error| Done::failed(format!("the arguments do not fit: {error}")))
}

fn object(fields: &[(&str, &str, &str)], required: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|(name, kind, about)| ((*name).to_owned(), json!({"type": kind, "description": about}))).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

impl Done {
    fn ok(output: impl Into<String>) -> Self {
        Self { output: output.into(), status: ToolStatus::Ok, exit_code: None, changed: None }
    }

    pub(crate) fn failed(output: impl Into<String>) -> Self {
        Self { status: ToolStatus::Error, ..Self::ok(output) }
    }

    fn denied(output: impl Into<String>) -> Self {
        Self { status: ToolStatus::Denied, ..Self::ok(output) }
    }
}

impl From<Refused> for Done {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Outside(why) => Self::denied(why),
            Refused::Failed(why) => Self::failed(why),
        }
    }
}
