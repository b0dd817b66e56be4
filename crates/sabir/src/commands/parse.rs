//! `sabir parse`: a recorded or piped stream to events, a result or a view.

use std::io;

use clap::builder::PossibleValuesParser;
use sabir_core::agent::Agent;
use sabir_core::decode::{self, Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, RunId};
use sabir_core::fold::{ResultOptions, SessionResult, SessionResultFold};
use sabir_core::line::Source;
use sabir_core::price::Table;
use sabir_core::view::{self, View};

use super::agents;
use crate::cli::ParseArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::print::human::Human;
use crate::print::json::{Out, object};
use crate::print::{self, hint, warning};

/// What `--to` takes beside the views.
const EVENTS: &str = "events";
const RESULT: &str = "result";
const HUMAN: &str = "human";

/// The values of `--to`.
pub(crate) fn outputs() -> PossibleValuesParser {
    let own = [
        (EVENTS, "the event vocabulary, one JSON object per line"),
        (RESULT, "one object: answer, usage, cost, tools, files, outcome"),
        (HUMAN, "a transcript to read"),
    ];
    let views = view::ALL.iter().map(|entry| (entry.name, entry.about));
    PossibleValuesParser::new(
        own.into_iter().chain(views).map(|(name, about)| clap::builder::PossibleValue::new(name).help(about)),
    )
}

/// A signal by number or name, as its name.
pub(crate) fn signal(text: &str) -> Result<String, String> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
        "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR",
        "SYS",
    ];
    if let Ok(number) = text.parse::<usize>() {
        let name = number.checked_sub(1).and_then(|index| NAMES.get(index));
        return Ok(name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}")));
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if NAMES.contains(&name) {
        Ok(format!("SIG{name}"))
    } else {
        Err(format!("{text} is no signal; give a number or a name like TERM"))
    }
}

pub(crate) fn run(arguments: &ParseArguments) -> Result<Exit, Failure> {
    let agent = match arguments.agent.as_str() {
        "auto" => None,
        name => Some(agents::find(name)?),
    };
    let prices = arguments.prices.as_deref().map(read_prices).transpose()?;
    let mut exit = Exit::Completed;
    for path in &arguments.files {
        let outcome = Input::open(path, arguments.max_line).and_then(|input| parse(arguments, agent, prices.clone(), input));
        match outcome {
            // One bad file does not keep the others from being read.
            Err(failure) if arguments.files.len() > 1 && failure.exit == Exit::BadUsage => {
                print::failure(&failure);
                exit = Exit::BadUsage;
            }
            outcome => outcome?,
        }
    }
    Ok(exit)
}

fn read_prices(path: &std::path::Path) -> Result<Table, Failure> {
    let unusable = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("can't use the price list {}: {why}", path.display()))
            .hint("its form is that of the built-in one; see docs/prices.md")
    };
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
    let own = Table::parse(&text).map_err(|error| unusable(&error))?;
    Ok(Table::embedded().clone().overlay(own))
}

fn parse(
    arguments: &ParseArguments,
    agent: Option<&'static Agent>,
    prices: Option<Table>,
    mut input: Input,
) -> Result<(), Failure> {
    if agent.is_none() && input.looks_binary()? {
        return Err(Failure::usage(format!("{} is not text", input.name))
            .hint("`sabir parse` reads what an agent prints; name the agent with --agent if this really is its output"));
    }
    let run_id = arguments.run_id.clone().unwrap_or_else(|| input.name.clone());
    let mut decoder = Decoder::new(Start { run_id: RunId::from(run_id), agent, agent_version: None, at: None });
    let mut sink = Sink::new(arguments, prices);
    let mut watch = Watch { named: agent, ..Watch::default() };
    let mut out = Out::default();
    let mut spare = Vec::new();
    loop {
        let more = input.fill()?;
        while let Some(raw) = input.next_line() {
            watch.line(raw.bytes.len(), raw.cut);
            let mut events = Event::recycle(spare);
            decoder.line(&raw.to_line(None, Source::Stdout), &mut events);
            for event in &events {
                watch.event(event);
                sink.event(event, out.buffer());
            }
            spare = Event::recycle(events);
            out.write_if_full()?;
        }
        if !more {
            break;
        }
        if input.live {
            out.write()?;
        }
    }
    let mut last = Vec::new();
    if let Some(raw) = input.last_line() {
        watch.line(raw.bytes.len(), raw.cut);
        let mut events = Vec::new();
        decoder.line(&raw.to_line(None, Source::Stdout), &mut events);
        last.extend(events.into_iter().map(Event::into_owned));
    }
    let end = End {
        exit_code: arguments.exit_code,
        signal: arguments.signal.clone(),
        cancelled: arguments.cancelled,
        ..End::default()
    };
    decoder.end(&end, &mut last);
    for event in &last {
        watch.event(event);
        sink.event(event, out.buffer());
    }
    sink.end(out.buffer())?;
    out.write()?;
    watch.tell(&input.name);
    Ok(())
}

/// Where events go.
enum Sink {
    Events,
    Result(Box<SessionResultFold>),
    Human(Box<Human>),
    View(Box<dyn View>),
}

impl Sink {
    fn new(arguments: &ParseArguments, prices: Option<Table>) -> Self {
        let result = ResultOptions { model: arguments.model.clone(), prices };
        match arguments.to.as_str() {
            RESULT => Self::Result(Box::new(SessionResult::fold_with(result))),
            HUMAN => Self::Human(Box::new(Human::new(result, color(), print::width()))),
            name => match view::find(name) {
                Some(entry) => {
                    let options = view::Options {
                        session_id: arguments.session_id.clone(),
                        logs: arguments.logs,
                        ..view::Options::default()
                    };
                    Self::View((entry.new)(&options))
                }
                None => Self::Events,
            },
        }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Events => {
                event.write_json(out);
                out.push(b'\n');
            }
            Self::Result(fold) => fold.event(event),
            Self::Human(human) => human.event(event, out),
            Self::View(view) => view.event(event, out),
        }
    }

    fn end(self, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Events => Ok(()),
            Self::Result(fold) => object(&fold.finish(), out),
            Self::Human(human) => {
                human.end(out);
                Ok(())
            }
            Self::View(mut view) => {
                view.end(out);
                Ok(())
            }
        }
    }
}

/// Whether standard output shows colours.
pub(crate) fn color() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Looks for what the user should be told about the stream.
#[derive(Default)]
struct Watch {
    named: Option<&'static Agent>,
    lines: u64,
    bytes: usize,
    cut: u64,
    unrecognized: u64,
    /// The agent that an unrecognized line is surely of.
    guess: Option<&'static str>,
}

impl Watch {
    fn line(&mut self, bytes: usize, cut: u64) {
        self.lines += 1;
        self.bytes += bytes;
        self.cut += cut;
    }

    fn event(&mut self, event: &Event<'_>) {
        if let EventKind::Unrecognized { raw, .. } = &event.kind {
            self.unrecognized += 1;
            if self.guess.is_none() && self.unrecognized <= 32 {
                self.guess = decode::guess(raw).map(|agent| agent.0);
            }
        }
    }

    fn tell(&self, name: &str) {
        if self.lines == 0 {
            warning(&format!("{name} is empty"));
        }
        if self.cut > 0 {
            warning(&format!("{} bytes of lines that were too long were dropped", self.cut));
            hint("--max-line sets how long a line may be");
        }
        if self.unrecognized == 0 {
            return;
        }
        let mostly = self.unrecognized.saturating_mul(2) >= self.lines;
        match (self.named, self.guess) {
            (Some(named), Some(guess)) if mostly && named.id.0 != guess => {
                warning(&format!("{} of {} lines of {name} are not what {} prints", self.unrecognized, self.lines, named.id));
                hint(&format!("it looks like {guess}: try --agent {guess}"));
            }
            _ => warning(&format!(
                "{} of {} lines of {name} were not recognized; they are kept as they are",
                self.unrecognized, self.lines
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::signal;

    #[test]
    fn signals_have_numbers_and_names() {
        assert_eq!(signal("15").as_deref(), Ok("SIGTERM"));
        assert_eq!(signal("sigint").as_deref(), Ok("SIGINT"));
        assert_eq!(signal("99").as_deref(), Ok("signal 99"));
        assert!(signal("NOPE").is_err());
    }
}
