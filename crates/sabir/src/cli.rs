//! What users type.

pub(crate) mod hub;
pub(crate) mod past;
pub(crate) mod shell;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

const AFTER_HELP: &str = "\
Examples:
  sabir demo                                           watch three small runs
  sabir doctor                                         which agents are installed and ready?
  sabir run claude \"add a test for the parser\"        run one of them
  sabir run codex --json \"…\" | jq -c .kind            one vocabulary for all of them
  claude -p \"…\" --output-format stream-json --verbose | sabir parse -
  sabir parse run.jsonl --to result                    usage, cost, tools, files, answer
  sabir parse run.jsonl --to human                     read it in the terminal
  sabir usage --by model                               what was spent, by all agents on this machine
  sabir ls; sabir show ID; sabir search WORDS          what ran before
  sabir tui                                            the same to look at, and what runs now

Exit codes: 0 done, 1 the agent failed, 2 bad usage, 3 agent not ready, 4 cancelled, 5 timed out,
6 reading, writing or keeping failed, 130 killed by a second Ctrl-C.";

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
    Run(Box<RunArguments>),
    Batch(BatchArguments),
    Shell(Box<shell::ShellArguments>),
    Ls(past::LsArguments),
    Show(past::ShowArguments),
    Search(past::SearchArguments),
    Serve(past::ServeArguments),
    Usage(past::UsageArguments),
    Query(past::QueryArguments),
    Tail(past::TailArguments),
    Replay(past::ReplayArguments),
    Export(past::ExportArguments),
    Jobs(past::JobsArguments),
    Tui(TuiArguments),
    Parse(ParseArguments),
    Doctor(DoctorArguments),
    Drift(DriftArguments),
    Agents(AgentsArguments),
    Prune(PruneArguments),
    Hub(Box<hub::HubArguments>),
    Demo(DemoArguments),
    Completions(CompletionsArguments),
    #[command(hide = true)]
    AgentLoop(AgentLoopArguments),
    /// Print the manual page (roff).
    #[command(hide = true)]
    Man,
}

/// Run an agent and tell what it does.
///
/// Starts the agent's own command line, shows its events as they come, and ends when nothing of it is left: Ctrl-C stops it
/// in good order, a second one kills. The prompt is read from standard input when it is not given, or is `-`.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// The agent. `sabir agents` lists them, `sabir doctor` says which are installed.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,

    /// What it is to do.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Arguments for the agent itself, after `--`.
    #[arg(value_name = "ARGUMENT", last = true)]
    pub(crate) extra: Vec<String>,

    #[command(flatten)]
    pub(crate) ask: AskArguments,

    /// Run id; must not be in the journal yet [default: a new one].
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,

    /// Print events as JSON, one per line: the same as `--to events`.
    #[arg(long, conflicts_with_all = ["quiet", "to"])]
    pub(crate) json: bool,

    /// Print the answer alone: the same as `--to answer`.
    #[arg(long, short, conflicts_with = "to")]
    pub(crate) quiet: bool,

    /// What to print.
    #[arg(long, short, value_name = "VIEW", default_value = "human", value_parser = crate::output::names())]
    pub(crate) to: String,

    /// Session id in views that need one [default: the agent's own].
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,

    /// A price list to use before the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Also write what the agent prints to its standard output into this file, byte by byte.
    #[arg(long, value_name = "FILE")]
    pub(crate) raw: Option<PathBuf>,

    /// Keep nothing of the run in the journal; `SABIR_JOURNAL=off` does the same for all runs.
    #[arg(long)]
    pub(crate) no_journal: bool,
}

/// What may be asked of any run.
#[derive(Args, Clone, Default)]
pub(crate) struct AskArguments {
    /// The model, in the agent's own name for it.
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Resume this session; a unique prefix of its id is enough.
    #[arg(long, value_name = "ID", conflicts_with = "continue")]
    pub(crate) resume: Option<String>,

    /// Take up the last session of the working folder.
    #[arg(long = "continue")]
    pub(crate) r#continue: bool,

    /// What it may do without asking [default: what its own settings say].
    #[arg(long, short, value_name = "LEVEL", value_parser = ["read-only", "edit", "full"])]
    pub(crate) permission: Option<String>,

    /// How many turns it may take.
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,

    /// How many dollars it may spend.
    #[arg(long, value_name = "USD", value_parser = crate::start::dollars)]
    pub(crate) max_cost: Option<f64>,

    /// The working folder.
    #[arg(long, short = 'C', value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,

    /// A variable to pass (`NAME`, `PREFIX*`, `*`) or to set (`NAME=VALUE`). May be repeated.
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = crate::start::variable)]
    pub(crate) env: Vec<sabir_run::EnvRule>,

    /// The program of the agent, when it is not the one on the search path.
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,

    /// End the run after this time, like 90s, 5m or 2h.
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration, help_heading = "Time limits")]
    pub(crate) timeout: Option<Duration>,

    /// End it when nothing comes in this time after the start.
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration, help_heading = "Time limits")]
    pub(crate) first_output_timeout: Option<Duration>,

    /// End it when nothing comes for this time while no tool is running.
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration, help_heading = "Time limits")]
    pub(crate) idle_timeout: Option<Duration>,

    /// End it when one tool takes longer than this.
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration, help_heading = "Time limits")]
    pub(crate) tool_timeout: Option<Duration>,

    /// End a process that is still there this time after its result; 0 waits for ever [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration, help_heading = "Time limits")]
    pub(crate) exit_timeout: Option<Duration>,

    /// Leave alone what the agent leaves running when it ends by itself.
    #[arg(long)]
    pub(crate) leave_running: bool,
}

/// Run many prompts at once.
///
/// Each line of the file is a JSON object: `{"agent":"claude-code","prompt":"…"}`, with `id`, `cwd`, `model`, `resume`,
/// `permission`, `maxTurns`, `maxCost`, `timeoutSeconds` and `extra` where they are wanted. Prints the events of all runs,
/// told apart by `runId`, or with `--to result` one result per run.
#[derive(Args)]
pub(crate) struct BatchArguments {
    /// The file with the runs; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,

    /// How many run at once.
    #[arg(long, short, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: u16,

    /// What to print.
    #[arg(long, short, value_name = "VIEW", default_value = "events", value_parser = ["events", "result"])]
    pub(crate) to: String,

    /// Keep nothing of the runs in the journal; `SABIR_JOURNAL=off` does the same for all runs.
    #[arg(long)]
    pub(crate) no_journal: bool,
}

/// Say which agents are installed and ready.
///
/// Looks for each agent's program, its version, and a key or login (which is never printed), and says what to do next.
/// Exits with 0 when an agent is ready (all that are named, when some are), else with 3.
#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// Only these agents.
    #[arg(value_name = "AGENT")]
    pub(crate) agents: Vec<String>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell what an agent prints that this version does not know.
///
/// Reads recorded output and compares every event type and every field with those that are known of the agent. Run it on
/// the output of each new version: it exits with 1 when there is something new.
#[derive(Args)]
pub(crate) struct DriftArguments {
    /// Files to read; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) files: Vec<PathBuf>,

    /// The agent that printed them; `auto` finds out.
    #[arg(long, short, value_name = "ID", default_value = "auto")]
    pub(crate) agent: String,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
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
    #[arg(long, short, value_name = "VIEW", default_value = "events", value_parser = crate::output::names())]
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

/// Remove old runs from the journal.
///
/// Says which runs would go, and how much that frees; `--yes` removes them. Runs that are going on always stay. The journal
/// is in `SABIR_HOME`, or else in the folder that the system has for data of programs.
#[derive(Args)]
pub(crate) struct PruneArguments {
    /// Remove runs last written before this time: an age (12h, 30d, 8w) or a date, as in `sabir ls --since`.
    #[arg(long, value_name = "WHEN")]
    pub(crate) older_than: Option<String>,

    /// The oldest go until the rest is no larger than this, like 500MB or 2GB.
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::prune::size)]
    pub(crate) max_size: Option<u64>,

    /// The newest of this number stay, whatever the other rules say; alone: all others go.
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,

    /// Remove them.
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Only say what would go, which is also what happens without --yes.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look at runs in the terminal, live.
///
/// Lists what ran on this machine, with or without Sabir, and what runs now; opens a run as a timeline with its tool calls,
/// diffs, plan and cost. `?` shows the keys. With `--hub` it shows what a hub keeps.
#[derive(Args)]
pub(crate) struct TuiArguments {
    /// The run to open; the beginning of its id is enough.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// The address of a hub, like <http://127.0.0.1:7421>.
    #[arg(long, value_name = "URL")]
    pub(crate) hub: Option<String>,

    /// A token of the hub that may watch [default: `SABIR_TOKEN`].
    #[arg(long, value_name = "TOKEN", requires = "hub")]
    pub(crate) token: Option<String>,

    /// Allow sending the token to another machine without TLS (`http://`).
    #[arg(long, requires = "hub")]
    pub(crate) insecure: bool,
}

/// Play three recorded runs in the terminal and in the web UI.
///
/// Needs no agent, no key and no network: the runs are in the program, written in the formats that the agents print. They
/// go through shells to a hub that keeps everything in a temporary folder.
///
/// The web UI stays up after the runs end, until Ctrl-C or SIGTERM. In a script, where neither stdout nor stderr is a terminal
/// and nobody has opened the web UI, the demo ends with the runs.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// How many times faster than it happened; 0 is as fast as possible.
    #[arg(long, short, value_name = "N", default_value_t = 1.0, value_parser = crate::commands::demo::speed)]
    pub(crate) speed: f64,

    /// Only the recording of this agent.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<String>,

    /// Play to stdout only, without a hub and the web UI, and end with the runs.
    #[arg(long)]
    pub(crate) no_page: bool,

    /// Open no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// Print shell completions.
///
/// For bash: `source <(sabir completions bash)`; for zsh, fish, elvish and powershell alike. Ids of sessions are completed too.
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
