//! Process creation. No other module starts processes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sabir_core::dialect::StartFailure;
use sabir_core::event::Cause;
use sabir_core::launch::PromptTransport;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::output::OutputSource;
use crate::platform::{self, Process, Started};
use crate::reaper;
use crate::supervisor::RunConfig;

/// A started agent and our ends of its pipes.
pub(crate) struct Spawned {
    pub(crate) child: Process,
    /// Process id of the agent.
    pub(crate) leader: u32,
    pub(crate) stdout: OutputSource,
    pub(crate) stderr: OutputSource,
    /// Deleted at the end of the run.
    pub(crate) prompt_file: Option<PromptFile>,
}

/// A temporary file with the prompt, deleted on drop.
pub(crate) struct PromptFile(PathBuf);

impl Drop for PromptFile {
    fn drop(&mut self) {
        // Best effort, in the temporary directory.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts the agent in its own process group, under a reaper if one is configured.
pub(crate) async fn spawn(config: &RunConfig) -> Result<Spawned, StartFailure> {
    if !config.cwd.is_dir() {
        let message = format!("the working folder {} does not exist", config.cwd.display());
        return Err(StartFailure { message, cause: Cause::BadUsage });
    }
    let failed = |error: &io::Error| failure(&config.program, error);
    let (mut command, reaped) = match reaper::prepare(&config.program) {
        Some(command) => (command, true),
        None => (Command::new(&config.program), false),
    };
    command.args(&config.command.arguments).current_dir(&config.cwd).env_clear().envs(config.environment.iter());
    for (name, value) in &config.command.environment {
        command.env(name, value);
    }
    command.env(platform::RUN_ID_ENV, config.run_id.as_str());
    let mut prompt_file = None;
    if let PromptTransport::File(flag) = config.command.prompt {
        let file = write_prompt(config).map_err(|error| failed(&error))?;
        command.arg(flag).arg(&file.0);
        prompt_file = Some(file);
    }
    // Several agents wait forever for an open stdin to close.
    let has_stdin = config.command.prompt == PromptTransport::Stdin;
    let started = platform::start(command, config.output, has_stdin, reaped).map_err(|error| failed(&error))?;
    let Started { mut child, stdin, stdout, stderr } = started;
    let leader = child.started().await.map_err(|error| failed(&error))?;
    if let Some(mut stdin) = stdin {
        let prompt = config.prompt.clone();
        // In the background, because an agent may never read its prompt.
        tokio::spawn(async move {
            let _ = stdin.write_all(prompt.as_bytes()).await;
            let _ = stdin.shutdown().await;
        });
    }
    Ok(Spawned { child, leader, stdout, stderr, prompt_file })
}

/// Command that starts a reaper for `program`, without the program's arguments.
#[cfg(target_os = "linux")]
pub(crate) fn reaper_command(reaper: &Path, argument: &str, program: &Path) -> Command {
    let mut command = Command::new(reaper);
    command.arg0("sabir").arg(argument).arg(program);
    command
}

/// Called by the reaper: starts the agent. Returns its process id.
#[cfg(target_os = "linux")]
pub(crate) fn spawn_agent(
    program: &OsString,
    arguments: impl Iterator<Item = OsString>,
    stdin: Option<std::os::fd::OwnedFd>,
) -> io::Result<i32> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(program);
    command.args(arguments).process_group(0).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    Ok(command.spawn()?.id().cast_signed())
}

fn write_prompt(config: &RunConfig) -> io::Result<PromptFile> {
    let name: String = config.run_id.as_str().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::env::temp_dir().join(format!("sabir-prompt-{}-{name}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    // `create_new` refuses an existing file or symlink.
    options.write(true).create_new(true);
    platform::set_private_mode(&mut options);
    let mut file = options.open(&path)?;
    let guard = PromptFile(path);
    io::Write::write_all(&mut file, config.prompt.as_bytes())?;
    Ok(guard)
}

fn failure(program: &Path, error: &io::Error) -> StartFailure {
    let program = program.display();
    let (reason, cause) = match error.kind() {
        io::ErrorKind::NotFound => ("it, or the interpreter that it names, does not exist".to_owned(), Cause::AgentNotFound),
        io::ErrorKind::PermissionDenied => ("it may not be executed".to_owned(), Cause::AgentNotFound),
        io::ErrorKind::ArgumentListTooLong => ("the prompt is too long for a command line".to_owned(), Cause::BadUsage),
        _ => (error.to_string(), Cause::Unknown),
    };
    StartFailure { message: format!("can't start {program}: {reason}"), cause }
}

/// Executes this program again in the same process, with these environment variables. Returns only on failure.
#[cfg(target_os = "linux")]
pub(crate) fn reexec(variables: impl Iterator<Item = (OsString, OsString)>) -> io::Error {
    use std::os::unix::process::CommandExt as _;
    let mut arguments = std::env::args_os();
    let mut command = std::process::Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env_clear().envs(variables).exec()
}

/// Runs a program and returns its success and output (stdout, or else stderr); `None` on failure or timeout.
pub(crate) async fn capture_output(program: &Path, arguments: &[&str], limit: std::time::Duration) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    platform::set_process_group(&mut command);
    let output = tokio::time::timeout(limit, command.output()).await.ok()?.ok()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.trim().is_empty() {
        text = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Some((output.status.success(), text))
}

/// Starts a program that outlives this process and does not receive its Ctrl-C.
pub(crate) fn spawn_detached<'a>(program: &str, arguments: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    platform::set_process_group(&mut command);
    command.spawn().map(drop)
}

/// The system shell.
pub(crate) fn system_shell() -> PathBuf {
    let fallback = if cfg!(windows) { "cmd.exe" } else { "/bin/sh" };
    if cfg!(windows) { std::env::var_os("ComSpec").unwrap_or_else(|| OsString::from(fallback)).into() } else { fallback.into() }
}

/// Kills a process and its descendants.
#[cfg(windows)]
pub(crate) fn kill_tree(leader: u32) {
    let id = leader.to_string();
    // Fails if the tree is already gone.
    let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &id]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
