//! How Pi is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session, StopSignal};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["pi"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            // Its tools for files write wherever the model says, so that it keeps to no folder.
            permissions: vec![Permission::ReadOnly, Permission::Full],
            ..Capabilities::default()
        })
        // Interrupted, it dies at once and leaves its commands running; terminated, it takes them along.
        .stop(StopSignal::Terminate)
        .environment(["PI_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "GROQ_*", "XAI_*"])
        .keys(["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"])
        .logins([".pi/agent/auth.json"])
        .install("npm install -g @earendil-works/pi-coding-agent")
        .recorded_versions(["0.73.1", "0.87.1"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["-p", "--mode", "json"]).option("--model", request.model);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--session", id]),
        Session::Latest => line.argument("--continue"),
    };
    // It never asks; a tool that it does not have is the only one that it can't use.
    let line = match request.permission {
        Some(Permission::ReadOnly) => line.arguments(["--tools", "read,grep,find,ls"]),
        None | Some(Permission::Edit | Permission::Full) => line,
    };
    line.extra(request)
}
