//! `sabir parse`: a recorded or piped stream to events, a result or a view.

use std::sync::Arc;

use sabir_core::agent::{Agent, Form};
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, RunId, Started, Unrecognized};
use sabir_core::fold::ResultOptions;
use sabir_core::line::Source;
use sabir_core::price::Table;

use super::agents;
use crate::cli::ParseArguments;
use crate::commands::agents::registry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::output::{self, Output};
use crate::print::json::Out;
use crate::print::{self, hint, warning};

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
    let agent = agents::find_or_auto(&arguments.agent)?;
    let prices = arguments.prices.as_deref().map(output::read_prices).transpose()?;
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

fn parse(
    arguments: &ParseArguments,
    agent: Option<&'static Arc<Agent>>,
    prices: Option<Table>,
    mut input: Input,
) -> Result<(), Failure> {
    if agent.is_none() && input.looks_binary()? {
        return Err(Failure::usage(format!("{} is not text", input.name))
            .hint("`sabir parse` reads what an agent prints; name the agent with --agent if this really is its output"));
    }
    let run_id = arguments.run_id.clone().unwrap_or_else(|| input.name.clone());
    let mut decoder =
        Decoder::new(Start { run_id: RunId::from(run_id), agent: agent.cloned(), ..Start::detect(registry().clone()) });
    let options = output::Options {
        result: ResultOptions { model: arguments.model.clone(), prices },
        session_id: arguments.session_id.clone(),
        logs: arguments.logs,
        ..output::Options::default()
    };
    let mut sink = Output::new(&arguments.to, options);
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
    sink.end(&mut |piece| out.record(piece))?;
    out.write()?;
    watch.tell(&input.name);
    Ok(())
}

/// Whether an agent prints JSON in any of its dialects.
fn is_json(agent: &Agent) -> bool {
    agent.dialects.iter().any(|dialect| dialect.form == Form::Json)
}

/// Looks for what the user should be told about the stream.
#[derive(Default)]
struct Watch {
    named: Option<&'static Arc<Agent>>,
    lines: u64,
    bytes: usize,
    cut: u64,
    unrecognized: u64,
    /// The agent that an unrecognized line is surely of.
    guess: Option<&'static Arc<Agent>>,
    /// The agent, where it is only the most likely one.
    guessed: Option<String>,
}

impl Watch {
    fn line(&mut self, bytes: usize, cut: u64) {
        self.lines += 1;
        self.bytes += bytes;
        self.cut += cut;
    }

    fn event(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Started(Started { agent, detection: Some(_), .. })
                if registry().find(agent).is_some_and(|agent| is_json(agent)) =>
            {
                self.guessed = Some(agent.clone().into_owned());
            }
            EventKind::Unrecognized(Unrecognized { raw, .. }) => {
                self.unrecognized += 1;
                if self.guess.is_none() && self.unrecognized <= 32 {
                    self.guess = registry().detect_line(raw);
                }
            }
            _ => {}
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
        if let Some(agent) = &self.guessed {
            warning(&format!("the agent of {name} is a guess: other agents print the same fields as {agent}"));
            hint(&format!("name it with --agent, e.g. --agent {agent}"));
        }
        if self.unrecognized == 0 {
            return;
        }
        let mostly = self.unrecognized.saturating_mul(2) >= self.lines;
        match (self.named, self.guess) {
            (Some(named), Some(guess)) if mostly && named.id != guess.id => {
                warning(&format!("{} of {} lines of {name} are not what {} prints", self.unrecognized, self.lines, named.id));
                hint(&format!("it looks like {0}: try --agent {0}", guess.id));
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
