//! GitHub Copilot CLI.

use serde_json::json;

use super::{Recipe, lane_by_tools, title};
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
    shown,
    exceptions: &[],
    lane: lane_by_tools,
    auxiliary: title,
};

fn environment(place: &Place) -> Vec<(&'static str, String)> {
    vec![
        ("COPILOT_OFFLINE", "true".to_owned()),
        ("COPILOT_AUTO_UPDATE", "false".to_owned()),
        ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", place.url())),
        ("COPILOT_PROVIDER_API_KEY", "lab".to_owned()),
        ("COPILOT_PROVIDER_WIRE_API", "completions".to_owned()),
        ("COPILOT_MODEL", RECIPE.model.to_owned()),
    ]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => {
            ("bash", json!({"command": command, "description": "Run the command", "initial_wait": 60, "mode": "sync"}))
        }
        Tool::Read(path) => ("view", json!({"path": place.file(path)})),
        Tool::Write { path, content } => ("create", json!({"path": place.file(path), "file_text": content})),
        Tool::Edit { path, old, new } => ("edit", json!({"path": place.file(path), "old_str": old, "new_str": new})),
    };
    (name, Input::Json(arguments))
}

fn shown(tool: &Tool) -> &'static str {
    match tool {
        Tool::Shell(_) => "bash",
        Tool::Read(_) => "view",
        Tool::Write { .. } => "create",
        Tool::Edit { .. } => "edit",
    }
}
