//! Codex: the current version, and the last but a few that spoke the old protocol.

use serde_json::json;

use super::{Exception, Recipe, lane_by_tools, title};
use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input};

pub(super) const RECIPE: Recipe = Recipe {
    id: "codex",
    version: "0.166.0",
    package: "@openai/codex",
    program: "codex",
    folder: "node_modules/.bin",
    node: Some((16, 0)),
    api: Api::Responses,
    model: "gpt-5.5",
    files,
    environment,
    tool,
    shown: Some(shown),
    counts_auxiliary: false,
    exceptions: EXCEPTIONS,
    lane: lane_by_tools,
    auxiliary: title,
};

pub(super) const RECIPE_0_36: Recipe = Recipe {
    version: "0.36.0",
    node: Some((20, 0)),
    model: "gpt-5-codex",
    files: files_0_36,
    tool: tool_0_36,
    shown: Some(shown_0_36),
    exceptions: EXCEPTIONS_0_36,
    ..RECIPE
};

const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenarios: &["fatal-error-later"],
        aspect: Aspect::Tokens,
        what: &["uncached input unknown", "cache read unknown", "output unknown"],
        always: true,
        why: "Codex tells its tokens at the end of a turn that succeeds, and only there.",
    },
    Exception {
        scenarios: &["resume"],
        aspect: Aspect::Tokens,
        what: &["uncached input unknown", "cache read unknown", "output unknown"],
        always: true,
        why: "In a session that is continued, Codex gives the figures of the whole session, and nothing tells which part is of this run.",
    },
    Exception {
        scenarios: &["read-only"],
        aspect: Aspect::Tools,
        what: &["[command_execution ok, command_execution error] instead of", "[command_execution ok] instead of"],
        always: false,
        why: "Codex does not tell of a patch that it refuses, and not always of a command that its sandbox stops.",
    },
    Exception {
        scenarios: &["edit"],
        aspect: Aspect::Tools,
        what: &[
            "[command_execution ok, file_change ok, command_execution error] instead of",
            "[command_execution ok, file_change ok] instead of",
        ],
        always: false,
        why: "Codex does not tell of a patch that it refuses, and not always of a command that its sandbox stops.",
    },
    Exception {
        scenarios: &["big-output"],
        aspect: Aspect::Output,
        what: &["bytes of command_execution without all of its 1199999"],
        always: true,
        why: "Codex tells the first and the last part of an output that is larger than a megabyte.",
    },
];

const EXCEPTIONS_0_36: &[Exception] = &[
    Exception {
        scenarios: &["read-only"],
        aspect: Aspect::Tools,
        what: &["[exec_command ok, exec_command error] instead of"],
        always: true,
        why: "Codex does not tell of a patch that it refuses.",
    },
    Exception {
        scenarios: &["edit"],
        aspect: Aspect::Tools,
        what: &["[exec_command ok, apply_patch ok, exec_command error] instead of"],
        always: true,
        why: "Codex does not tell of a patch that it refuses.",
    },
    Exception {
        scenarios: NEW,
        aspect: Aspect::Session,
        what: &["no session id"],
        always: true,
        why: "Codex 0.36 does not name its session.",
    },
    Exception {
        scenarios: &["resume"],
        aspect: Aspect::Run,
        what: &[],
        always: true,
        why: "Codex 0.36 does not name its session, so nobody can ask for it again.",
    },
];

/// All scenarios but the one that continues a session.
const NEW: &[&str] = &[
    "plain",
    "thinking",
    "shell-ok",
    "shell-fails",
    "create-and-edit",
    "multi-turn",
    "parallel-tools",
    "retry",
    "cut",
    "fatal-error",
    "fatal-error-later",
    "big-output",
    "big-answer",
    "unicode",
    "interrupt-mid-stream",
    "interrupt-mid-tool",
    "read-only",
    "edit",
];

fn files(place: &Place) -> Vec<HomeFile> {
    let quiet = "\n[features]\nplugins = false\n\n[analytics]\nenabled = false\n\n[otel]\nexporter = \"none\"\n";
    let content = format!("check_for_update_on_startup = false\n{}{quiet}", provider(place, RECIPE.model));
    vec![HomeFile { path: ".codex/config.toml", content }]
}

fn files_0_36(place: &Place) -> Vec<HomeFile> {
    vec![HomeFile { path: ".codex/config.toml", content: provider(place, RECIPE_0_36.model) }]
}

fn provider(place: &Place, model: &str) -> String {
    let url = place.url();
    format!(
        r#"model = "{model}"
model_provider = "lab"

[model_providers.lab]
name = "lab"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LAB_API_KEY"
request_max_retries = 2
stream_max_retries = 2
"#
    )
}

fn environment(_: &Place) -> Vec<(&'static str, String)> {
    vec![("LAB_API_KEY", "lab".to_owned())]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    match patch(tool) {
        Some(patch) => ("apply_patch", Input::Freeform(patch)),
        None => ("exec_command", Input::Json(json!({"cmd": command(tool), "workdir": place.work, "yield_time_ms": 20_000}))),
    }
}

fn tool_0_36(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let command = match patch(tool) {
        Some(patch) => json!(["apply_patch", patch]),
        None => json!(["bash", "-lc", command(tool)]),
    };
    ("shell", Input::Json(json!({"command": command, "workdir": place.work, "timeout_ms": 600_000})))
}

/// Files are changed by a patch in Codex' own format.
fn patch(tool: &Tool) -> Option<String> {
    let body = match *tool {
        Tool::Shell(_) | Tool::Read(_) => return None,
        Tool::Write { path, content } => {
            let lines = content.lines().map(|line| format!("+{line}\n"));
            format!("*** Add File: {path}\n{}", lines.collect::<String>())
        }
        // The text that is replaced is a part of one line in our scenarios; a patch knows whole lines.
        Tool::Edit { path, old, new } => {
            let line = crate::place::FILES
                .iter()
                .find(|(name, _)| *name == path)
                .map_or(old, |(_, content)| content.lines().find(|line| line.contains(old)).unwrap_or(old));
            format!("*** Update File: {path}\n@@\n-{line}\n+{}\n", line.replace(old, new))
        }
    };
    Some(format!("*** Begin Patch\n{body}*** End Patch\n"))
}

fn command(tool: &Tool) -> String {
    match *tool {
        Tool::Read(path) => format!("cat {path}"),
        Tool::Shell(command) => command.line.to_owned(),
        Tool::Write { .. } | Tool::Edit { .. } => String::new(),
    }
}

/// It tells of what was done, not of the tool that did it.
fn shown(tool: &Tool) -> &'static str {
    if patch(tool).is_some() { "file_change" } else { "command_execution" }
}

fn shown_0_36(tool: &Tool) -> &'static str {
    if patch(tool).is_some() { "apply_patch" } else { "exec_command" }
}
