//! `sabir demo`: recorded runs, played as they happened.
//!
//! A recording is a text file: each line is the milliseconds since the start, a tab, and the line that the agent
//! printed then.

use std::time::Duration;

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::RunId;
use sabir_core::fold::ResultOptions;
use sabir_core::line::Line;
use sabir_core::time::Timestamp;

use crate::cli::DemoArguments;
use crate::exit::Exit;
use crate::failure::{Failure, did_you_mean};
use crate::pace::Pace;
use crate::print::human::Human;
use crate::print::json::Out;
use crate::print::{color, width};

/// The agents and their recordings.
const RECORDINGS: [(&str, &str); 3] = [
    ("claude-code", include_str!("../../demo/claude-code.tsv")),
    ("codex", include_str!("../../demo/codex.tsv")),
    ("pi", include_str!("../../demo/pi.tsv")),
];

/// When the recordings start, in milliseconds since 1970: their own times are of that day.
const RECORDED_AT: i64 = 1_794_736_800_000;

/// A speed that can be played.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed >= 0.0 => Ok(speed),
        _ => Err("give a number like 1, 2.5 or 10; 0 is as fast as possible".to_owned()),
    }
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<Exit, Failure> {
    let chosen: Vec<_> = match &arguments.agent {
        None => RECORDINGS.to_vec(),
        Some(name) => {
            let id = sabir_core::agent::find(name).map_or(name.as_str(), |agent| agent.id.0);
            RECORDINGS.into_iter().filter(|(agent, _)| *agent == id).collect()
        }
    };
    if chosen.is_empty() {
        let name = arguments.agent.as_deref().unwrap_or_default();
        let known = RECORDINGS.map(|(agent, _)| agent);
        let failure = Failure::usage(format!("there is no recording of {name}"));
        let listed = format!("there are {}", known.join(", "));
        return Err(failure.hint(did_you_mean(name, known).map_or(listed, |meant| format!("did you mean {meant}?"))));
    }
    let mut out = Out::default();
    for (index, (agent, recording)) in chosen.into_iter().enumerate() {
        if index > 0 {
            out.buffer().push(b'\n');
        }
        play(agent, recording, arguments.speed, &mut out)?;
    }
    Ok(Exit::Completed)
}

fn play(agent: &str, recording: &str, speed: f64, out: &mut Out) -> Result<(), Failure> {
    let mut decoder = Decoder::new(Start { run_id: RunId::from(agent), ..Start::auto() });
    let mut human = Human::new(ResultOptions::default(), color(), width());
    let pace = Pace::new(speed);
    for (index, line) in recording.lines().enumerate() {
        let (millis, text) = line.split_once('\t').unwrap_or(("0", line));
        let due = Duration::from_millis(millis.parse().unwrap_or(0));
        std::thread::sleep(pace.until_after(due));
        let mut events = Vec::new();
        let at = i64::try_from(due.as_millis()).ok().and_then(|millis| Timestamp::from_millis(RECORDED_AT + millis));
        decoder.line(&Line { at, ..Line::of(index as u64 + 1, text) }, &mut events);
        events.iter().for_each(|event| human.event(event, out.buffer()));
        out.write()?;
    }
    let mut events = Vec::new();
    decoder.end(&End { exit_code: Some(0), ..End::default() }, &mut events);
    events.iter().for_each(|event| human.event(event, out.buffer()));
    human.end(out.buffer());
    out.write()
}
