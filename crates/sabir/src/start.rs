//! From what the user asks to a plan that can be run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sabir_core::agent::Agent;
use sabir_core::event::RunId;
use sabir_core::launch::{Permission, Request, Session};
use sabir_run::{EnvRule, Environment, Limits, RunConfig, probe, secrets};
use sabir_store::meta::is_secret_name;

use crate::cli::AskArguments;
use crate::failure::Failure;
use crate::print;

/// A time like 90s, 5m, 2h, 30d or 500ms; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => f64::NAN,
    };
    let duration = number.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * seconds).ok());
    duration.ok_or_else(|| "give a time like 90s, 5m, 2h, 30d or 500ms".to_owned())
}

/// An amount of dollars.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount > 0.0 => Ok(amount),
        _ => Err("give an amount of dollars like 0.50".to_owned()),
    }
}

/// What the user says about a variable.
pub(crate) fn variable(text: &str) -> Result<EnvRule, String> {
    text.parse().map_err(|_| "give NAME, PREFIX*, * or NAME=VALUE".to_owned())
}

/// Keeps secrets of this process from the agents that it runs, `named` ones too. Executes this program again: call it first.
pub(crate) fn protect_secrets(named: &[String]) {
    let has_password = |value: &str| {
        value.split_once("://").is_some_and(|(_, rest)| rest.split(['/', '?', '#']).next().is_some_and(|host| host.contains('@')))
    };
    let is_secret = |name: &str, value: &str| {
        named.iter().any(|secret| secret == name)
            || is_secret_name(name)
            || has_password(value) && !Environment::is_allowed_by_default(name)
    };
    if let Err(error) = secrets::protect(is_secret) {
        print::warning(&format!("secrets in the environment of this process can be read by the agent: {error}"));
    }
}

/// A new id for a run. Ids of later runs sort after those of earlier ones.
pub(crate) fn run_id() -> RunId {
    RunId::from(uuid::Uuid::now_v7().to_string())
}

/// The plan of a run. Asks the agent's program for its version where the command line depends on it.
pub(crate) async fn plan(
    agent: &'static Arc<Agent>,
    prompt: &str,
    extra: &[String],
    ask: &AskArguments,
    run_id: RunId,
) -> Result<RunConfig, Failure> {
    let level = |name: &str| Permission::ALL.into_iter().find(|level| level.name() == name);
    let mut request = Request {
        prompt,
        model: ask.model.as_deref(),
        session: match &ask.resume {
            Some(id) => Session::Resume(id),
            None if ask.r#continue => Session::Latest,
            None => Session::New,
        },
        permission: ask.permission.as_deref().and_then(level),
        max_turns: ask.max_turns,
        max_cost: ask.max_cost,
        extra,
        version: None,
        superuser: sabir_run::supervisor::is_superuser(),
    };
    // What can't be promised is refused before anything is looked for.
    let refused = |refusal: sabir_core::launch::Unsupported| Failure::usage(refusal.what).hint(refusal.can);
    agent.command(&request).map_err(refused)?;
    let cwd = match &ask.cwd {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| Failure::usage(format!("there is no working folder: {error}")))?,
    };
    if !cwd.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder", cwd.display())).hint("--cwd names the folder to work in"));
    }
    let program = program(agent, ask.program.as_deref())?;
    let version = if agent.launch.needs_version { probe::version(&program).await } else { None };
    request.version = version.as_deref();
    let command = agent.command(&request).map_err(refused)?;
    let resumed = request.session != Session::New;
    let defaults = Limits::default();
    let limits = Limits {
        run: ask.timeout,
        first_output: ask.first_output_timeout,
        inactivity: ask.idle_timeout,
        tool: ask.tool_timeout,
        after_result: ask.exit_timeout.map_or(defaults.after_result, |limit| Some(limit).filter(|limit| !limit.is_zero())),
    };
    let mut config = RunConfig::new(Arc::clone(agent), program, command, prompt, cwd).run_id(run_id).limits(limits);
    config.agent_version = version;
    config.environment = Environment::new(secrets::variables(), &agent.launch.environment, &ask.env);
    config.leave_running = ask.leave_running;
    config.resumed = resumed;
    Ok(config)
}

fn program(agent: &'static Arc<Agent>, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH");
    if let Some(named) = named {
        let name = named.display().to_string();
        return probe::find_on_path(&name, path.as_deref())
            .ok_or_else(|| Failure::not_ready(format!("{name} is not a program")).hint("--program names an executable file"));
    }
    probe::find_program(agent).ok_or_else(|| missing(agent, path.as_deref()))
}

/// Why an agent is not there, and how to get it.
fn missing(agent: &'static Arc<Agent>, path: Option<&OsStr>) -> Failure {
    match probe::find_non_executable(agent, path) {
        Some(file) => Failure::not_ready(format!("{} is there but may not be executed", file.display()))
            .hint(format!("chmod +x {}", file.display())),
        None => Failure::not_ready(format!("{} is not installed: its program is not on the search path", agent.title))
            .hint(format!("{}; `sabir doctor` shows which agents are there", agent.launch.install)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{dollars, duration};

    #[test]
    fn times_and_amounts_are_read_as_people_write_them() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        assert_eq!((duration("30d"), duration("1w")), (Ok(Duration::from_secs(2_592_000)), Ok(Duration::from_secs(604_800))));
        assert!(duration("soon").is_err() && duration("-1s").is_err() && duration("").is_err() && duration("1e400").is_err());
        assert_eq!(dollars("$0.5"), Ok(0.5));
        assert!(dollars("0").is_err() && dollars("nan").is_err());
    }
}
