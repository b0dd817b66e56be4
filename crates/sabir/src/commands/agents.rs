//! `sabir agents`: who can be read, and in which dialects.

use sabir_core::agent::{ALL, Agent};
use sabir_core::launch::Capabilities;
use serde::Serialize;

use crate::cli::AgentsArguments;
use crate::exit::Exit;
use crate::failure::{Failure, did_you_mean};
use crate::print::json::{Out, object};
use crate::print::table;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: &'static str,
    title: &'static str,
    aliases: &'static [&'static str],
    dialects: Vec<ListedDialect>,
    can: Capabilities,
    recorded_versions: &'static [&'static str],
}

#[derive(Serialize)]
struct ListedDialect {
    name: &'static str,
    about: &'static str,
}

pub(crate) fn run(arguments: &AgentsArguments) -> Result<Exit, Failure> {
    if arguments.json {
        let mut out = Out::default();
        object(&ALL.iter().map(listed).collect::<Vec<_>>(), out.buffer())?;
        out.write()?;
        return Ok(Exit::Completed);
    }
    let rows: Vec<Vec<String>> = ALL
        .iter()
        .map(|agent| {
            let dialects: Vec<&str> = agent.dialects.iter().map(|dialect| dialect.name).collect();
            vec![agent.id.0.to_owned(), agent.aliases.join(", "), dialects.join(", "), can(agent)]
        })
        .collect();
    table::print(&["AGENT", "ALIASES", "READS", "CAN BE ASKED FOR"], &rows)?;
    Ok(Exit::Completed)
}

/// What may be asked of an agent that is started, in the words of the flags.
fn can(agent: &Agent) -> String {
    let can = &agent.launch.can;
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

fn listed(agent: &Agent) -> Listed {
    let dialects = agent.dialects.iter().map(|dialect| ListedDialect { name: dialect.name, about: dialect.about });
    Listed {
        id: agent.id.0,
        title: agent.title,
        aliases: agent.aliases,
        dialects: dialects.collect(),
        can: agent.launch.can,
        recorded_versions: agent.launch.recorded,
    }
}

/// The word for whichever agent a stream is of.
const AUTO: &str = "auto";

/// The agent of that name, or none where the stream is to tell.
pub(crate) fn find_or_auto(name: &str) -> Result<Option<&'static Agent>, Failure> {
    if name == AUTO {
        return Ok(None);
    }
    find(name).map(Some)
}

/// The agent of that name, or a failure that helps.
pub(crate) fn find(name: &str) -> Result<&'static Agent, Failure> {
    sabir_core::agent::find(name).ok_or_else(|| {
        let known = ALL.iter().flat_map(|agent| std::iter::once(agent.id.0).chain(agent.aliases.iter().copied()));
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
