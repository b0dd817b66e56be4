//! `sabir demo`: recorded runs, played as they happened, through the whole path.
//!
//! ```text
//!   recordings ──► shells ──► a hub of their own, in a temporary folder ──► the page
//!        └────────► the terminal
//! ```
//!
//! A recording is a text file: each line is the milliseconds since the start, a tab, and the line that the agent
//! printed then.

mod path;
mod player;
mod screen;

use std::time::Duration;

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::RunId;
use sabir_core::fold::ResultOptions;
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use crate::cli::DemoArguments;
use crate::commands::agents::registry;
use crate::exit::Exit;
use crate::failure::{Failure, did_you_mean};
use crate::pace::Pace;
use crate::print::human::Human;
use crate::print::json::Out;
use crate::print::{color, width};

/// A run that was recorded.
#[derive(Debug, Clone, Copy)]
struct Recording {
    agent: &'static str,
    /// What the agent was asked.
    prompt: &'static str,
    text: &'static str,
}

/// The recordings.
const RECORDINGS: [Recording; 3] = [
    Recording {
        agent: "claude-code",
        prompt: "The tests of stats.py fail. Find out why and mend it.",
        text: include_str!("../../demo/claude-code.tsv"),
    },
    Recording {
        agent: "codex",
        prompt: "Write the changelog of 1.4.1 and check its links.",
        text: include_str!("../../demo/codex.tsv"),
    },
    Recording { agent: "pi", prompt: "How many lines of Rust are there?", text: include_str!("../../demo/pi.tsv") },
];

impl Recording {
    /// The lines, each with the time after the beginning at which it came.
    fn lines(self) -> impl Iterator<Item = (Duration, &'static str)> {
        self.text.lines().map(|line| {
            let (millis, text) = line.split_once('\t').unwrap_or(("0", line));
            (Duration::from_millis(millis.parse().unwrap_or(0)), text)
        })
    }
}

/// When the recordings start, in milliseconds since 1970: their own times are of that day.
const RECORDED_AT: i64 = 1_794_736_800_000;

/// When something happened that is so long after the beginning of a recording.
fn recorded(due: Duration) -> Option<Timestamp> {
    i64::try_from(due.as_millis()).ok().and_then(|millis| Timestamp::from_millis(RECORDED_AT + millis))
}

/// A speed that can be played.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed >= 0.0 => Ok(speed),
        _ => Err("give a number like 1, 2.5 or 10; 0 is as fast as possible".to_owned()),
    }
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<Exit, Failure> {
    let chosen: Vec<Recording> = match &arguments.agent {
        None => RECORDINGS.to_vec(),
        Some(name) => {
            let id = registry().find(name).map_or(name.as_str(), |agent| agent.id.as_str());
            RECORDINGS.into_iter().filter(|recording| recording.agent == id).collect()
        }
    };
    if chosen.is_empty() {
        let name = arguments.agent.as_deref().unwrap_or_default();
        let known = RECORDINGS.map(|recording| recording.agent);
        let failure = Failure::usage(format!("there is no recording of {name}"));
        let listed = format!("there are {}", known.join(", "));
        return Err(failure.hint(did_you_mean(name, known).map_or(listed, |meant| format!("did you mean {meant}?"))));
    }
    if !arguments.no_page {
        return path::run(&chosen, arguments);
    }
    let mut out = Out::default();
    for (index, recording) in chosen.into_iter().enumerate() {
        if index > 0 {
            out.buffer().push(b'\n');
        }
        play(recording, arguments.speed, &mut out)?;
    }
    Ok(Exit::Completed)
}

/// Plays a recording to the terminal alone.
fn play(recording: Recording, speed: f64, out: &mut Out) -> Result<(), Failure> {
    let mut decoder = Decoder::new(Start { run_id: RunId::from(recording.agent), ..Start::detect(registry().clone()) });
    let mut human = Human::new(ResultOptions::default(), color(), width());
    let pace = Pace::new(speed);
    for (number, (due, text)) in (1..).zip(recording.lines()) {
        std::thread::sleep(pace.until_after(due));
        let mut events = Vec::new();
        decoder.line(&Line { at: recorded(due), ..Line::of(number, text) }, &mut events);
        events.iter().for_each(|event| human.event(event, out.buffer()));
        out.write()?;
    }
    let mut events = Vec::new();
    decoder.end(&End { exit_code: Some(0), ..End::default() }, &mut events);
    events.iter().for_each(|event| human.event(event, out.buffer()));
    human.end(out.buffer());
    out.write()
}
