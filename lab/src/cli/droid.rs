//! Droid.

use serde_json::json;

use super::{Exception, Recipe, json_file, lane_by_tools, title};
use crate::check::Aspect;
use crate::place::{HomeFile, Place};
use crate::scenario::Tool;
use crate::script::{Api, Input};

pub(super) const RECIPE: Recipe = Recipe {
    id: "droid",
    version: "0.225.2",
    // The package above it asks for versions of this one that are not there.
    package: "@factory/cli-{platform}",
    program: "droid",
    folder: "node_modules/@factory/cli-{platform}/bin",
    node: None,
    api: Api::Anthropic,
    model: "custom:Lab-0",
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
        what: &["bytes of Execute without all of its 1199999"],
        always: true,
        why: "Droid tells the start and the end of a large output.",
    },
    Exception {
        scenarios: &["thinking"],
        aspect: Aspect::Tokens,
        what: &["reasoning 12 instead of 0"],
        always: true,
        why: "Droid counts the reasoning itself; the API does not tell it.",
    },
    Exception {
        scenarios: &["multi-turn"],
        aspect: Aspect::Tokens,
        what: &["reasoning 8 instead of 0"],
        always: true,
        why: "Droid counts the reasoning itself; the API does not tell it.",
    },
    Exception {
        scenarios: &["fatal-error-later"],
        aspect: Aspect::Tokens,
        what: &["uncached input unknown", "cache read unknown", "cache write unknown", "output unknown"],
        always: true,
        why: "Droid tells its tokens at the end of a run that succeeds, and only there.",
    },
    Exception {
        scenarios: &["interrupt-mid-tool"],
        aspect: Aspect::Outcome,
        what: &["completed and exit code 0"],
        always: false,
        why: "Interrupted while a command runs, Droid ends the command, and goes on to its answer.",
    },
    Exception {
        scenarios: &["resume"],
        aspect: Aspect::Run,
        what: &[],
        always: true,
        why: "Droid fetches the session from a service of its vendor, which needs an account.",
    },
];

fn files(place: &Place) -> Vec<HomeFile> {
    let model = json!({
        "model": "lab-model", "displayName": "Lab", "baseUrl": place.url(), "apiKey": "lab", "provider": "anthropic",
        "maxOutputTokens": 8_192,
    });
    vec![json_file(".factory/settings.json", &json!({"customModels": [model], "enableTelemetry": false}))]
}

fn environment(_: &Place) -> Vec<(&'static str, String)> {
    vec![
        // Runs without an account, with the models of the settings alone.
        ("FACTORY_AIRGAP_ENABLED", "1".to_owned()),
        ("FACTORY_DROID_AUTO_UPDATE_ENABLED", "false".to_owned()),
        ("DO_NOT_TRACK", "1".to_owned()),
    ]
}

fn tool(tool: &Tool, place: &Place) -> (&'static str, Input) {
    let (name, arguments) = match *tool {
        Tool::Shell(command) => (
            "Execute",
            json!({"command": command.line, "summary": "Run the command", "riskLevel": "low", "riskLevelReason": "It is harmless."}),
        ),
        Tool::Read(path) => ("Read", json!({"file_path": place.file(path)})),
        Tool::Write { path, content } => ("Create", json!({"file_path": place.file(path), "content": content})),
        Tool::Edit { path, old, new } => ("Edit", json!({"file_path": place.file(path), "old_str": old, "new_str": new})),
    };
    (name, Input::Json(arguments))
}
