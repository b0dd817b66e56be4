//! `sabir completions` and `sabir man`.

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::json::Out;

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    let mut out = Out::default();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "sabir", out.buffer());
    out.write()?;
    Ok(Exit::Completed)
}

pub(crate) fn man() -> Result<Exit, Failure> {
    let mut out = Out::default();
    let page = clap_mangen::Man::new(Cli::command());
    page.render(out.buffer()).map_err(|error| Failure::io("writing the manual page failed", &error))?;
    out.write()?;
    Ok(Exit::Completed)
}
