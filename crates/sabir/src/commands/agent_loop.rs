//! `sabir agent-loop`: the agent `openai` itself.

use std::io::Read as _;

use sabir_core::event::Outcome;
use sabir_core::launch::Permission;
use sabir_openai::{Api, Commands, Config, Key, PUBLIC_ENDPOINT};

use crate::cli::AgentLoopArguments;
use crate::exit::Exit;
use crate::failure::Failure;

/// A level that users type.
pub(crate) fn permission(text: &str) -> Result<Permission, String> {
    let names = || Permission::ALL.map(Permission::name).join(", ");
    Permission::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| format!("give one of {}", names()))
}

/// An API that users type.
pub(crate) fn api(text: &str) -> Result<Api, String> {
    match text {
        "responses" => Ok(Api::Responses),
        "chat" => Ok(Api::Chat),
        _ => Err("give responses or chat".to_owned()),
    }
}

pub(crate) fn run(arguments: AgentLoopArguments) -> Result<Exit, Failure> {
    let config = config(arguments)?;
    let mut prompt = String::new();
    std::io::stdin().lock().read_to_string(&mut prompt).map_err(|error| Failure::io("can't read the prompt", &error))?;
    let commands = Commands::default();
    end_commands_on_signals(&commands).map_err(|error| Failure::io("can't watch for signals", &error))?;
    let ending = sabir_openai::run(&config, &prompt, &commands, &mut std::io::stdout().lock());
    let ending = ending.map_err(|error| Failure::io("can't write", &error))?;
    Ok(if ending.outcome == Outcome::Completed { Exit::Completed } else { Exit::Failed })
}

fn config(arguments: AgentLoopArguments) -> Result<Config, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let cwd = std::env::current_dir().map_err(|error| Failure::io("can't find the working folder", &error))?;
    let base_url = variable("OPENAI_BASE_URL").unwrap_or_else(|| PUBLIC_ENDPOINT.to_owned());
    let mut config = Config::new(base_url, arguments.model.or_else(|| variable("OPENAI_MODEL")).unwrap_or_default(), cwd);
    config.key = variable("OPENAI_API_KEY").as_deref().and_then(Key::new);
    config.max_turns = arguments.max_turns;
    config.permission = arguments.permission;
    config.certificates = variable("SSL_CERT_FILE").map(Into::into);
    config.api = match (arguments.api, variable("SABIR_OPENAI_API")) {
        (Some(api), _) => Some(api),
        (None, Some(text)) => Some(api(&text).map_err(|hint| Failure::usage("SABIR_OPENAI_API names no API").hint(hint))?),
        (None, None) => None,
    };
    for (header, name) in [("openai-organization", "OPENAI_ORG_ID"), ("openai-project", "OPENAI_PROJECT_ID")] {
        config.headers.extend(variable(name).map(|value| (header.to_owned(), value)));
    }
    Ok(config)
}

/// A signal ends the loop, and its commands with it; they are in groups of their own, where no signal reaches them.
#[cfg(unix)]
fn end_commands_on_signals(commands: &Commands) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let commands = commands.clone();
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            commands.end_then(|| {
                // The signal does what it would have done.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        }
    };
    std::thread::Builder::new().spawn(watch).map(drop)
}

#[cfg(not(unix))]
fn end_commands_on_signals(_: &Commands) -> std::io::Result<()> {
    Ok(())
}
