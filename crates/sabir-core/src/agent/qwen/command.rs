//! How Qwen Code is started.

use crate::launch::{Capabilities, CommandLine, Launch, Output, Permission, Program, Request, Session, StopSignal};

pub(super) const LAUNCH: Launch = Launch {
    program: Program::Named(&["qwen"]),
    can: Capabilities {
        model: true,
        resume: true,
        r#continue: true,
        // Its tools for files write wherever the model says, so that it keeps to no folder.
        permissions: &[Permission::ReadOnly, Permission::Full],
        max_turns: true,
        ..Capabilities::NONE
    },
    command,
    version_matters: false,
    stop: StopSignal::Interrupt,
    // It exits before its last lines are in the pipe.
    output: Output::File,
    environment: &["QWEN_*", "OPENAI_*", "DASHSCOPE_*", "ANTHROPIC_*", "GEMINI_*", "GOOGLE_*"],
    keys: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY", "QWEN_API_KEY"],
    logins: &[".qwen/oauth_creds.json"],
    install: "npm install -g @qwen-code/qwen-code",
    recorded: &["0.24.4"],
};

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["--output-format", "stream-json", "--include-partial-messages"])
        .option("--model", request.model)
        .option("--max-session-turns", request.max_turns);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--resume", id]),
        Session::Latest => line.argument("--continue"),
    };
    let line = match request.permission {
        None | Some(Permission::Edit) => line,
        Some(Permission::ReadOnly) => line.arguments(["--approval-mode", "plan"]),
        Some(Permission::Full) => line.arguments(["--approval-mode", "yolo"]),
    };
    line.extra(request)
}
