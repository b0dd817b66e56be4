//! `sabir show`: one session as people read it.

use sabir_core::event::Event;

use crate::cli::past::ShowArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{EVENTS, Options, Output};
use crate::past;
use crate::print::json::Out;

pub(crate) fn run(arguments: &ShowArguments) -> Result<Exit, Failure> {
    let past = past::load(None, true);
    let session = past.session(&arguments.id)?;
    let mut out = Out::default();
    if arguments.raw {
        past.raw(session, &mut |bytes| {
            out.buffer().extend_from_slice(bytes);
            out.write_if_full()
        })?;
        out.write()?;
        return Ok(Exit::Completed);
    }
    let name = if arguments.json { EVENTS } else { &arguments.to };
    let mut output = Output::new(name, Options::default());
    let mut written = Ok(());
    past.decode(session, &mut |event: &Event<'_>| {
        if written.is_ok() {
            output.event(event, out.buffer());
            written = out.write_if_full();
        }
    })
    .map_err(|error| Failure::io(format_args!("reading session {} failed", session.id), &error))?;
    written?;
    output.end(out.buffer())?;
    out.write()?;
    Ok(Exit::Completed)
}
