//! How Codex is started.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["codex"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            permissions: Permission::ALL.to_vec(),
            ..Capabilities::default()
        })
        .environment(["OPENAI_*", "CODEX_*", "AZURE_OPENAI_*", "RUST_LOG"])
        .keys(["CODEX_API_KEY", "OPENAI_API_KEY"])
        .logins([".codex/auth.json"])
        .install("npm install -g @openai/codex")
        .recorded_versions(["0.20.0", "0.36.0", "0.42.0", "0.44.0", "0.80.0", "0.125.0", "0.166.0"])
}

fn command(request: &Request<'_>) -> CommandLine {
    // Every version takes these before `resume`; not every one takes them after it.
    let line = CommandLine::new(["exec", "--json", "--skip-git-repo-check"]).option("--model", request.model);
    let line = match request.permission {
        None => line,
        Some(Permission::ReadOnly) => line.arguments(["--sandbox", "read-only"]),
        // Folders for temporary files are not in the working folder.
        Some(Permission::Edit) => line
            .arguments(["--sandbox", "workspace-write"])
            .arguments(["-c", "sandbox_workspace_write.exclude_slash_tmp=true"])
            .arguments(["-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true"]),
        Some(Permission::Full) => line.argument("--dangerously-bypass-approvals-and-sandbox"),
    };
    let line = line.extra(request);
    match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["resume", id]),
        Session::Latest => line.arguments(["resume", "--last"]),
    }
    // Without it, the prompt on standard input would be taken for an addition to one that is missing.
    .argument("-")
}
