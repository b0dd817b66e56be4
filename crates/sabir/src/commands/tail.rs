//! `sabir tail`: a run of the journal, as it is written.

use std::io;
use std::time::Duration;

use sabir_core::event::Event;
use sabir_store::{Home, Kind, Reader, RunFolder, Waited, prune};

use crate::cli::past::TailArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Options, Output};
use crate::past;
use crate::print::json::Out;

/// How long one waiting takes at most. What comes ends it at once.
const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &TailArguments) -> Result<Exit, Failure> {
    let home = Home::find().map_err(|trouble| Failure::usage(trouble.what).hint("SABIR_HOME names the folder"))?;
    let folder = choose(&home, arguments.id.as_deref())?;
    let id = folder.id().to_owned();
    let failed = |error: &io::Error| super::prune::unreadable(&home, error);
    let mut reader = Reader::of(folder).map_err(|trouble| Failure::usage(trouble.what).hint(trouble.hint))?;
    let mut output = Output::new(output::named(arguments.json, &arguments.to), Options::default());
    let mut out = Out::default();
    loop {
        while let Some(record) = reader.next().map_err(|error| failed(&error))? {
            if record.kind == Kind::Event
                && let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload)
            {
                output.event(&event, out.buffer());
            }
            out.write_if_full()?;
        }
        out.write()?;
        if !arguments.follow || reader.wait(WAIT).map_err(|error| failed(&error))? == Waited::Ended {
            break;
        }
    }
    output.end(&mut |piece| out.record(piece))?;
    out.write()?;
    past::tell_damage(&id, &reader.damage());
    Ok(Exit::Completed)
}

/// The run whose id starts so, or the latest.
fn choose(home: &Home, prefix: Option<&str>) -> Result<RunFolder, Failure> {
    if prefix.is_some_and(str::is_empty) {
        return Err(Failure::usage("the id is empty").hint("`sabir ls` lists the sessions"));
    }
    let stored = prune::stored(home).map_err(|error| super::prune::unreadable(home, &error))?;
    let mut runs: Vec<RunFolder> = stored.into_iter().rev().map(|run| run.folder).collect();
    runs.retain(|run| prefix.is_none_or(|prefix| run.id().starts_with(prefix)));
    match (runs.pop(), prefix) {
        (Some(latest), None) => Ok(latest),
        (Some(run), Some(prefix)) if runs.is_empty() || run.id() == prefix => Ok(run),
        (Some(_), Some(prefix)) => {
            let exact = runs.into_iter().find(|run| run.id() == prefix);
            exact.ok_or_else(|| Failure::usage(format!("several runs start with {prefix}")).hint("give more of the id"))
        }
        (None, Some(prefix)) => Err(Failure::usage(format!("there is no run whose id starts with {prefix}"))
            .hint("`sabir ls` lists the sessions; only what `sabir run` started can be watched")),
        (None, None) => {
            Err(Failure::usage("nothing has been run yet")
                .hint("`sabir run AGENT PROMPT` runs an agent and keeps a journal of it"))
        }
    }
}
