//! How Copilot CLI is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["copilot"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            permissions: Permission::ALL.to_vec(),
            ..Capabilities::default()
        })
        .environment(["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"])
        .keys(["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"])
        .logins([".copilot/config.json"])
        .install("npm install -g @github/copilot")
        .recorded_versions(["1.0.102"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["--output-format", "json"]).option("--model", request.model);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--resume", id]),
        Session::Latest => line.argument("--continue"),
    };
    // What is denied stays denied, whatever else is allowed; other servers' tools are unknown, so they go too.
    let line = match request.permission {
        None => line,
        Some(Permission::ReadOnly) => line.arguments(["--allow-all-tools", "--available-tools", "view,grep,glob"]),
        // The folder for temporary files would be open to it too.
        Some(Permission::Edit) => line
            .arguments(["--allow-all-tools", "--disallow-temp-dir"])
            .arguments(["--available-tools", "view,grep,glob,create,edit,str_replace,apply_patch"]),
        Some(Permission::Full) => line.argument("--allow-all"),
    };
    line.extra(request)
}
