//! How Goose is started.

use crate::launch::{Capabilities, CommandLine, Launch, Output, Permission, Program, Request, Session, StopSignal};

pub(super) const LAUNCH: Launch = Launch {
    program: Program::Named(&["goose"]),
    can: Capabilities {
        model: true,
        resume: true,
        r#continue: true,
        permissions: &[Permission::Full],
        max_turns: true,
        ..Capabilities::NONE
    },
    command,
    version_matters: false,
    stop: StopSignal::Interrupt,
    output: Output::Pipe,
    environment: &["GOOSE_*", "OPENAI_*", "ANTHROPIC_*", "GOOGLE_*", "GEMINI_*", "OPENROUTER_*", "DATABRICKS_*"],
    keys: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"],
    logins: &[".config/goose/config.yaml"],
    install: "npm install -g @aaif/goose",
    recorded: &["1.34.0"],
};

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
