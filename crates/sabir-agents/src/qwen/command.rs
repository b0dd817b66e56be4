//! How Qwen Code is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session, StdoutCapture};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["qwen"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            // Its tools for files write wherever the model says, so that it keeps to no folder.
            permissions: vec![Permission::ReadOnly, Permission::Full],
            max_turns: true,
            ..Capabilities::default()
        })
        // It exits before its last lines are in the pipe.
        .stdout(StdoutCapture::File)
        .environment(["QWEN_*", "OPENAI_*", "DASHSCOPE_*", "ANTHROPIC_*", "GEMINI_*", "GOOGLE_*"])
        .keys(["OPENAI_API_KEY", "DASHSCOPE_API_KEY", "QWEN_API_KEY"])
        .logins([".qwen/oauth_creds.json"])
        .install("npm install -g @qwen-code/qwen-code")
        .recorded_versions(["0.24.4"])
}

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
