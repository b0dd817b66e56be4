//! How Cline is started.

use crate::launch::{Capabilities, CommandLine, Launch, Output, Permission, Program, PromptBy, Request, StopSignal};

pub(super) const LAUNCH: Launch = Launch {
    program: Program::Named(&["cline"]),
    can: Capabilities {
        model: true,
        // It has a flag for it that does not work without a terminal, and it never says its session id.
        resume: false,
        permissions: &[Permission::Full],
        ..Capabilities::NONE
    },
    command,
    version_matters: false,
    stop: StopSignal::Interrupt,
    output: Output::Pipe,
    environment: &["CLINE_*"],
    keys: &["CLINE_API_KEY"],
    logins: &[".cline/data/settings/providers.json"],
    install: "npm install -g cline",
    recorded: &["3.0.65"],
};

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["--json"]).option("--model", request.model);
    let line = if request.permission == Some(Permission::Full) { line.arguments(["--auto-approve", "true"]) } else { line };
    // A prompt on standard input alone is refused.
    line.extra(request).argument("--").argument(request.prompt).prompt_by(PromptBy::Arguments)
}
