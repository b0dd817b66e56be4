//! How the agent loop is started: as a command of this program.

use crate::launch::{Capabilities, CommandLine, Launch, Output, Permission, Program, Request, StopSignal};

pub(super) const LAUNCH: Launch = Launch {
    program: Program::Own,
    can: Capabilities { model: true, permissions: &Permission::ALL, max_turns: true, ..Capabilities::NONE },
    command,
    version_matters: false,
    stop: StopSignal::Terminate,
    output: Output::Pipe,
    environment: &["OPENAI_*", "SABIR_OPENAI_*", "SSL_CERT_FILE"],
    keys: &["OPENAI_API_KEY"],
    logins: &[],
    install: "",
    recorded: &[],
};

/// The key and the endpoint are in the environment, where other users can't see them.
fn command(request: &Request<'_>) -> CommandLine {
    CommandLine::new(["agent-loop"])
        .option("--model", request.model)
        .option("--max-turns", request.max_turns)
        .option("--permission", request.permission)
        .extra(request)
}
