//! An agent that does again what another did.

use std::time::Duration;

use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, RunId};
use sabir_core::fold::{SessionResult, SessionResultFold};
use sabir_core::line::Line;
use sabir_hub::now;
use sabir_shell::SessionLog;
use sabir_shell::adapter::{Adapter, AdapterContext, AgentInput, Completion, InputRejected, RunFuture};
use tokio::sync::watch;

use super::{Recording, recorded};
use crate::commands::agents::registry;
use crate::pace::Pace;

/// What hears of the events beside the log.
pub(super) type Ear = Box<dyn FnMut(&Event<'_>)>;

/// Plays a recording to its log.
pub(super) struct Player {
    recording: Recording,
    speed: f64,
    cancelled: watch::Sender<bool>,
    /// Taken by the run: there is one.
    ear: Option<Ear>,
}

impl Player {
    pub(super) fn new(recording: Recording, speed: f64, ear: Ear) -> Self {
        Self { recording, speed, cancelled: watch::Sender::new(false), ear: Some(ear) }
    }
}

impl Adapter for Player {
    fn name(&self) -> &str {
        self.recording.agent
    }

    fn accepted_commands(&self) -> &'static [&'static str] {
        &["cancel"]
    }

    fn accepts(&self, _: &AdapterContext, input: AgentInput<'_>) -> Result<(), InputRejected> {
        match input {
            AgentInput::Prompt { .. } if self.ear.is_some() => Ok(()),
            _ => Err(InputRejected("a recording does only what was recorded".to_owned())),
        }
    }

    fn on_input(&mut self, context: &AdapterContext, _: AgentInput<'_>) -> Result<Option<RunFuture>, InputRejected> {
        let Some(ear) = self.ear.take() else { return Ok(None) };
        let stage = Stage { log: context.log.clone(), ear, fold: SessionResult::fold() };
        Ok(Some(Box::pin(play(self.recording, self.speed, self.cancelled.subscribe(), stage))))
    }

    fn on_cancel(&mut self, _: &AdapterContext, _: Option<&str>) {
        self.cancelled.send_replace(true);
    }
}

/// Says what was said then, when it is due.
async fn play(recording: Recording, speed: f64, mut cancelled: watch::Receiver<bool>, mut stage: Stage) -> Completion {
    let run_id = RunId::from(uuid::Uuid::now_v7().to_string());
    let agent = registry().find(recording.agent).cloned();
    let known = agent.map_or_else(|| Start::detect(registry().clone()), Start::of);
    let mut decoder = Decoder::new(Start { run_id, at: recorded(Duration::ZERO), structured: true, ..known });
    let mut events = Vec::new();
    decoder.begin(&mut events);
    stage.say(events);
    let pace = Pace::new(speed);
    let mut end = End { exit_code: Some(0), ..End::default() };
    let mut last = Duration::ZERO;
    for (number, (due, text)) in (1..).zip(recording.lines()) {
        let stopped = tokio::select! {
            () = tokio::time::sleep(pace.until_after(due)) => false,
            _ = cancelled.wait_for(|cancelled| *cancelled) => true,
        };
        if stopped {
            end = End { cancelled: true, ..End::default() };
            break;
        }
        let mut events = Vec::new();
        // The times of then, as some agents print their own with each line: how long something took is between the two.
        decoder.line(&Line { at: recorded(due), ..Line::of(number, text) }, &mut events);
        last = due;
        stage.say(events);
    }
    let mut events = Vec::new();
    decoder.end(&End { at: recorded(last), ..end }, &mut events);
    stage.say(events);
    Completion { outcome: stage.fold.finish().outcome, cause: None, killed: false }
}

/// Where what is said is heard.
struct Stage {
    log: SessionLog,
    ear: Ear,
    fold: SessionResultFold,
}

impl Stage {
    /// What is played now happens now, whatever time stands in the recording.
    fn say(&mut self, events: Vec<Event<'_>>) {
        for event in events {
            let event = Event { at: Some(now()), ..event };
            self.fold.event(&event);
            self.log.event(&event);
            (self.ear)(&event);
        }
    }
}
