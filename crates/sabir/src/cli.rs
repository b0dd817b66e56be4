//! What users type.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const AFTER_HELP: &str = "\
Examples:
  sabir demo                                           watch three small runs
  claude -p \"…\" --output-format stream-json --verbose | sabir parse -
  sabir parse run.jsonl --to result                    usage, cost, tools, files, answer
  sabir parse run.jsonl --to human                     read it in the terminal

Exit codes: 0 done, 2 bad usage, 6 reading or writing failed.";

/// One event vocabulary for every coding-agent CLI.
///
/// Reads what Claude Code, Codex, Gemini CLI, Cursor, OpenCode, Pi, Bob or any other command printed, and tells it in one
/// vocabulary: events, an exact session result, or the words of another tool. Data goes to standard output, talk to
/// standard error.
#[derive(Parser)]
#[command(name = "sabir", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Parse(ParseArguments),
    Agents(AgentsArguments),
    Demo(DemoArguments),
    Completions(CompletionsArguments),
    #[command(hide = true)]
    AgentLoop(AgentLoopArguments),
    /// Print the manual page (roff).
    #[command(hide = true)]
    Man,
}

/// Read recorded or piped output of an agent.
///
/// Prints events as they come in, one JSON object per line; with `--to result` one object with the answer, usage, cost,
/// tool calls, file changes and outcome; with `--to` a view, the words of another tool. Exits with 0 when the stream could
/// be read, whatever became of the run.
#[derive(Args)]
pub(crate) struct ParseArguments {
    /// Files to read; `-` is standard input. Each file is one run.
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) files: Vec<PathBuf>,

    /// The agent that printed it; `auto` finds out. `sabir agents` lists them.
    #[arg(long, short, value_name = "ID", default_value = "auto")]
    pub(crate) agent: String,

    /// What to print.
    #[arg(long, short, value_name = "VIEW", default_value = "events", value_parser = crate::commands::parse::outputs())]
    pub(crate) to: String,

    /// Exit code that the agent ended with, where you know it.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) exit_code: Option<i32>,

    /// Signal that ended the agent: a number or a name.
    #[arg(long, value_name = "SIGNAL", value_parser = crate::commands::parse::signal)]
    pub(crate) signal: Option<String>,

    /// The run was stopped on purpose.
    #[arg(long)]
    pub(crate) cancelled: bool,

    /// Id of the run in the events [default: the file's name].
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,

    /// The model, for agents that do not say which they used.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// A price list to use before the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Session id in views that need one [default: the agent's own].
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,

    /// Let the `runner` view print its log records.
    #[arg(long)]
    pub(crate) logs: bool,

    /// Lines longer than this many bytes are cut.
    #[arg(long, value_name = "BYTES", default_value_t = sabir_core::line::LineBuffer::DEFAULT_CAP, hide_default_value = true)]
    pub(crate) max_line: usize,
}

/// List the agents and the dialects that can be read.
#[derive(Args)]
pub(crate) struct AgentsArguments {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Play three small runs of different agents to the terminal.
///
/// Needs no agent, no key and no network: the runs are in the program, written in the formats that the agents print.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// How many times faster than it happened; 0 is as fast as possible.
    #[arg(long, short, value_name = "N", default_value_t = 1.0, value_parser = crate::commands::demo::speed)]
    pub(crate) speed: f64,

    /// Only the recording of this agent.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

/// Print shell completions.
///
/// For bash: `source <(sabir completions bash)`; for zsh, fish, elvish and powershell alike.
#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Be an agent: the prompt on standard input, events on standard output.
///
/// This is what the agent `openai` runs. The endpoint and its key come from the environment: `OPENAI_BASE_URL`,
/// `OPENAI_API_KEY`, `OPENAI_MODEL`.
#[derive(Args)]
pub(crate) struct AgentLoopArguments {
    /// The model, as the endpoint calls it [default: `OPENAI_MODEL`].
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// How many turns it may take.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// What it may do: read, change files too, or run commands too.
    #[arg(long, value_name = "LEVEL", default_value = "edit", value_parser = crate::commands::agent_loop::permission)]
    pub(crate) permission: sabir_core::launch::Permission,

    /// The API to speak [default: `SABIR_OPENAI_API`, or `responses` where the endpoint has it].
    #[arg(long, value_name = "API", value_parser = crate::commands::agent_loop::api)]
    pub(crate) api: Option<sabir_openai::Api>,
}
