//! GitHub Copilot CLI.

use serde_json::json;

use super::{Exception, Recipe, lane_by_tools, title};
use crate::check::Aspect;
use crate::place::Place;
use crate::scenario::Tool;
use crate::script::{Api, Input};

pub(super) const RECIPE: Recipe = Recipe {
    id: "copilot",
    version: "1.0.102",
    package: "@github/copilot",
    program: "copilot",
    folder: "node_modules/@github/copilot-{platform}",
    node: None,
    api: Api::Chat,
    model: "claude-sonnet-4.5",
    files: |_| Vec::new(),
    environment,
    tool,
    shown: None,
    counts_auxiliary: false,
    exceptions: EXCEPTIONS,
    lane: lane_by_tools,
    auxiliary: title,
};

/// The scenarios in which the model answers and the CLI may count.
const TOLD: &[&str] = &[
    "plain",
    "thinking",
    "shell-ok",
    "shell-fails",
    "create-and-edit",
    "multi-turn",
    "parallel-tools",
    "retry",
    "cut",
    "fatal-error-later",
    "big-output",
    "big-answer",
    "unicode",
    "resume",
    "read-only",
    "edit",
];

const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenarios: TOLD,
        aspect: Aspect::Tokens,
        what: &["uncached input unknown", "cache read unknown", "output unknown"],
        always: true,
        why: "Copilot CLI does not tell tokens.",
    },
    Exception {
        scenarios: &["thinking", "multi-turn"],
        aspect: Aspect::Tokens,
        what: &["reasoning unknown"],
        always: true,
        why: "Copilot CLI does not tell tokens.",
    },
    Exception {
        scenarios: &["big-output"],
        aspect: Aspect::Output,
        what: &["bytes of bash without all of its 1199999"],
        always: true,
        why: "Copilot CLI puts a large output into a file, and tells its start and the name of the file.",
    },
    Exception {
        scenarios: &["interrupt-mid-stream", "interrupt-mid-tool"],
        aspect: Aspect::Session,
        what: &["no session id"],
        always: false,
        why: "Copilot CLI names its session in its last line, which may not come when it is interrupted.",
    },
];

fn environment(place: &Place) -> Vec<(&'static str, String)> {
    vec![
        ("COPILOT_OFFLINE", "true".to_owned()),
        ("COPILOT_AUTO_UPDATE", "false".to_owned()),
        ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", place.url())),
        // It blackens its key wherever it comes up, so the key is no word that may be in a path.
        ("COPILOT_PROVIDER_API_KEY", "0-key-0-for-0-nobody-0".to_owned()),
        ("COPILOT_PROVIDER_WIRE_API", "completions".to_owned()),
        ("COPILOT_MODEL", RECIPE.model.to_owned()),
    ]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => {
            ("bash", json!({"command": command.line, "description": "Run the command", "initial_wait": 60, "mode": "sync"}))
        }
        Tool::Read(path) => ("view", json!({"path": place.file(path)})),
        Tool::Write { path, content } => ("create", json!({"path": place.file(path), "file_text": content})),
        Tool::Edit { path, old, new } => ("edit", json!({"path": place.file(path), "old_str": old, "new_str": new})),
    };
    (name, Input::Json(arguments))
}
