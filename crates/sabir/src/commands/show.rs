//! `sabir show`: one session as people read it.

use sabir_core::event::Event;
use sabir_store::account::Session;
use sabir_store::whole;

use crate::cli::past::ShowArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Options, Output};
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
        whole::raw(session, &past.logs, &mut take).map_err(|error| unreadable(session, &error))?;
        written?;
        out.write()?;
        return Ok(Exit::Completed);
    }
    let name = output::named(arguments.json, &arguments.to);
    let mut output = Output::new(name, Options { diffs: true, ..Options::default() });
    let mut written = Ok(());
    past.decode(session, &mut |event: &Event<'_>| {
        if written.is_ok() {
            output.event(event, out.buffer());
            written = out.write_if_full();
        }
    })
    .map_err(|error| unreadable(session, &error))?;
    written?;
    output.end(&mut |piece| out.record(piece))?;
    out.write()?;
    Ok(Exit::Completed)
}

fn unreadable(session: &Session, error: &std::io::Error) -> Failure {
    Failure::io(format_args!("reading session {} failed", session.id), error)
}
