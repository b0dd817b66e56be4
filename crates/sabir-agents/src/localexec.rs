//! Any command as an agent: its standard output is the answer, its exit code the verdict.

use sabir_core::agent::Agent;
use sabir_core::dialect::text;
use sabir_core::launch::{CommandLine, LaunchSpec, Program, PromptTransport, Request};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("localexec", "Any command").aliases(["local", "text"]).dialect(text::dialect()).launch(
        LaunchSpec::new(Program::Shell, command)
            // It is the user's own command, so it gets the user's own environment.
            .environment(["*"]),
    )
}

/// The prompt is a command for the shell; further words are its arguments, whatever characters they have.
fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["-c"]).prompt_by(PromptTransport::Arguments);
    if request.extra.is_empty() {
        line.argument(request.prompt)
    } else {
        line.argument(format!("{} \"$@\"", request.prompt)).argument("sh").extra(request)
    }
}
