//! The one place where a process is started.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sabir_core::dialect::StartFailure;
use sabir_core::event::Cause;
use sabir_core::launch::PromptBy;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::platform::{self, Process};
use crate::pump::Intake;
use crate::supervise::Plan;

/// A process that was started, and our ends of its pipes.
pub(crate) struct Spawned {
    pub(crate) child: Process,
    pub(crate) stdout: Intake,
    pub(crate) stderr: Intake,
    /// Removed when the run is over.
    pub(crate) prompt_file: Option<PromptFile>,
}

/// A file with a prompt that is removed again.
pub(crate) struct PromptFile(PathBuf);

impl Drop for PromptFile {
    fn drop(&mut self) {
        // It is in the folder for temporary files; there is nobody to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts the process of a plan in a group of its own.
pub(crate) fn spawn(plan: &Plan) -> Result<Spawned, StartFailure> {
    if !plan.cwd.is_dir() {
        let message = format!("the working folder {} does not exist", plan.cwd.display());
        return Err(StartFailure { message, cause: Cause::BadUsage });
    }
    let failed = |error: &io::Error| failure(&plan.program, error);
    let mut command = Command::new(&plan.program);
    command.args(&plan.command.arguments).current_dir(&plan.cwd).env_clear().envs(plan.environment.iter());
    for (name, value) in &plan.command.environment {
        command.env(name, value);
    }
    command.env(platform::MARK, plan.run_id.as_str());
    let mut prompt_file = None;
    match plan.command.prompt {
        PromptBy::Stdin => drop(command.stdin(Stdio::piped())),
        // Several agents wait for ever on a standard input that is open.
        PromptBy::Arguments => drop(command.stdin(Stdio::null())),
        PromptBy::File(flag) => {
            let file = write_prompt(plan).map_err(|error| failed(&error))?;
            command.arg(flag).arg(&file.0).stdin(Stdio::null());
            prompt_file = Some(file);
        }
    }
    let (stdout, stderr, mut child) = platform::start(command, plan.output).map_err(|error| failed(&error))?;
    if let Some(mut stdin) = platform::take_stdin(&mut child) {
        let prompt = plan.prompt.clone();
        // An agent that does not read its prompt shall not keep us from reading the agent.
        tokio::spawn(async move {
            let _ = stdin.write_all(prompt.as_bytes()).await;
            let _ = stdin.shutdown().await;
        });
    }
    Ok(Spawned { child, stdout, stderr, prompt_file })
}

fn write_prompt(plan: &Plan) -> io::Result<PromptFile> {
    let name: String = plan.run_id.as_str().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::env::temp_dir().join(format!("sabir-prompt-{}-{name}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    // It must be new: a link that waits there under that name is not followed.
    options.write(true).create_new(true);
    platform::private(&mut options);
    let mut file = options.open(&path)?;
    let guard = PromptFile(path);
    io::Write::write_all(&mut file, plan.prompt.as_bytes())?;
    Ok(guard)
}

fn failure(program: &Path, error: &io::Error) -> StartFailure {
    let program = program.display();
    let (why, cause) = match error.kind() {
        io::ErrorKind::NotFound => ("it, or the interpreter that it names, does not exist".to_owned(), Cause::AgentNotFound),
        io::ErrorKind::PermissionDenied => ("it may not be executed".to_owned(), Cause::AgentNotFound),
        io::ErrorKind::ArgumentListTooLong => ("the prompt is too long for a command line".to_owned(), Cause::BadUsage),
        _ => (error.to_string(), Cause::Unknown),
    };
    StartFailure { message: format!("can't start {program}: {why}"), cause }
}

/// Runs a program for its first words, such as a version, and waits for it at most this long.
pub(crate) async fn ask(program: &Path, arguments: &[&str], limit: std::time::Duration) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    platform::own_group(&mut command);
    let output = tokio::time::timeout(limit, command.output()).await.ok()?.ok()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.trim().is_empty() {
        text = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Some((output.status.success(), text))
}

/// Starts a program that is none of our business afterwards: it outlives us, and no Ctrl-C of ours reaches it.
pub(crate) fn detached<'a>(program: &str, arguments: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    platform::own_group(&mut command);
    command.spawn().map(drop)
}

/// The system's shell.
pub(crate) fn shell() -> PathBuf {
    let fallback = if cfg!(windows) { "cmd.exe" } else { "/bin/sh" };
    if cfg!(windows) { std::env::var_os("ComSpec").unwrap_or_else(|| OsString::from(fallback)).into() } else { fallback.into() }
}

/// Ends a process and all that it started.
#[cfg(windows)]
pub(crate) fn kill_tree(leader: u32) {
    let id = leader.to_string();
    // A tree that is gone needs no end.
    let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &id]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
