//! How Bob is started: 1.x and 2.x want different command lines.

use crate::launch::{Capabilities, CommandLine, Launch, Output, Program, PromptBy, Request, Session, StopSignal};

pub(super) const LAUNCH: Launch = Launch {
    program: Program::Named(&["bob"]),
    can: Capabilities {
        resume: true,
        // Approval modes are of 1.x only, and what they let pass was never seen.
        permissions: &[],
        ..Capabilities::NONE
    },
    command,
    version_matters: true,
    stop: StopSignal::Interrupt,
    output: Output::Pipe,
    environment: &["BOB_*", "BOBSHELL_*"],
    keys: &["BOB_API_KEY", "BOBSHELL_API_KEY"],
    logins: &[".bob/oauth_creds.json"],
    install: "see the documentation of IBM Bob",
    recorded: &[],
};

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
    line.argument(request.prompt).prompt_by(PromptBy::Arguments)
}
