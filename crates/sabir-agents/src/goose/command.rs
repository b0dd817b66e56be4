//! How Goose is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["goose"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            permissions: vec![Permission::Full],
            max_turns: true,
            ..Capabilities::default()
        })
        .environment(["GOOSE_*", "OPENAI_*", "ANTHROPIC_*", "GOOGLE_*", "GEMINI_*", "OPENROUTER_*", "DATABRICKS_*"])
        .keys(["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"])
        .logins([".config/goose/config.yaml"])
        .install("npm install -g @aaif/goose")
        .recorded_versions(["1.34.0"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["run", "--output-format", "stream-json", "--instructions", "-"])
        .option("--model", request.model)
        .option("--max-turns", request.max_turns);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--resume", "--session-id", id]),
        Session::Latest => line.argument("--resume"),
    };
    let line = if request.permission == Some(Permission::Full) { line.variable("GOOSE_MODE", "auto") } else { line };
    line.extra(request)
}
