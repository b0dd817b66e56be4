//! Claude Code.

use serde_json::json;

use super::{COMMANDS, Exception, Recipe, lane_by_tools, title};
use crate::check::Aspect;
use crate::place::Place;
use crate::scenario::Tool;
use crate::script::{Api, Input};

pub(super) const RECIPE: Recipe = Recipe {
    id: "claude-code",
    version: "2.1.325",
    package: "@anthropic-ai/claude-code",
    program: "claude",
    folder: "node_modules/@anthropic-ai/claude-code-{platform}",
    node: None,
    api: Api::Anthropic,
    model: "claude-sonnet-4-5-20250929",
    files: |_| Vec::new(),
    environment,
    tool,
    shown: None,
    counts_auxiliary: false,
    exceptions: EXCEPTIONS,
    lane: lane_by_tools,
    auxiliary: title,
};

const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenarios: COMMANDS,
        aspect: Aspect::ExitCode,
        what: &["unknown instead of 0"],
        always: true,
        why: "Claude Code tells the exit code of a command that fails, and of no other.",
    },
    Exception {
        scenarios: &["big-output"],
        aspect: Aspect::Output,
        what: &["bytes of Bash without all of its 1199999"],
        always: true,
        why: "Claude Code puts a large output into a file, and tells its start and the name of the file.",
    },
];

fn environment(place: &Place) -> Vec<(&'static str, String)> {
    let on = || "1".to_owned();
    vec![
        ("ANTHROPIC_BASE_URL", place.url()),
        ("ANTHROPIC_API_KEY", "sk-ant-lab".to_owned()),
        // By default it waits for minutes before it gives up.
        ("CLAUDE_CODE_MAX_RETRIES", "2".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", on()),
        ("DISABLE_AUTOUPDATER", on()),
        ("DISABLE_BUG_COMMAND", on()),
        ("DISABLE_ERROR_REPORTING", on()),
        ("DISABLE_TELEMETRY", on()),
    ]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => ("Bash", json!({"command": command.line, "description": "Run the command"})),
        Tool::Read(path) => ("Read", json!({"file_path": place.file(path)})),
        Tool::Write { path, content } => ("Write", json!({"file_path": place.file(path), "content": content})),
        Tool::Edit { path, old, new } => ("Edit", json!({"file_path": place.file(path), "old_string": old, "new_string": new})),
    };
    (name, Input::Json(arguments))
}
