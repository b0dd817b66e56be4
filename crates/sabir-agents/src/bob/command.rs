//! How Bob is started: 1.x and 2.x want different command lines.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Program, PromptTransport, Request, Session};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["bob"]), command)
        .capabilities(Capabilities { resume: true, ..Capabilities::default() })
        .needs_version()
        .environment(["BOB_*", "BOBSHELL_*"])
        .keys(["BOB_API_KEY", "BOBSHELL_API_KEY"])
        .logins([".bob/oauth_creds.json"])
        .install("see the documentation of IBM Bob")
}

fn command(request: &Request<'_>) -> CommandLine {
    let first = request.version.is_some_and(|version| version.starts_with("1."));
    let resume = match request.session {
        Session::Resume(id) => Some(id),
        Session::New | Session::Latest => None,
    };
    let line = if first {
        CommandLine::new(["--output-format", "stream-json", "--accept-license"])
            .option("--resume", resume)
            .extra(request)
            .argument("-p")
    } else {
        CommandLine::new(["run", "--format", "stream-json"]).option("--resume", resume).extra(request).argument("--")
    };
    // 1.x takes no prompt from standard input when it resumes.
    line.argument(request.prompt).prompt_by(PromptTransport::Arguments)
}
