//! How Droid is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["droid"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            // Its tools for files write wherever the model says, so that it keeps to no folder.
            permissions: vec![Permission::ReadOnly, Permission::Full],
            ..Capabilities::default()
        })
        .environment(["FACTORY_*"])
        .keys(["FACTORY_API_KEY"])
        // Its settings may hold a model with a key of its own, which needs no login.
        .logins([".factory/auth.json", ".factory/settings.json"])
        .install("npm install -g @factory/cli")
        .recorded_versions(["0.225.2"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["exec", "--output-format", "stream-json"]).option("--model", request.model);
    let line = match request.session {
        Session::Resume(id) => line.arguments(["--session-id", id]),
        Session::New | Session::Latest => line,
    };
    // What it lets pass by default depends on how risky the model says a command is; a tool that it does not have can't pass.
    let line = match request.permission {
        None | Some(Permission::Edit) => line,
        Some(Permission::ReadOnly) => line.arguments(["--only-tools", "Read,LS,Grep,Glob"]),
        Some(Permission::Full) => line.argument("--skip-permissions-unsafe"),
    };
    line.extra(request)
}
