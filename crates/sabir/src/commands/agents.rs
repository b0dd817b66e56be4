//! `sabir agents`: who can be read, and in which dialects.

use std::sync::{Arc, LazyLock};

use sabir_core::agent::{Agent, Registry};
use sabir_core::launch::Capabilities;
use serde::Serialize;

use crate::cli::AgentsArguments;
use crate::exit::Exit;
use crate::failure::{Failure, did_you_mean};
use crate::print::json::{Out, object};
use crate::print::table;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    id: &'a str,
    title: &'a str,
    aliases: &'a [String],
    dialects: Vec<ListedDialect<'a>>,
    can: &'a Capabilities,
    recorded_versions: &'a [String],
}

#[derive(Serialize)]
struct ListedDialect<'a> {
    name: &'a str,
    about: &'a str,
}

pub(crate) fn run(arguments: &AgentsArguments) -> Result<Exit, Failure> {
    if arguments.json {
        let mut out = Out::default();
        object(&registry().iter().map(|agent| listed(agent)).collect::<Vec<_>>(), out.buffer())?;
        out.write()?;
        return Ok(Exit::Completed);
    }
    let rows: Vec<Vec<String>> = registry()
        .iter()
        .map(|agent| {
            let dialects: Vec<&str> = agent.dialects.iter().map(|dialect| &*dialect.name).collect();
            vec![agent.id.as_str().to_owned(), agent.aliases.join(", "), dialects.join(", "), can(agent)]
        })
        .collect();
    table::print(&["AGENT", "ALIASES", "READS", "CAN BE ASKED FOR"], &rows)?;
    Ok(Exit::Completed)
}

/// What may be asked of an agent that is started, in the words of the flags.
fn can(agent: &Agent) -> String {
    let can = &agent.launch.capabilities;
    let words = [
        (can.model, "model"),
        (can.resume, "resume"),
        (can.r#continue, "continue"),
        (can.max_turns, "max-turns"),
        (can.max_cost, "max-cost"),
    ];
    let words = words.into_iter().filter(|(can, _)| *can).map(|(_, word)| word);
    words.chain(can.permissions.iter().map(|level| level.name())).collect::<Vec<_>>().join(", ")
}

fn listed(agent: &Agent) -> Listed<'_> {
    let dialects = agent.dialects.iter().map(|dialect| ListedDialect { name: &dialect.name, about: &dialect.about });
    Listed {
        id: agent.id.as_str(),
        title: &agent.title,
        aliases: &agent.aliases,
        dialects: dialects.collect(),
        can: &agent.launch.capabilities,
        recorded_versions: &agent.launch.recorded_versions,
    }
}

/// The agents that this command line knows.
pub(crate) fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(sabir_agents::builtin);
    &REGISTRY
}

/// The word for whichever agent a stream is of.
const AUTO: &str = "auto";

/// The agent of that name, or none where the stream is to tell.
pub(crate) fn find_or_auto(name: &str) -> Result<Option<&'static Arc<Agent>>, Failure> {
    if name == AUTO {
        return Ok(None);
    }
    find(name).map(Some)
}

/// The agent of that name, or a failure that helps.
pub(crate) fn find(name: &str) -> Result<&'static Arc<Agent>, Failure> {
    registry().find(name).ok_or_else(|| {
        let names =
            |agent: &'static Arc<Agent>| std::iter::once(agent.id.as_str()).chain(agent.aliases.iter().map(String::as_str));
        let known = registry().iter().flat_map(names);
        let failure = Failure::usage(format!("there is no agent named {name}"));
        if name == AUTO {
            return failure
                .hint("`auto` is for `sabir parse` and `sabir drift`, which read a stream; `sabir agents` lists the agents");
        }
        match did_you_mean(name, known) {
            Some(meant) => failure.hint(format!("did you mean {meant}? `sabir agents` lists them all")),
            None => failure.hint("`sabir agents` lists them all"),
        }
    })
}
