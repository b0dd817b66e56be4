//! How Claude Code is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session, StopSignal};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["claude"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            permissions: Permission::ALL.to_vec(),
            max_turns: true,
            max_cost: true,
        })
        // Interrupted, it says how far it came and ends its children.
        .stop(StopSignal::Interrupt)
        .environment(["ANTHROPIC_*", "CLAUDE_*", "AWS_*", "GOOGLE_*", "CLOUD_ML_REGION", "DISABLE_*", "API_TIMEOUT_MS", "MCP_*"])
        .keys(["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
        .logins([".claude/.credentials.json"])
        .install("npm install -g @anthropic-ai/claude-code")
        .recorded_versions(["2.1.325"])
}

/// The tools that look and change nothing.
const READING_TOOLS: &str = "Read,Grep,Glob,WebFetch,WebSearch";

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"])
        .option("--model", request.model)
        .option("--max-turns", request.max_turns)
        .option("--max-budget-usd", request.max_cost);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--resume", id]),
        Session::Latest => line.argument("--continue"),
    };
    let line = match request.permission {
        None => line,
        // What is not among its tools can't be called, whatever the user's own settings allow; servers of others are left out.
        Some(Permission::ReadOnly) => line
            .arguments(["--permission-mode", "dontAsk", "--tools", READING_TOOLS, "--allowedTools", READING_TOOLS])
            .argument("--strict-mcp-config"),
        Some(Permission::Edit) => line.arguments(["--permission-mode", "acceptEdits"]),
        Some(Permission::Full) => {
            let line = line.arguments(["--permission-mode", "bypassPermissions"]);
            // It lets the superuser skip permissions only where it is told that the machine is there for that.
            if request.superuser { line.variable("IS_SANDBOX", "1") } else { line }
        }
    };
    line.extra(request)
}
