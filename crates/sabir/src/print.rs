//! The only room that writes to the terminal.

pub(crate) mod human;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod table;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use sabir_core::readable;

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
    // Names of files, sessions and models are in it, and whoever wrote a log chose them.
    let _ = writeln!(stderr, "{clear}{style}{word}:{style:#} {}", readable::line(text));
}

/// Prints help, the version, or what is wrong with the command line.
pub(crate) fn usage(error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        drop(error.print());
        return Exit::Completed.into();
    }
    let is_before_subcommand = error.kind() == ErrorKind::ArgumentConflict && error.get(ContextKind::InvalidSubcommand).is_some();
    // The words that were typed are in it. Where one of them could steer the terminal, our colours can't be told from it.
    let is_harmless = std::env::args_os().all(|word| !word.to_string_lossy().contains(readable::steers));
    let text = if is_harmless { error.render().ansi().to_string() } else { without_steering(error) };
    let what = text.split_once("\nFor more information, try ").map(|(what, _)| what);
    let _ = writeln!(anstream::stderr(), "{}", what.unwrap_or(&text).trim_end());
    if is_before_subcommand {
        hint("options of a subcommand stand after it; its --help lists them");
    } else if what.is_some() {
        // What to do about it is said as everywhere else.
        hint("the same with --help says what can be given");
    }
    Exit::BadUsage.into()
}

/// What is wrong with a command line, in its lines but without colours: words of the user are on one line each.
fn without_steering(mut error: clap::Error) -> String {
    let words = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(word) => Some((kind, ContextValue::String(readable::line(word)))),
        ContextValue::Strings(words) => {
            Some((kind, ContextValue::Strings(words.iter().map(|word| readable::line(word)).collect())))
        }
        _ => None,
    });
    for (kind, value) in words.collect::<Vec<_>>() {
        error.insert(kind, value);
    }
    readable::text(&error.render().to_string())
}

/// Whether standard output shows colours.
pub(crate) fn color() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Width of transcripts: that of the terminal, or what fits everywhere.
pub(crate) fn width() -> usize {
    columns().unwrap_or(100).clamp(20, 160)
}

/// Width of tables: that of the terminal; unlimited where a program reads them.
pub(crate) fn table_width() -> usize {
    let is_read_by_program = !std::io::stdout().is_terminal() && columns_set().is_none();
    if is_read_by_program { usize::MAX } else { columns().unwrap_or(100).max(20) }
}

/// The columns of the terminal, or those that `COLUMNS` sets.
fn columns() -> Option<usize> {
    columns_set().or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
}

fn columns_set() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0)
}
