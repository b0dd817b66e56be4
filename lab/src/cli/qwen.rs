//! Qwen Code.

use serde_json::json;

use super::{COMMANDS, Exception, Recipe, json_file, lane_by_tools};
use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input, Lane, Request};

pub(super) const RECIPE: Recipe = Recipe {
    id: "qwen",
    version: "0.24.4",
    package: "@qwen-code/qwen-code",
    program: "qwen",
    folder: "node_modules/.bin",
    node: Some((22, 0)),
    api: Api::Chat,
    model: "qwen3-coder-plus",
    files,
    environment,
    tool,
    shown: None,
    counts_auxiliary: true,
    exceptions: EXCEPTIONS,
    lane,
    auxiliary: |_| "{}".to_owned(),
};

const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenarios: &["thinking", "multi-turn"],
        aspect: Aspect::Tokens,
        what: &["reasoning unknown"],
        always: true,
        why: "Qwen Code does not tell how much of the output was reasoning.",
    },
    Exception {
        scenarios: &["cut"],
        aspect: Aspect::Answer,
        what: &["This answer never comes to its end"],
        always: true,
        why: "When a stream breaks, Qwen Code keeps the text that had come and appends the text of the next try; its own result says both.",
    },
    Exception {
        scenarios: COMMANDS,
        aspect: Aspect::ExitCode,
        what: &["unknown instead of 0"],
        always: true,
        why: "Qwen Code tells the exit code of a command that fails, and of no other.",
    },
    Exception {
        scenarios: &["big-output"],
        aspect: Aspect::Output,
        what: &["bytes of run_shell_command without all of its 1199999"],
        always: true,
        why: "Qwen Code tells the end of a large output.",
    },
    Exception {
        scenarios: &["shell-ok"],
        aspect: Aspect::Output,
        what: &["48 bytes of run_shell_command without all of its 46"],
        always: true,
        why: "Qwen Code runs commands in a terminal: a list comes in columns, and what a carriage return overwrites is gone.",
    },
    Exception {
        scenarios: &["unicode"],
        aspect: Aspect::Output,
        what: &["35 bytes of run_shell_command without all of its 31"],
        always: true,
        why: "Qwen Code runs commands in a terminal: a list comes in columns, and what a carriage return overwrites is gone.",
    },
];

fn files(_: &Place) -> Vec<HomeFile> {
    let settings = json!({
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": false}},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "general": {"enableAutoUpdate": false, "disableAutoUpdate": true, "disableUpdateNag": true},
    });
    vec![json_file(".qwen/settings.json", &settings)]
}

fn environment(place: &Place) -> Vec<(&'static str, String)> {
    vec![
        ("OPENAI_API_KEY", "lab".to_owned()),
        ("OPENAI_BASE_URL", format!("{}/v1", place.url())),
        ("OPENAI_MODEL", RECIPE.model.to_owned()),
        ("QWEN_TELEMETRY_ENABLED", "false".to_owned()),
        ("NO_UPDATE_NOTIFIER", "1".to_owned()),
    ]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => {
            ("run_shell_command", json!({"command": command.line, "description": "Run the command", "is_background": false}))
        }
        Tool::Read(path) => ("read_file", json!({"file_path": place.file(path)})),
        Tool::Write { path, content } => ("write_file", json!({"file_path": place.file(path), "content": content})),
        Tool::Edit { path, old, new } => ("edit", json!({"file_path": place.file(path), "old_string": old, "new_string": new})),
    };
    (name, Input::Json(arguments))
}

/// Its keeper of memories has tools too, but introduces itself.
fn lane(request: &Request) -> Lane {
    let messages = request.body["messages"].as_array().into_iter().flatten();
    let mut instructions = messages.filter(|message| message["role"] == "system").map(|message| message["content"].to_string());
    if instructions.any(|text| text.contains("memory extraction subagent")) { Lane::Auxiliary } else { lane_by_tools(request) }
}
