//! How Cursor's agent is started.

use crate::launch::{Capabilities, CommandLine, Launch, Output, Permission, Program, Request, Session, StopSignal};

pub(super) const LAUNCH: Launch = Launch {
    // `agent` is its newer name, but others have that name too.
    program: Program::Named(&["cursor-agent"]),
    can: Capabilities {
        model: true,
        resume: true,
        r#continue: true,
        // What it does without being forced depends on rules that we can't see.
        permissions: &[Permission::Full],
        ..Capabilities::NONE
    },
    command,
    version_matters: false,
    stop: StopSignal::Interrupt,
    output: Output::Pipe,
    environment: &["CURSOR_*"],
    keys: &["CURSOR_API_KEY"],
    logins: &[".config/cursor/auth.json", ".cursor/cli-config.json"],
    install: "see cursor.com/cli",
    recorded: &[],
};

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
