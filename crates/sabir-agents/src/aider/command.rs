//! How Aider is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, PromptTransport, Request};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["aider"]), command)
        .capabilities(Capabilities {
            model: true,
            // It edits files and never runs a command that nobody said yes to; it can't be kept from its own notes.
            permissions: vec![Permission::Edit],
            ..Capabilities::default()
        })
        .environment([
            "AIDER_*",
            "OPENAI_*",
            "ANTHROPIC_*",
            "GEMINI_*",
            "OPENROUTER_*",
            "DEEPSEEK_*",
            "GROQ_*",
            "XAI_*",
            "AZURE_*",
        ])
        .keys(["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY"])
        .logins([".aider.conf.yml"])
        .install("pip install aider-chat")
        .recorded_versions(["0.86.2"])
}

fn command(request: &Request<'_>) -> CommandLine {
    let line =
        CommandLine::new(["--no-pretty", "--no-stream", "--no-check-update", "--no-show-release-notes", "--no-detect-urls"])
            .option("--model", request.model);
    // Without it, it would wait for somebody to say yes.
    line.argument("--yes-always").extra(request).prompt_by(PromptTransport::File("--message-file"))
}
