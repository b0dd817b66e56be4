//! The only room that writes to the terminal.

pub(crate) mod human;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod table;

use std::io::Write as _;
use std::process::ExitCode;

use crate::exit::Exit;
use crate::failure::Failure;

/// Bold red.
const ERROR: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
/// Bold yellow.
const WARNING: anstyle::Style = anstyle::AnsiColor::Yellow.on_default().bold();
/// Bold cyan.
const HINT: anstyle::Style = anstyle::AnsiColor::Cyan.on_default().bold();

/// Says why the program ends. A standard error that can't be written to has nobody who reads it.
pub(crate) fn failure(failure: &Failure) {
    talk(ERROR, "error", &failure.what);
    if let Some(text) = &failure.hint {
        hint(text);
    }
}

/// Says something that the user should know and that ends nothing.
pub(crate) fn warning(text: &str) {
    talk(WARNING, "warning", text);
}

/// Says what is going on.
pub(crate) fn note(text: &str) {
    talk(HINT, "note", text);
}

/// Says what the user may do.
pub(crate) fn hint(text: &str) {
    talk(HINT, "hint", text);
}

fn talk(style: anstyle::Style, word: &str, text: &str) {
    let mut stderr = anstream::stderr();
    // The line that moves during a run may stand here.
    let clear = if stderr.is_terminal() { "\r\x1b[2K" } else { "" };
    let _ = writeln!(stderr, "{clear}{style}{word}:{style:#} {text}");
}

/// Prints help, the version, or what is wrong with the command line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    match text.split_once("\nFor more information, try ") {
        // What to do about it is said as everywhere else.
        Some((what, _)) if error.use_stderr() => {
            let _ = writeln!(anstream::stderr(), "{}", what.trim_end());
            hint("the same with --help says what can be given");
        }
        _ => drop(error.print()),
    }
    if error.use_stderr() { Exit::BadUsage.into() } else { Exit::Completed.into() }
}

/// Whether standard output shows colours.
pub(crate) fn color() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Width of the terminal, or what fits everywhere.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0)).clamp(20, 160)
}
