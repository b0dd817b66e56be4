//! How Cline is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, PromptTransport, Request};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["cline"]), command)
        .capabilities(Capabilities { model: true, permissions: vec![Permission::Full], ..Capabilities::default() })
        .environment(["CLINE_*"])
        .keys(["CLINE_API_KEY"])
        .logins([".cline/data/settings/providers.json"])
        .install("npm install -g cline")
        .recorded_versions(["3.0.65"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["--json"]).option("--model", request.model);
    let line = if request.permission == Some(Permission::Full) { line.arguments(["--auto-approve", "true"]) } else { line };
    // A prompt on standard input alone is refused.
    line.extra(request).argument("--").argument(request.prompt).prompt_by(PromptTransport::Arguments)
}
