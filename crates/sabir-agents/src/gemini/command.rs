//! How Gemini CLI is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session, StdoutCapture};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["gemini"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            permissions: Permission::ALL.to_vec(),
            ..Capabilities::default()
        })
        // It exits before its last lines are in the pipe.
        .stdout(StdoutCapture::File)
        .environment(["GEMINI_*", "GOOGLE_*"])
        .keys(["GEMINI_API_KEY", "GOOGLE_API_KEY"])
        .logins([".gemini/oauth_creds.json"])
        .install("npm install -g @google/gemini-cli")
        .recorded_versions(["0.61.0"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["--output-format", "stream-json"])
        .option("--model", request.model)
        // It starts itself again for more memory, and that parent ignores signals.
        .variable("GEMINI_CLI_NO_RELAUNCH", "true")
        // Whoever starts it here trusts the folder; it would ask, and end when nobody answers.
        .variable("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--resume", id]),
        Session::Latest => line.arguments(["--resume", "latest"]),
    };
    let line = match request.permission {
        None => line,
        // With nobody to ask, tools that write or run are not even registered.
        Some(Permission::ReadOnly) => line.arguments(["--approval-mode", "default"]),
        Some(Permission::Edit) => line.arguments(["--approval-mode", "auto_edit"]),
        Some(Permission::Full) => line.arguments(["--approval-mode", "yolo"]),
    };
    line.extra(request)
}
