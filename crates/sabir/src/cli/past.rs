//! What users type to look back.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use crate::commands::completions::{agents, runs, sessions};
use crate::commands::tail::Lines;

/// How many of something are wanted: none is nothing that could be shown.
fn some(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a number, 1 or more".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Which sessions are meant.
#[derive(Args, Clone, Default)]
pub(crate) struct Which {
    /// Only sessions of this agent.
    #[arg(long, short, value_name = "ID", add = ArgValueCompleter::new(agents))]
    pub(crate) agent: Option<String>,

    /// Only sessions whose working folder is this one, lies in it, or has this word in its path.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) project: Option<String>,

    /// Only what happened since: a day (2026-11-02), a month, a moment, or a time ago (7d, 12h, 2w).
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,

    /// Only what happened until then; a day or a month is meant to its end.
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,

    /// Only what this model did; a part of its name is enough.
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Read all logs anew instead of what the index knows.
    #[arg(long)]
    pub(crate) no_index: bool,
}

/// Say what was spent.
///
/// Adds up the tokens and the cost of everything that the agents on this machine logged, each response once: copies in
/// forked, resumed and spawned sessions do not count again. Costs are what the agent reports, else list prices.
#[derive(Args)]
pub(crate) struct UsageArguments {
    /// What rows are made by.
    #[arg(long, short, value_name = "BY", default_value = "day", value_parser = ["day", "week", "month", "session", "model", "agent", "project"])]
    pub(crate) by: String,

    #[command(flatten)]
    pub(crate) which: Which,

    /// Also say each row by model.
    #[arg(long)]
    pub(crate) breakdown: bool,

    /// Where days begin, e.g. Europe/Berlin or UTC [default: the time zone of this machine].
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,

    /// A price list to use before the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// List sessions, the latest first.
#[derive(Args)]
pub(crate) struct LsArguments {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Only sessions that ended so, e.g. completed or failed.
    #[arg(long, value_name = "STATUS", ignore_case = true, hide_possible_values = true, value_parser = crate::commands::ls::statuses())]
    pub(crate) status: Option<String>,

    /// How many [default: 20 on a terminal, else all].
    #[arg(long, short = 'n', value_name = "N", value_parser = some)]
    pub(crate) limit: Option<usize>,

    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,

    /// With `--json`: read the sessions whole and give the result of each.
    #[arg(long, requires = "json")]
    pub(crate) results: bool,
}

/// Show a session as people read it.
#[derive(Args)]
pub(crate) struct ShowArguments {
    /// The session's id, or the beginning of it.
    #[arg(add = ArgValueCompleter::new(sessions), value_name = "ID")]
    pub(crate) id: String,

    /// Print its events as JSON: the same as `--to events`.
    #[arg(long, conflicts_with_all = ["to", "raw"])]
    pub(crate) json: bool,

    /// Print the log as the agent wrote it.
    #[arg(long, conflicts_with = "to")]
    pub(crate) raw: bool,

    /// Show the event with this number (`seq`, as printed by `sabir search`) and the events around it.
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["to", "raw"])]
    pub(crate) event: Option<u64>,

    /// With `--event`: number of events before and after it.
    #[arg(long, short = 'C', value_name = "N", default_value_t = 3, requires = "event")]
    pub(crate) context: u64,

    /// What to print.
    #[arg(long, short, value_name = "VIEW", default_value = "human", value_parser = crate::output::names())]
    pub(crate) to: String,
}

/// Search everything that was said and done.
///
/// Finds the texts that have all words: a prompt, an answer, a tool's arguments or output. An argument with spaces, like
/// "off by one", is a phrase: its words in this order. Words are whole words; upper and lower case are the same. The number
/// of an event is the `seq` of its JSON; `sabir show ID --event N` shows it.
#[derive(Args)]
pub(crate) struct SearchArguments {
    /// Words and phrases.
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,

    /// Match within words too.
    #[arg(long)]
    pub(crate) substring: bool,

    #[command(flatten)]
    pub(crate) which: Which,

    /// How many places [default: 50].
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, hide_default_value = true, value_parser = some)]
    pub(crate) limit: usize,

    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ask in SQL.
///
/// Tables: `sessions`, `usage` (one row per response), `events`, `tool_calls`, `file_changes`. The question can only read.
/// `sabir query --tables` prints their columns.
#[derive(Args)]
pub(crate) struct QueryArguments {
    /// The question, e.g. `SELECT name, count(*) FROM tool_calls GROUP BY name`.
    #[arg(value_name = "SQL", required_unless_present = "tables")]
    pub(crate) sql: Option<String>,

    #[command(flatten)]
    pub(crate) which: Which,

    /// Print the tables and their columns.
    #[arg(long)]
    pub(crate) tables: bool,

    /// A price list to use before the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Print JSON, one object per row.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the last lines of a run that Sabir started.
///
/// With `-f`, follows the run until it is over. Lines are those of the output: with `--json` each of them is one event. What
/// an output prints at its end, like the table of a transcript, is always there and counts all events.
#[derive(Args)]
pub(crate) struct TailArguments {
    /// The run's id, or the beginning of it [default: the latest run].
    #[arg(add = ArgValueCompleter::new(runs), value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Follow the run until it is over.
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Number of lines; `+N` starts at line N.
    #[arg(long, short = 'n', value_name = "[+]N", default_value = "10", value_parser = crate::commands::tail::lines)]
    pub(crate) lines: Lines,

    /// Print all lines; same as `-n +1`.
    #[arg(long, conflicts_with = "lines")]
    pub(crate) all: bool,

    /// Print its events as JSON: the same as `--to events`.
    #[arg(long, conflicts_with = "to")]
    pub(crate) json: bool,

    /// What to print.
    #[arg(long, short, value_name = "VIEW", default_value = "human", value_parser = crate::output::names())]
    pub(crate) to: String,
}

/// Play a session again.
///
/// A run that Sabir started is decoded anew from what the agent printed, with the dialects of this version; `--diff` tells
/// what is different from the events that were made then. A session that an agent logged is decoded from its log.
#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The session's id, or the beginning of it.
    #[arg(add = ArgValueCompleter::new(sessions), value_name = "ID")]
    pub(crate) id: String,

    /// How many times faster than it happened; 0 is as fast as possible.
    #[arg(long, short, value_name = "N", default_value_t = 0.0, value_parser = crate::commands::demo::speed)]
    pub(crate) speed: f64,

    /// Tell only what is different from the events that were made when it ran. Exits with 1 when something is.
    #[arg(long, conflicts_with_all = ["speed", "to", "json"])]
    pub(crate) diff: bool,

    /// Print its events as JSON: the same as `--to events`.
    #[arg(long, conflicts_with = "to")]
    pub(crate) json: bool,

    /// What to print.
    #[arg(long, short, value_name = "VIEW", default_value = "human", value_parser = crate::output::names())]
    pub(crate) to: String,
}

/// Write sessions as jobs: a folder for each, with its checkpoints and every event in a file of its own.
///
/// FOLDER/jobs/ID has job.json, checkpoints/ and runs/, as Perstack keeps them. Writing again gives the same files.
#[derive(Args)]
pub(crate) struct JobsArguments {
    /// The sessions' ids, or the beginnings of them.
    #[arg(add = ArgValueCompleter::new(sessions), value_name = "ID")]
    pub(crate) ids: Vec<String>,

    #[command(flatten)]
    pub(crate) which: Which,

    /// All sessions.
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,

    /// The folder that gets the folder `jobs`.
    #[arg(long, short, value_name = "FOLDER", default_value = "perstack")]
    pub(crate) to: PathBuf,

    /// Print JSON, one object per job.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a session in the words of another tool.
#[derive(Args)]
pub(crate) struct ExportArguments {
    /// The session's id, or the beginning of it.
    #[arg(add = ArgValueCompleter::new(sessions), value_name = "ID")]
    pub(crate) id: String,

    /// Write its events as JSON: the same as `--to events`.
    #[arg(long, conflicts_with = "to")]
    pub(crate) json: bool,

    /// The words.
    #[arg(long, short, value_name = "VIEW", default_value = "result", value_parser = crate::output::names_and_page())]
    pub(crate) to: String,

    /// The file to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Show what ran on this machine as a page.
///
/// Everything that agents logged here and everything in the journal: the list, each run, what was spent, and what goes on
/// right now. Only this machine can reach the page, and it changes nothing. The address that is printed is good once.
#[derive(Args)]
pub(crate) struct ServeArguments {
    /// The port to listen on [default: a free one].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,

    /// Open no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}
