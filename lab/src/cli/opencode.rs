//! OpenCode.

use serde_json::json;

use super::{Exception, Recipe, json_file, lane_by_tools, title};
use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input};

pub(super) const RECIPE: Recipe = Recipe {
    id: "opencode",
    version: "1.18.33",
    package: "opencode-ai",
    program: "opencode",
    folder: "node_modules/opencode-{platform}/bin",
    node: None,
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
        scenarios: &["big-output"],
        aspect: Aspect::Output,
        what: &["bytes of bash without all of its 1199999"],
        always: true,
        why: "OpenCode puts a large output into a file, and tells its end and the name of the file.",
    },
    Exception {
        scenarios: &["interrupt-mid-stream"],
        aspect: Aspect::Session,
        what: &["no session id"],
        always: false,
        why: "OpenCode names its session with the first thing that is finished; nothing is, when it is interrupted before.",
    },
    Exception {
        scenarios: &["interrupt-mid-tool"],
        aspect: Aspect::Tools,
        what: &["[] instead of [bash stopped]"],
        always: false,
        why: "OpenCode tells of a call when it has ended.",
    },
];

fn files(place: &Place) -> Vec<HomeFile> {
    let model = json!({
        "name": "Lab", "reasoning": true, "tool_call": true, "attachment": false, "temperature": true,
        "limit": {"context": 200_000, "output": 32_000},
        "cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
    });
    let options = json!({"baseURL": format!("{}/v1", place.url()), "apiKey": "lab"});
    let settings = json!({
        "autoupdate": false,
        "share": "disabled",
        "permission": {"edit": "allow", "bash": "allow", "webfetch": "allow"},
        "provider": {"lab": {"npm": "@ai-sdk/anthropic", "name": "Lab", "options": options, "models": {"lab-model": model}}},
    });
    vec![json_file(".config/opencode/opencode.json", &settings)]
}

fn environment(place: &Place) -> Vec<(&'static str, String)> {
    let on = || "1".to_owned();
    let folder = |path: &str| place.home.join(path).to_string_lossy().into_owned();
    vec![
        ("OPENCODE_DISABLE_AUTOUPDATE", on()),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", on()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", on()),
        ("OPENCODE_DISABLE_MODELS_FETCH", on()),
        ("OPENCODE_DISABLE_SHARE", on()),
        ("XDG_CACHE_HOME", folder(".cache")),
        ("XDG_CONFIG_HOME", folder(".config")),
        ("XDG_DATA_HOME", folder(".local/share")),
        ("XDG_STATE_HOME", folder(".local/state")),
    ]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => ("bash", json!({"command": command.line, "description": "Run the command"})),
        Tool::Read(path) => ("read", json!({"filePath": place.file(path)})),
        Tool::Write { path, content } => ("write", json!({"filePath": place.file(path), "content": content})),
        Tool::Edit { path, old, new } => ("edit", json!({"filePath": place.file(path), "oldString": old, "newString": new})),
    };
    (name, Input::Json(arguments))
}
