//! Gemini CLI.

use serde_json::{Value, json};

use super::{COMMANDS, Exception, Recipe, json_file, lane_by_tools};
use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input, Lane, Request};

pub(super) const RECIPE: Recipe = Recipe {
    id: "gemini",
    version: "0.61.0",
    package: "@google/gemini-cli",
    program: "gemini",
    folder: "node_modules/.bin",
    node: Some((20, 0)),
    api: Api::Gemini,
    model: "gemini-2.5-flash",
    files,
    environment,
    tool,
    shown: None,
    counts_auxiliary: false,
    exceptions: EXCEPTIONS,
    lane,
    auxiliary,
};

const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenarios: &["multi-turn", "create-and-edit", "read-only", "edit"],
        aspect: Aspect::Output,
        what: &["0 bytes of read_file without all of its 17"],
        always: true,
        why: "Gemini CLI does not tell what it read from a file.",
    },
    Exception {
        scenarios: COMMANDS,
        aspect: Aspect::ExitCode,
        what: &["unknown instead of 0"],
        always: true,
        why: "Gemini CLI does not tell exit codes.",
    },
    Exception {
        scenarios: &["shell-fails"],
        aspect: Aspect::ExitCode,
        what: &["unknown instead of 3"],
        always: true,
        why: "Gemini CLI does not tell exit codes.",
    },
    Exception {
        scenarios: &["thinking", "multi-turn"],
        aspect: Aspect::Thinking,
        what: &["is not in the thinking events"],
        always: true,
        why: "Gemini CLI leaves reasoning out of its stream.",
    },
    Exception {
        scenarios: &["shell-fails"],
        aspect: Aspect::Tools,
        what: &["[run_shell_command ok]"],
        always: true,
        why: "Gemini CLI calls a command a success whatever its exit code.",
    },
];

fn files(_: &Place) -> Vec<HomeFile> {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
    });
    vec![json_file(".gemini/settings.json", &settings)]
}

fn environment(place: &Place) -> Vec<(&'static str, String)> {
    vec![
        ("GEMINI_API_KEY", "lab".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", place.url()),
        ("GEMINI_TELEMETRY_ENABLED", "false".to_owned()),
        ("NO_UPDATE_NOTIFIER", "1".to_owned()),
    ]
}

fn tool(tool: &Tool, _: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => ("run_shell_command", json!({"command": command.line, "description": "Run the command"})),
        Tool::Read(path) => ("read_file", json!({"file_path": path})),
        Tool::Write { path, content } => ("write_file", json!({"file_path": path, "content": content})),
        Tool::Edit { path, old, new } => {
            let instruction = "Replace the text.";
            ("replace", json!({"file_path": path, "old_string": old, "new_string": new, "instruction": instruction}))
        }
    };
    (name, Input::Json(arguments))
}

/// What it asks about its own work it wants in a schema.
fn schema(request: &Request) -> Option<&Value> {
    let wanted = &request.body["generationConfig"];
    [&wanted["responseJsonSchema"], &wanted["responseSchema"]].into_iter().find(|schema| !schema.is_null())
}

fn lane(request: &Request) -> Lane {
    if schema(request).is_some() { Lane::Auxiliary } else { lane_by_tools(request) }
}

fn auxiliary(request: &Request) -> String {
    let schema = schema(request).map(Value::to_string).unwrap_or_default();
    let answer = if schema.contains("next_speaker") {
        json!({"reasoning": "It is done.", "next_speaker": "user"})
    } else if schema.contains("model_choice") {
        json!({"reasoning": "It is simple.", "model_choice": "flash"})
    } else if schema.contains("complexity_score") {
        json!({"complexity_reasoning": "It is simple.", "complexity_score": 10})
    } else {
        json!({})
    };
    answer.to_string()
}
