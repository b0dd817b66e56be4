//! `sabir replay`: a session once more, with today's dialects; and `sabir export`: in other words.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use sabir_core::event::Event;
use sabir_store::account::Session;
use sabir_store::whole;
use similar::{Algorithm, DiffTag};

use super::page;
use crate::cli::past::{ExportArguments, ReplayArguments};
use crate::commands::agents::registry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Options, Output};
use crate::pace::Pace;
use crate::past::{self, Past};
use crate::print;
use crate::print::json::Out;
use crate::target::Target;

/// How many differences are told one by one.
const TOLD: usize = 20;
/// How long the shortest list of differences is looked for; after that, a longer one will do.
const LOOKING: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &ReplayArguments) -> Result<Exit, Failure> {
    let past = past::load(None, true);
    let session = past.session(&arguments.id)?;
    if arguments.diff {
        return differences(&past, session);
    }
    let mut output = Output::new(output::named(arguments.json, &arguments.to), Options::default());
    let mut out = Out::default();
    let mut pace = Pace::new(arguments.speed);
    let mut written = Ok(());
    anew(&past, session, &mut |event| {
        if written.is_ok() {
            let wait = pace.until(event.at);
            if !wait.is_zero() {
                written = out.write();
                thread::sleep(wait);
            }
            output.event(event, out.buffer());
            if written.is_ok() {
                written = out.write_if_full();
            }
        }
    })?;
    written?;
    output.end(&mut |piece| out.record(piece))?;
    out.write()?;
    Ok(Exit::Completed)
}

fn anew(past: &Past, session: &Session, take: &mut dyn FnMut(&Event<'_>)) -> Result<(), Failure> {
    let read = match whole::run_of(session, &past.logs) {
        Some(folder) => whole::decoded_anew(folder, registry(), take).map(|damage| past::tell_damage(folder.id(), &damage)),
        None => past.decode(session, take),
    };
    read.map_err(|error: io::Error| Failure::io(format_args!("reading session {} failed", session.id), &error))
}

/// Compares the events that were made then with those that are made now. Of a session that its agent logged, those of the run
/// that was its last part.
fn differences(past: &Past, session: &Session) -> Result<Exit, Failure> {
    let of_run = |run: &&Session| run.logs.first().copied() == session.run;
    let session = past.parts.iter().find(of_run).unwrap_or(session);
    if whole::run_of(session, &past.logs).is_none() {
        return Err(Failure::usage(format!("session {} was not run by Sabir, so no events were made then", session.id))
            .hint("`sabir replay` without --diff decodes its log"));
    }
    let mut then = Vec::new();
    past.decode(session, &mut |event| then.push(told(event)))
        .map_err(|error| Failure::io(format_args!("reading session {} failed", session.id), &error))?;
    let mut now = Vec::new();
    anew(past, session, &mut |event| now.push(told(event)))?;
    let mut out = Out::default();
    let (mut count, mut told_of) = (0, 0);
    let deadline = Instant::now() + LOOKING;
    for change in similar::capture_diff_slices_deadline(Algorithm::Myers, &then, &now, Some(deadline)) {
        if change.tag() == DiffTag::Equal {
            continue;
        }
        let sides = [("-", &then, change.old_range()), ("+", &now, change.new_range())];
        let lines = sides
            .into_iter()
            .flat_map(|(sign, events, places)| places.map(move |place| format!("{sign} {} {}\n", place + 1, events[place])));
        for line in lines.take(TOLD.saturating_sub(told_of)) {
            out.buffer().extend_from_slice(line.as_bytes());
            told_of += 1;
        }
        count += change.old_range().len().max(change.new_range().len());
    }
    out.write()?;
    match count {
        0 => print::note("this version makes the same events"),
        count => print::note(&format!("{count} of {} events differ", then.len().max(now.len()))),
    }
    Ok(if count == 0 { Exit::Completed } else { Exit::Failed })
}

/// What an event tells, without its number and time.
fn told(event: &Event<'_>) -> String {
    let mut line = Vec::new();
    event.kind.write_json(&mut line);
    String::from_utf8_lossy(&line).into_owned()
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<Exit, Failure> {
    let past = past::load(None, true);
    let session = past.session(&arguments.id)?;
    if arguments.to == output::HTML {
        return page::export(&past, session, arguments.output.as_deref());
    }
    let mut output = Output::new(output::named(arguments.json, &arguments.to), Options::default());
    let mut out = Out::default();
    let mut file = arguments.output.as_deref().map(Target::create).transpose()?;
    let mut flush = |out: &mut Out| match &mut file {
        Some(file) => {
            let written = file.write(out.buffer());
            out.buffer().clear();
            written
        }
        None => out.write(),
    };
    let mut written = Ok(());
    past.decode(session, &mut |event| {
        if written.is_ok() {
            output.event(event, out.buffer());
            if out.is_full() {
                written = flush(&mut out);
            }
        }
    })
    .map_err(|error| Failure::io(format_args!("reading session {} failed", session.id), &error))?;
    written?;
    output.end(&mut |piece| {
        out.buffer().extend_from_slice(piece);
        if out.is_full() { flush(&mut out) } else { Ok(()) }
    })?;
    flush(&mut out)?;
    file.map_or(Ok(()), Target::finish)?;
    Ok(Exit::Completed)
}
