//! How the agent loop is started: as a command of this program.

use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, StopSignal};

pub(super) fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::Own, command)
        .capabilities(Capabilities {
            model: true,
            permissions: Permission::ALL.to_vec(),
            max_turns: true,
            ..Capabilities::default()
        })
        .stop(StopSignal::Terminate)
        .environment(["OPENAI_*", "SABIR_OPENAI_*", "SSL_CERT_FILE"])
        .keys(["OPENAI_API_KEY"])
}

/// The key and the endpoint are in the environment, where other users can't see them.
fn command(request: &Request<'_>) -> CommandLine {
    CommandLine::new(["agent-loop"])
        .option("--model", request.model)
        .option("--max-turns", request.max_turns)
        .option("--permission", request.permission)
        .extra(request)
}
