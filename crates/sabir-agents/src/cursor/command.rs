//! How Cursor's agent is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    // `agent` is its newer name, but others have that name too.
    LaunchSpec::new(Program::named(["cursor-agent"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            // What it does without being forced depends on rules that we can't see.
            permissions: vec![Permission::Full],
            ..Capabilities::default()
        })
        .environment(["CURSOR_*"])
        .keys(["CURSOR_API_KEY"])
        .logins([".config/cursor/auth.json", ".cursor/cli-config.json"])
        .install("see cursor.com/cli")
}

fn command(request: &Request<'_>) -> CommandLine {
    let line =
        CommandLine::new(["-p", "--output-format", "stream-json", "--stream-partial-output"]).option("--model", request.model);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--resume", id]),
        Session::Latest => line.argument("--continue"),
    };
    let line = if request.permission == Some(Permission::Full) { line.argument("--force") } else { line };
    line.extra(request)
}
