//! `sabir show`: one session as people read it.

use sabir_core::event::{Event, EventKind};
use sabir_store::account::Session;
use sabir_store::{RunFolder, summary, whole};

use crate::cli::past::ShowArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, HUMAN, Options, Output};
use crate::past;
use crate::print::json::Out;

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
    let name = output::named(arguments.json, &arguments.to);
    let mut output = Output::new(name, Options { diffs: true, ..Options::default() });
    let mut written = Ok(());
    let mut prompt = if name == HUMAN { whole::run_of(session, &past.logs).and_then(prompt_of) } else { None };
    past.decode(session, &mut |event: &Event<'_>| {
        if written.is_ok() {
            output.event(event, out.buffer());
            if let Some(text) = prompt.take() {
                output.event(&Event { kind: EventKind::Prompt { text: text.into() }, ..event.clone() }, out.buffer());
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

/// What a run was asked, which is no event of it: logs tell their prompts, and programs know what they asked.
fn prompt_of(folder: &RunFolder) -> Option<String> {
    summary::summary(folder).ok()?.meta.map(|meta| meta.prompt).filter(|prompt| !prompt.is_empty())
}

fn unreadable(session: &Session, error: &std::io::Error) -> Failure {
    Failure::io(format_args!("reading session {} failed", session.id), error)
}
