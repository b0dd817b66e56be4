//! Any command as an agent: its standard output is the answer, its exit code the verdict.

use super::{Accounting, Agent, AgentId, text};
use crate::launch::{Capabilities, CommandLine, Launch, Output, Program, PromptBy, Request, StopSignal};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("localexec"),
    aliases: &["local", "text"],
    title: "Any command",
    dialects: &[text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: false },
    launch: Launch {
        program: Program::Shell,
        can: Capabilities { model: false, resume: false, r#continue: false, permissions: &[], max_turns: false, max_cost: false },
        command,
        version_matters: false,
        stop: StopSignal::Interrupt,
        output: Output::Pipe,
        // It is the user's own command, so it gets the user's own environment.
        environment: &["*"],
        keys: &[],
        logins: &[],
        install: "",
        recorded: &[],
    },
    history: None,
    shapes: "",
};

/// The prompt is a command for the shell; further words are its arguments, whatever characters they have.
fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["-c"]).prompt_by(PromptBy::Arguments);
    if request.extra.is_empty() {
        line.argument(request.prompt)
    } else {
        line.argument(format!("{} \"$@\"", request.prompt)).argument("sh").extra(request)
    }
}
