//! Where the events of a run go: one choice for every command that has events.

use std::io::IsTerminal as _;
use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser};
use sabir_core::event::{Event, EventKind, Final};
use sabir_core::export::Exporter;
use sabir_core::fold::{ResultOptions, SessionResult, SessionResultFold};
use sabir_core::price::Table;

use crate::failure::Failure;
use crate::journal::Recording;
use crate::print::human::Human;
use crate::print::json::object;
use crate::print::{color, width};
use crate::result::ResultJson;

/// What `--to` takes beside the views.
pub(crate) const EVENTS: &str = "events";
pub(crate) const RESULT: &str = "result";
pub(crate) const HUMAN: &str = "human";
pub(crate) const ANSWER: &str = "answer";

/// The values of `--to`.
pub(crate) fn names() -> PossibleValuesParser {
    parser(own_and_views())
}

fn own_and_views() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = [
        (EVENTS, "the event vocabulary, one JSON object per line"),
        (RESULT, "one object: answer, usage, cost, tools, files, outcome"),
        (HUMAN, "a transcript to read"),
        (ANSWER, "the answer alone"),
    ];
    own.into_iter().chain(sabir_export::FORMATS.iter().map(|entry| (entry.name, entry.about)))
}

fn parser(names: impl Iterator<Item = (&'static str, &'static str)>) -> PossibleValuesParser {
    PossibleValuesParser::new(names.map(|(name, about)| PossibleValue::new(name).help(about)))
}

/// The name of the page.
pub(crate) const HTML: &str = "html";

/// The same names, and the page.
pub(crate) fn names_and_page() -> PossibleValuesParser {
    let page = (HTML, "one file with all of the page in it, to open in a browser");
    parser(own_and_views().chain([page]))
}

/// The output that is asked for: `--json` is short for events.
pub(crate) fn named(json: bool, to: &str) -> &str {
    if json { EVENTS } else { to }
}

/// What an output is told beside the events.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) result: ResultOptions,
    pub(crate) session_id: Option<String>,
    pub(crate) logs: bool,
    /// A transcript shows what was changed in files.
    pub(crate) diffs: bool,
}

/// Turns events into what is printed.
pub(crate) enum Output {
    Events,
    Result(Box<ResultJson>),
    /// A result over several lines, for a person.
    Readable(Box<SessionResultFold>),
    Human(Box<Human>),
    Answer,
    View(Box<dyn Exporter>),
}

impl Output {
    /// The output of that name.
    pub(crate) fn new(name: &str, options: Options) -> Self {
        match name {
            RESULT if std::io::stdout().is_terminal() => Self::Readable(Box::new(SessionResult::fold_with(options.result))),
            RESULT => Self::Result(Box::new(ResultJson::new(options.result))),
            HUMAN => {
                let human = Human::new(options.result, color(), width());
                Self::Human(Box::new(if options.diffs { human.with_diffs() } else { human }))
            }
            ANSWER => Self::Answer,
            name => match sabir_export::find(name) {
                Some(entry) => {
                    let Options { session_id, logs, .. } = options;
                    Self::View((entry.new)(&sabir_core::export::Options {
                        session_id,
                        logs,
                        ..sabir_core::export::Options::default()
                    }))
                }
                None => Self::Events,
            },
        }
    }

    /// Appends what an event gives.
    pub(crate) fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Events => {
                event.write_json(out);
                out.push(b'\n');
            }
            Self::Result(result) => result.event(event),
            Self::Readable(fold) => fold.event(event),
            Self::Human(human) => human.event(event, out),
            Self::Answer => {
                if let EventKind::Final(Final { text, .. }) = &event.kind {
                    out.extend_from_slice(text.as_bytes());
                    if !text.ends_with('\n') {
                        out.push(b'\n');
                    }
                }
            }
            Self::View(view) => view.event(event, out),
        }
    }

    /// The same, and the event goes into the journal too.
    pub(crate) fn event_and_record(&mut self, event: &Event<'_>, out: &mut Vec<u8>, recording: &mut Recording) {
        let start = out.len();
        self.event(event, out);
        // What was written as JSON for the user need not be written again.
        let json = if matches!(self, Self::Events) { out[start..].strip_suffix(b"\n") } else { None };
        recording.event(event, json);
    }

    /// Hands out what only the end gives, piece by piece: it may be more than there is memory.
    pub(crate) fn end(self, take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut rest = Vec::new();
        match self {
            Self::Events | Self::Answer => {}
            Self::Result(result) => {
                result.finish()?.give(take)?;
                rest.push(b'\n');
            }
            Self::Readable(fold) => object(&fold.finish(), &mut rest)?,
            Self::Human(human) => human.end(&mut rest),
            Self::View(mut view) => view.end(&mut rest),
        }
        take(&rest)
    }

    /// One line about the run so far, for people who wait.
    pub(crate) fn meter(&self) -> Option<String> {
        match self {
            Self::Human(human) => Some(human.meter()),
            _ => None,
        }
    }
}

/// Takes pieces by putting them behind what is there.
pub(crate) fn onto(bytes: &mut Vec<u8>) -> impl FnMut(&[u8]) -> Result<(), Failure> {
    |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    }
}

/// The built-in prices with those of a file on top.
pub(crate) fn read_prices(path: &Path) -> Result<Table, Failure> {
    let unusable = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("can't use the price list {}: {why}", path.display()))
            .hint("its form is that of the built-in one; see docs/prices.md")
    };
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
    let own = Table::parse(&text).map_err(|error| unusable(&error))?;
    Ok(Table::embedded().clone().overlay(own))
}
