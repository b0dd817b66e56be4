//! How OpenCode is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["opencode"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            permissions: Permission::ALL.to_vec(),
            ..Capabilities::default()
        })
        .environment(["OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "GROQ_*", "AWS_*"])
        .keys(["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"])
        .logins([".local/share/opencode/auth.json"])
        .install("npm install -g opencode-ai")
        .recorded_versions(["1.18.33"])
}

/// Settings for the run that win over the user's own: nothing but looking. The last rule that fits counts, and a name that the user's
/// settings have too keeps its place among them; so the names are patterns that nobody else writes.
const READ_ONLY: &str =
    r#"{"permission":{"**":"deny","rea?":"allow","gre?":"allow","glo?":"allow","lis?":"allow","webfetc?":"allow"}}"#;
/// The same, and files may change.
const EDIT: &str = r#"{"permission":{"**":"deny","rea?":"allow","gre?":"allow","glo?":"allow","lis?":"allow","webfetc?":"allow","edi?":"allow"}}"#;

fn command(request: &Request<'_>) -> CommandLine {
    // A prompt among its arguments reaches the model in quotation marks; from standard input it comes as it is.
    let line = CommandLine::new(["run", "--format", "json", "--thinking"]).option("--model", request.model);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--session", id]),
        Session::Latest => line.argument("--continue"),
    };
    let line = match request.permission {
        None => line,
        Some(Permission::ReadOnly) => line.variable("OPENCODE_CONFIG_CONTENT", READ_ONLY),
        Some(Permission::Edit) => line.variable("OPENCODE_CONFIG_CONTENT", EDIT),
        Some(Permission::Full) => line.argument("--auto"),
    };
    line.extra(request)
}
