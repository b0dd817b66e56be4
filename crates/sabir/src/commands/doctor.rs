//! `sabir doctor`: which agents are here, and what is missing.

use std::sync::Arc;

use sabir_core::agent::Agent;
use sabir_core::launch::Program;
use sabir_run::probe::{self, Installation};
use serde::Serialize;

use super::agents;
use crate::cli::DoctorArguments;
use crate::commands::agents::registry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::json::{Out, object};
use crate::print::table;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    id: &'static str,
    title: &'static str,
    ready: bool,
    #[serde(flatten)]
    found: Installation,
    next: Option<String>,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, Failure> {
    let chosen: Vec<&'static Arc<Agent>> = if arguments.agents.is_empty() {
        registry().iter().collect()
    } else {
        arguments.agents.iter().map(|name| agents::find(name)).collect::<Result<_, _>>()?
    };
    let checked = super::run::runtime()?.block_on(async {
        // Programs take a while to say their version; all are asked at once.
        let asked: Vec<_> = chosen.iter().map(|agent| (*agent, tokio::spawn(probe::inspect(agent)))).collect();
        let mut checked = Vec::new();
        for (agent, found) in asked {
            let found = found.await.map_err(|error| Failure::io("looking for an agent failed", &std::io::Error::other(error)))?;
            checked.push(Checked {
                id: agent.id.as_str(),
                title: &agent.title,
                ready: found.is_ready(agent),
                next: next(agent, &found),
                found,
            });
        }
        Ok::<_, Failure>(checked)
    })?;
    if arguments.json {
        let mut out = Out::default();
        object(&checked, out.buffer())?;
        out.write()?;
    } else {
        table::print(&["AGENT", "STATE", "VERSION", "NEXT"], &checked.iter().map(row).collect::<Vec<_>>())?;
    }
    // An agent that needs no installation does not make the machine ready.
    let real = |checked: &&Checked| agents::find(checked.id).is_ok_and(|agent| matches!(agent.launch.program, Program::Named(_)));
    let ready = if arguments.agents.is_empty() {
        checked.iter().filter(real).any(|checked| checked.ready)
    } else {
        checked.iter().all(|checked| checked.ready)
    };
    Ok(if ready { Exit::Completed } else { Exit::NotReady })
}

fn row(checked: &Checked) -> Vec<String> {
    let found = &checked.found;
    let state = match (checked.ready, &found.program) {
        (true, _) => "ready",
        (false, Some(_)) => "no key",
        (false, None) if found.not_executable.is_some() => "not executable",
        (false, None) => "not installed",
    };
    let version = match &found.version {
        Some(version) if found.recorded => version.clone(),
        Some(version) => format!("{version} (not recorded)"),
        None => "—".to_owned(),
    };
    vec![checked.id.to_owned(), state.to_owned(), version, checked.next.clone().unwrap_or_default()]
}

/// What the user should do about an agent.
fn next(agent: &Agent, found: &Installation) -> Option<String> {
    if let Some(file) = &found.not_executable {
        return Some(format!("chmod +x {}", file.display()));
    }
    if found.program.is_none() {
        return Some(agent.launch.install.clone().into_owned());
    }
    if !found.is_ready(agent) {
        return Some(format!("log in with its own command, or set {}", agent.launch.keys.join(" or ")));
    }
    if found.version.is_some() && !found.recorded && !agent.launch.recorded_versions.is_empty() {
        let known = agent.launch.recorded_versions.last().map_or("", String::as_str);
        return Some(format!("read exactly up to {known}; `sabir drift` on its output shows what is new"));
    }
    None
}
