//! `sabir show`: one session as people read it.

use std::io::Write as _;

use sabir_core::event::{Event, EventKind, Prompt};
use sabir_core::readable;
use sabir_store::account::Session;
use sabir_store::{RunFolder, summary, whole};

use crate::cli::past::ShowArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, HUMAN, Options, Output};
use crate::past::{self, Past};
use crate::print::json::Out;
use crate::print::table::fit;
use crate::print::{color, width};

pub(crate) fn run(arguments: &ShowArguments) -> Result<Exit, Failure> {
    let past = past::load(None, true);
    let session = past.session(&arguments.id)?;
    let mut out = Out::default();
    if arguments.raw {
        let mut written = Ok(());
        let mut take = |bytes: &[u8]| {
            out.buffer().extend_from_slice(bytes);
            written = out.write_if_full();
            written.is_ok()
        };
        let damage = whole::raw(session, &past.logs, &mut take).map_err(|error| unreadable(session, &error))?;
        written?;
        past::tell_damage(&session.id, &damage);
        out.write()?;
        return Ok(Exit::Completed);
    }
    if let Some(seq) = arguments.event {
        return excerpt(&past, session, seq, arguments.context, arguments.json);
    }
    let name = output::named(arguments.json, &arguments.to);
    let mut output = Output::new(name, Options { diffs: true, ..Options::default() });
    let mut written = Ok(());
    let mut prompt = if name == HUMAN { whole::run_of(session, &past.logs).and_then(prompt_of) } else { None };
    past.decode(session, &mut |event: &Event<'_>| {
        if written.is_ok() {
            output.event(event, out.buffer());
            if let Some(text) = prompt.take() {
                output.event(&Event { kind: EventKind::Prompt(Prompt::new(text)), ..event.clone() }, out.buffer());
            }
            written = out.write_if_full();
        }
    })
    .map_err(|error| unreadable(session, &error))?;
    written?;
    output.end(&mut |piece| out.record(piece))?;
    out.write()?;
    Ok(Exit::Completed)
}

/// How many lines of an event beside the one that is meant are shown.
const BESIDE: usize = 4;

/// Prints an event whole, and the beginnings of those around it.
fn excerpt(past: &Past, session: &Session, seq: u64, context: u64, json: bool) -> Result<Exit, Failure> {
    let mut out = Out::default();
    let (mut last, mut is_there) = (0, false);
    past.decode(session, &mut |event: &Event<'_>| {
        last = event.seq;
        if event.seq.abs_diff(seq) > context {
            return;
        }
        is_there |= event.seq == seq;
        if json {
            event.write_json(out.buffer());
            out.buffer().push(b'\n');
        } else {
            describe(event, event.seq == seq, out.buffer());
        }
    })
    .map_err(|error| unreadable(session, &error))?;
    if !is_there {
        let ids = past::ShortIds::new(past);
        return Err(Failure::usage(format!("session {} has no event {seq}", ids.of(&session.id)))
            .hint(format!("its events are numbered from 1 to {last}; `sabir show {} --json` prints all", ids.of(&session.id))));
    }
    out.write()?;
    Ok(Exit::Completed)
}

/// One event with its number: its text where it has one, else its fields.
fn describe(event: &Event<'_>, is_meant: bool, out: &mut Vec<u8>) {
    let at = event.at.map_or_else(String::new, |at| format!("  {at}"));
    let head = format!("{} {}{at}  {}", if is_meant { ">" } else { " " }, event.seq, event.kind.tag());
    let style = if !color() {
        anstyle::Style::new()
    } else if is_meant {
        anstyle::Style::new().bold()
    } else {
        anstyle::Style::new().dimmed()
    };
    let _ = writeln!(out, "{style}{head}{style:#}");
    let text = match event.kind.said() {
        Some(text) => readable::text(text),
        None => {
            let mut fields = Vec::new();
            event.kind.write_json(&mut fields);
            readable::line(&String::from_utf8_lossy(&fields))
        }
    };
    let most = if is_meant { usize::MAX } else { BESIDE };
    for line in text.lines().take(most) {
        let line = if is_meant { line.to_owned() } else { fit(line, width().saturating_sub(4)) };
        let _ = writeln!(out, "    {line}");
    }
    if text.lines().count() > most {
        let _ = writeln!(out, "    …");
    }
}

/// What a run was asked, which is no event of it: logs tell their prompts, and programs know what they asked.
fn prompt_of(folder: &RunFolder) -> Option<String> {
    summary::summary(folder).ok()?.meta.map(|meta| meta.prompt).filter(|prompt| !prompt.is_empty())
}

fn unreadable(session: &Session, error: &std::io::Error) -> Failure {
    Failure::io(format_args!("reading session {} failed", session.id), error)
}
