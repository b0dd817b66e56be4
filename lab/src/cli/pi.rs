//! Pi.

use serde_json::json;

use super::{COMMANDS, Exception, Recipe, json_file, lane_by_tools, title};
use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input};

pub(super) const RECIPE: Recipe = Recipe {
    id: "pi",
    version: "0.87.1",
    package: "@earendil-works/pi-coding-agent",
    program: "pi",
    folder: "node_modules/.bin",
    node: Some((22, 19)),
    api: Api::Anthropic,
    model: "lab/lab-model",
    files,
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
        why: "Pi tells the exit code of a command that fails, and of no other.",
    },
    Exception {
        scenarios: &["big-output"],
        aspect: Aspect::Output,
        what: &["bytes of bash without all of its 1199999"],
        always: true,
        why: "Pi tells the end of a large output.",
    },
    Exception {
        scenarios: &["cut"],
        aspect: Aspect::Tokens,
        what: &[
            "uncached input 2127 instead of 1114",
            "cache read 30017 instead of 25014",
            "cache write 625 instead of 318",
            "output 87 instead of 86",
        ],
        always: true,
        why: "Pi also counts what a broken response said at its start; the server counts whole responses.",
    },
];

fn files(place: &Place) -> Vec<HomeFile> {
    let model = json!({
        "id": "lab-model", "name": "Lab", "reasoning": true, "input": ["text"], "contextWindow": 200_000, "maxTokens": 32_000,
        "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
    });
    let provider = json!({"baseUrl": place.url(), "api": "anthropic-messages", "apiKey": "lab", "models": [model]});
    let retry = json!({"enabled": true, "maxRetries": 3, "baseDelayMs": 500});
    let settings = json!({
        "defaultProvider": "lab", "defaultModel": "lab-model", "enableInstallTelemetry": false, "quietStartup": true, "retry": retry,
    });
    vec![
        json_file(".pi/agent/models.json", &json!({"providers": {"lab": provider}})),
        json_file(".pi/agent/settings.json", &settings),
    ]
}

fn environment(_: &Place) -> Vec<(&'static str, String)> {
    vec![("PI_OFFLINE", "1".to_owned()), ("PI_SKIP_VERSION_CHECK", "1".to_owned()), ("PI_TELEMETRY", "0".to_owned())]
}

fn tool(tool: &Tool, _: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => ("bash", json!({"command": command.line})),
        Tool::Read(path) => ("read", json!({"path": path})),
        Tool::Write { path, content } => ("write", json!({"path": path, "content": content})),
        Tool::Edit { path, old, new } => ("edit", json!({"path": path, "edits": [{"oldText": old, "newText": new}]})),
    };
    (name, Input::Json(arguments))
}
