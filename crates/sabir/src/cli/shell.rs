//! What users type after `sabir shell`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::AskArguments;

/// Run an agent for somebody who is elsewhere.
///
/// Runs the agent, takes secrets out of what it tells, keeps that as the log of a session on this machine's disk, and delivers it:
/// to a hub, by WebSocket or HTTP, and to a folder or a bucket. A hub that is away slows nothing: what it has not acknowledged
/// is sent when it is back, also by a later `sabir shell` of the same session. Prompts and cancels of people at the hub reach the
/// agent.
///
/// After `--` stand the agent, its prompt, and arguments for the agent itself. Without a prompt it waits for one from the hub.
/// The environment may say the same as the options: `RUNNER_ADAPTER`, `WS_URL`, `WS_INSECURE`, `SESSION_ID`, `S3_BUCKET`, `S3_PREFIX`,
/// `WORKFLOW_ID`, `WORKSPACE_SLUG`, `INPUT_REPO`, `INPUT_BRANCH`, `OUTPUT_REPO`, `OUTPUT_BRANCH`. The token is in `AUTH_TOKEN` or in a
/// file, never on the command line. Exits as `sabir run` does; with 6 when something could not be delivered.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ShellArguments {
    #[command(subcommand)]
    pub(crate) command: Option<ShellCommand>,

    /// The agent, its prompt, and arguments for the agent itself.
    #[arg(value_name = "AGENT [PROMPT] [ARGUMENT]...", last = true, hide = false)]
    pub(crate) words: Vec<String>,

    /// The agent; then the words after `--` begin with the prompt.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,

    /// The session [default: a new one].
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// The address of the hub, like `wss://hub.example`.
    #[arg(long, value_name = "URL", help_heading = "Delivery")]
    pub(crate) hub: Option<String>,

    /// Allow sending the token to another machine without TLS (`ws://`).
    #[arg(long, help_heading = "Delivery")]
    pub(crate) insecure: bool,

    /// A file with the token for the hub.
    #[arg(long, value_name = "FILE", help_heading = "Delivery")]
    pub(crate) token_file: Option<PathBuf>,

    /// A folder that gets the log too.
    #[arg(long, value_name = "FOLDER", conflicts_with = "s3_bucket", help_heading = "Delivery")]
    pub(crate) log_folder: Option<PathBuf>,

    /// A bucket of S3, or of what speaks like it, that gets the log too; the variables of AWS say where and who.
    #[arg(long, value_name = "NAME", help_heading = "Delivery")]
    pub(crate) s3_bucket: Option<String>,

    /// What names in the bucket begin with.
    #[arg(long, value_name = "PREFIX", help_heading = "Delivery")]
    pub(crate) s3_prefix: Option<String>,

    /// Files beneath the working folder that the session leaves, like `dist/*.tgz`. May be repeated.
    #[arg(long, value_name = "PATTERN", help_heading = "Delivery")]
    pub(crate) artifact: Vec<String>,

    /// How long to wait at the end for what is not acknowledged.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::start::duration, help_heading = "Delivery")]
    pub(crate) flush: Duration,

    /// How long to wait for a further prompt from the hub [default: not at all; without a prompt, for ever].
    #[arg(long, value_name = "TIME", value_parser = crate::start::duration)]
    pub(crate) wait: Option<Duration>,

    /// What to do about a run that an earlier shell of the session did not finish.
    #[arg(long, value_name = "WHAT", default_value = "report", value_parser = ["report", "resume", "again"])]
    pub(crate) after_crash: String,

    /// Also take out the values of these variables, whatever their names. May be repeated.
    #[arg(long, value_name = "NAME", help_heading = "Secrets")]
    pub(crate) secret: Vec<String>,

    /// Also take out every line of this file.
    #[arg(long, value_name = "FILE", help_heading = "Secrets")]
    pub(crate) secrets_file: Option<PathBuf>,

    /// Keep what the agent prints, with its secrets, in the journal of runs on this machine; it is not delivered.
    #[arg(long, help_heading = "Secrets")]
    pub(crate) keep_raw: bool,

    /// The workspace, for readers of the log.
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: Option<String>,

    /// The repository that the agent works on, for readers of the log.
    #[arg(long, value_name = "URL")]
    pub(crate) repo: Option<String>,

    /// Its branch.
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,

    /// Print how delivery goes, and the end, as JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) ask: AskArguments,
}

#[derive(Subcommand)]
pub(crate) enum ShellCommand {
    Repair(RepairArguments),
}

/// Repair the damaged outboxes of sessions on this machine.
///
/// Reads the whole outbox of each session. Where a disk has changed or lost bytes, the messages that can be read are kept, and an
/// error message takes the place of each one that is lost. Messages that an earlier version of Sabir cut at line breaks are joined
/// again. `sabir shell` does the same with the outbox of its session. Exits with 6 if messages are lost, or could not be read.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sabir shell repair --dry-run                         what is damaged?
  sabir shell repair                                   repair every outbox
  sabir shell repair my-session --json                 one of them, for a program")]
pub(crate) struct RepairArguments {
    /// The sessions [default: all that have an outbox].
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,

    /// Print what is damaged and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object per session.
    #[arg(long)]
    pub(crate) json: bool,
}
