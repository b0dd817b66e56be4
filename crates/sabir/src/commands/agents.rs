//! `sabir agents`: who can be read, and in which dialects.

use std::io::{self, Write as _};

use sabir_core::agent::{ALL, Agent};
use serde::Serialize;

use crate::cli::AgentsArguments;
use crate::exit::Exit;
use crate::failure::{Failure, did_you_mean};
use crate::print::json::{Out, object};
use crate::print::{table, width};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: &'static str,
    title: &'static str,
    aliases: &'static [&'static str],
    dialects: Vec<ListedDialect>,
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
            vec![agent.id.0.to_owned(), agent.title.to_owned(), agent.aliases.join(", "), dialects.join(", ")]
        })
        .collect();
    let mut stdout = anstream::stdout().lock();
    let bold = anstyle::Style::new().bold();
    for (index, line) in table::lines(&["AGENT", "NAME", "ALIASES", "READS"], &rows, width()).into_iter().enumerate() {
        let style = if index == 0 { bold } else { anstyle::Style::new() };
        writeln!(stdout, "{style}{line}{style:#}").map_err(|error| closed(&error))?;
    }
    Ok(Exit::Completed)
}

fn closed(error: &io::Error) -> Failure {
    Failure::io("writing to standard output failed", error)
}

fn listed(agent: &Agent) -> Listed {
    let dialects = agent.dialects.iter().map(|dialect| ListedDialect { name: dialect.name, about: dialect.about });
    Listed { id: agent.id.0, title: agent.title, aliases: agent.aliases, dialects: dialects.collect() }
}

/// The agent of that name, or a failure that helps.
pub(crate) fn find(name: &str) -> Result<&'static Agent, Failure> {
    sabir_core::agent::find(name).ok_or_else(|| {
        let known = ALL.iter().flat_map(|agent| std::iter::once(agent.id.0).chain(agent.aliases.iter().copied()));
        let failure = Failure::usage(format!("there is no agent named {name}"));
        match did_you_mean(name, known) {
            Some(meant) => failure.hint(format!("did you mean {meant}? `sabir agents` lists them all")),
            None => failure.hint("`sabir agents` lists them all; `auto` finds out from the stream"),
        }
    })
}
